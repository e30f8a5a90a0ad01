"""The parent process: starts worker processes, replaces those that end, keeps their leases, and stops them.

It runs no code of the user. Everything happens on one event loop, in plain methods: called when a worker process sends
its status or ends, when a signal comes, or by a timer. Nothing here may block that loop, because it sends the
heartbeats of all workers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tenure.core import limits
from tenure.core.text import how_it_ended
from tenure.processes.child import WorkerProcess
from tenure.processes.config import ParentConfig
from tenure.processes.health import Health, HealthReporter
from tenure.processes.keeper import KeeperDrivers
from tenure.processes.messages import WorkerState
from tenure.processes.metrics import WorkerTotals, metrics_port
from tenure.processes.reload import RELOAD_GRACE_MS, follow_changes
from tenure.processes.restart import RollingRestart
from tenure.processes.slots import Slot
from tenure.processes.spawn import FirstProcess, Spawned, handled_signals, spawn
from tenure.processes.status import Status
from tenure.processes.system import has_terminal
from tenure.runtime.log import brief, log_event

START_MS: Final = limits.MINUTE
"""A worker process that is not ready after this time is logged. A rolling restart stops there."""
FAILURES_MOST: Final = 10
"""When this many in a row ended before they were ready, and no other is ready, the parent ends."""


class Parent:
    """Runs worker processes until a signal stops it. Run it once. `first`: a process that was started already.

    status = asyncio.run(Parent(ParentConfig(command, processes=4)).run())
    """

    def __init__(self, config: ParentConfig, first: FirstProcess | None = None) -> None:
        self._config = config
        self._first = first
        self._slots = [Slot(number) for number in range(config.processes)]
        for slot in self._slots:
            slot.is_wanted = config.steer is None
        self._restart = RollingRestart(self._slots, lambda slot: self._launch(slot, successor=True))
        self._children: set[WorkerProcess] = set()
        self._releases: set[asyncio.Task[None]] = set()
        """Release the jobs of processes that have ended."""
        self._drivers = KeeperDrivers()
        self._totals = WorkerTotals(lambda: [child.status for child in self._children])
        self._metrics = metrics_port("--metrics-port 9465", self._totals.read)
        self._has_terminal = has_terminal()  # here: a terminal that has ended is not one any more
        self._level = logging.INFO if config.processes > 1 else logging.DEBUG
        """For events that do not matter to a user with a single worker process."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop_signals = 0
        self._stopping = False
        self._status: int = Status.DONE
        self._reloading = False
        self._code_works = False
        """Whether a process has been ready since the last reload. Until then only the first slot is filled."""
        self._ever_ready = False
        self._failures = 0
        """How many in a row ended before they were ready."""

    async def run(self) -> int:
        """Run until a signal; in a burst, until no job is ready. Returns the exit status.

        Raises `NotConfigured` when the port of health or metrics cannot be opened.
        """
        loop = asyncio.get_running_loop()
        self._all_ended: asyncio.Future[None] = loop.create_future()
        reporter = HealthReporter(self.health, self._config.outlets)
        await reporter.open()
        if self._config.metrics is not None:
            log_event("metrics_served", at=await self._metrics.open(*self._config.metrics))
        first = self._first or FirstProcess(handled_signals())
        for number in first.numbers:
            loop.add_signal_handler(number, self._signalled, number)
        log_event("parent_started", self._level, pid=os.getpid(), processes=len(self._slots))
        if first.spawned is not None:
            self._launch(self._slots[0], spawned=first.spawned)
        self._fill()
        if self._config.steer is not None:
            self._background(self._config.steer(self.resize))
        for number in first.received:
            self._signalled(number)
        if self._config.outlets:
            self._background(reporter.run())
        if self._config.watched is not None:
            self._background(follow_changes(self._config.watched, self._files_changed))
        try:
            await self._all_ended
            if self._releases:
                await asyncio.wait(self._releases)
            return self._status
        finally:
            self._metrics.close()
            for task in self._tasks:
                task.cancel()
            for child in self._children:
                child.kill()
            await self._drivers.close()
            for number in first.numbers:
                loop.remove_signal_handler(number)

    def health(self) -> Health:
        """The processes in the slots, without the ones that finish their last jobs."""
        present = [child for slot in self._slots for child in (slot.current, slot.successor) if child is not None]
        return Health.of([child.status for child in present], time.monotonic())

    def resize(self, processes: int) -> None:
        """Run this many processes. Those that are too many start no more jobs, and end after their running ones."""
        wanted = sorted((slot for slot in self._slots if slot.is_wanted), key=lambda slot: slot.running)
        others = [slot for slot in self._slots if not slot.is_wanted]
        others.sort(key=lambda slot: (slot.running >= 0, len(slot.retiring)))
        for slot in wanted[: max(0, len(wanted) - processes)]:  # first those with the fewest running jobs
            slot.is_wanted = False
            slot.end_pause()
            for child in filter(None, (slot.current, slot.successor)):
                child.stop(retires=True)
        for slot in others[: max(0, processes - len(wanted))]:
            slot.is_wanted = True
        self._fill()

    # ------------------------------------------------------------------------------------------------ starting them

    def _fill(self) -> None:
        """Start a process in every empty slot."""
        if self._stopping or self._reloading:
            return
        wanted = [slot for slot in self._slots if slot.is_wanted]
        for slot in wanted if self._code_works else wanted[:1]:
            if slot.is_empty:
                self._launch(slot)

    def _launch(self, slot: Slot, *, successor: bool = False, spawned: Spawned | None = None) -> None:
        slot.is_starting = True
        slot.end_pause()
        self._background(self._start(slot, successor, spawned))

    async def _start(self, slot: Slot, successor: bool, spawned: Spawned | None) -> None:
        requests = self._restart.requests
        try:
            spawned = spawned or spawn(self._config.command, is_alone=self._config.processes == 1)
            child = await WorkerProcess.open(slot.number, spawned, self._drivers.of)
        except OSError as error:
            slot.is_starting = False
            log_event("start_failed", logging.ERROR, kind="worker_process", slot=slot.number, error=brief(error))
            if self._stopping or self._reloading:
                self._check_all_ended()
                return
            if successor:
                self._restart.successor_ended(slot, was_stopped=False)
            if slot.is_empty:
                slot.pause(slot.pause_s(0.0), self._fill)
            return
        slot.is_starting = False
        self._children.add(child)
        if successor:
            slot.successor = child
        else:
            slot.current = child
        child.follow(self._status_received, self._process_ended, self._totals.add)
        self._call_later(START_MS / limits.SECOND, lambda: self._check_started(child))
        if self._stopping or self._reloading or (successor and self._restart.requests != requests):
            self._stop(child)
        elif not slot.is_wanted:
            child.stop(retires=True)

    def _check_started(self, child: WorkerProcess) -> None:
        if child not in self._children or child.was_ready or child.is_leaving:
            return
        slot = self._slots[child.slot]
        log_event("start_failed", kind="worker_process", slot=slot.number, child=child.pid, not_ready_in_s=child.age_s)
        if slot.successor is child:
            self._restart.fail(slot, "the new process is not ready")
            self._stop(child)

    # ----------------------------------------------------------------------------------- what they send, and their end

    def _status_received(self, child: WorkerProcess) -> None:
        slot, state = self._slots[child.slot], child.status.state
        if state is WorkerState.RUNNING and not child.was_ready:
            child.was_ready = self._ever_ready = self._code_works = True
            self._failures = 0
            worker = child.status.worker
            log_event("worker_process_ready", self._level, slot=slot.number, child=child.pid, worker=worker)
            if slot.successor is child and not child.is_leaving and (old := self._restart.ready(slot)) is not None:
                self._stop(old)
            self._fill()
        if state is WorkerState.RETIRING and slot.current is child:
            slot.current = None
            slot.retiring.add(child)
            self._fill()

    def _process_ended(self, child: WorkerProcess, status: int) -> None:
        self._children.discard(child)
        if child.keeping is not None:
            self._releases.add(child.keeping)
            child.keeping.add_done_callback(self._releases.discard)
        slot = self._slots[child.slot]
        # A process that fails at the first start has logged the reason itself.
        is_refused = not self._ever_ready and status in (Status.FAILED, Status.WRONG)
        is_done = self._config.burst and status == Status.DONE
        expected = child.is_leaving or status == Status.RECYCLED or is_done or is_refused
        level, how, lived_s = self._level if expected else logging.WARNING, how_it_ended(status), child.age_s
        log_event("worker_process_ended", level, slot=slot.number, child=child.pid, how=how, lived_s=lived_s)
        slot.retiring.discard(child)
        was_current, was_successor = slot.current is child, slot.successor is child
        if was_current:
            slot.current = None
        if self._stopping or self._reloading:
            if was_successor:
                slot.successor = None
            self._check_all_ended()
            return
        if was_successor:
            self._restart.successor_ended(slot, was_stopped=child.is_leaving)
        if was_current:
            self._replace(slot, child, status)
        else:
            self._fill()
        self._restart.ended(child)

    def _replace(self, slot: Slot, child: WorkerProcess, status: int) -> None:
        """Decide what follows in the slot of a process that has ended."""
        if status == Status.RECYCLED or child.is_leaving:
            self._fill()
            return
        if self._config.burst and status == Status.DONE:
            slot.is_done = self._code_works = True
            self._fill()
            if all(one.is_done for one in self._slots):
                self._stop_all(Status.DONE)
            return
        if not child.was_ready:
            self._failures += 1
            if self._config.watched is not None and status == Status.WRONG:
                log_event("worker_process_delayed", slot=slot.number, until="file_change")
                return
            if not self._ever_ready and status in (Status.FAILED, Status.WRONG):
                self._stop_all(status)
                return
            if self._failures >= FAILURES_MOST and not any(one.was_ready for one in self._children):
                log_event("parent_failed", failures=self._failures, reason="no process gets ready")
                self._stop_all(Status.FAILED)
                return
        if slot.is_empty:
            pause_s = slot.pause_s(child.age_s)
            slot.pause(pause_s, self._fill)
            if pause_s:
                log_event("worker_process_delayed", slot=slot.number, next_in_s=pause_s)

    # ---------------------------------------------------------------------------------------------- replacing them all

    def _files_changed(self, count: int, path: str) -> None:
        if self._stopping or self._reloading:
            return
        log_event("restart_started", files=count, one=path)
        self._reloading = True
        self._code_works = False
        self._restart.clear()
        for slot in self._slots:
            slot.end_pause()
            slot.is_done = False
        for child in self._children:
            self._stop(child, min(self._config.grace_s, RELOAD_GRACE_MS / limits.SECOND))
        self._check_all_ended()

    def _signalled(self, number: signal.Signals) -> None:
        # The end of a terminal sends SIGHUP, too.
        if number is signal.SIGHUP and not self._has_terminal:
            if not self._stopping and not self._reloading:
                obsolete = self._restart.request()
                if obsolete is not None:  # it was never ready, so it has no job to finish
                    self._stop(obsolete, RELOAD_GRACE_MS / limits.SECOND)
            return
        self._stop_signals += 1
        then = {1: "stopping", 2: "stopping hard"}.get(self._stop_signals, "killing")
        log_event("signal_received", self._level, name=number.name, then=then)
        if self._stop_signals == 1:
            self._stop_all(Status.DONE)
        elif self._stop_signals == 2:
            self._status = Status.HARD
            for child in self._children:
                self._stop_hard(child)
        else:
            for child in self._children:
                child.kill()
            for release in self._releases:
                release.cancel()

    # ------------------------------------------------------------------------------------------------ stopping them

    def _stop_all(self, status: int) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._status = status
        for slot in self._slots:
            slot.end_pause()
        for child in self._children:
            self._stop(child)
        self._check_all_ended()

    def _stop(self, child: WorkerProcess, grace_s: float | None = None) -> None:
        """Request a graceful stop. After the grace period request a hard stop, and kill the process at last."""
        child.stop()
        full_s = self._config.grace_s + self._config.hard_s
        self._call_later(full_s if grace_s is None else grace_s, lambda: self._stop_hard(child))

    def _stop_hard(self, child: WorkerProcess) -> None:
        if child in self._children:
            child.stop(hard=True)
            self._call_later(self._config.kill_s, lambda: self._kill(child))

    def _kill(self, child: WorkerProcess) -> None:
        if child in self._children:
            log_event("worker_process_killed", slot=child.slot, child=child.pid)
            child.kill()

    def _check_all_ended(self) -> None:
        """When all processes have ended: the end of the parent, or after a reload the start of the first one."""
        if self._children or any(slot.is_starting for slot in self._slots):
            return
        if not self._stopping:
            self._reloading = False
            self._fill()
        elif not self._all_ended.done():
            log_event("parent_stopped", self._level, status=int(self._status))
            self._all_ended.set_result(None)

    # -------------------------------------------------------------------------------------------- timers and tasks

    def _call_later(self, seconds: float, act: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, act)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as a task. An error in it ends the parent."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._background_ended)

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log_event("parent_failed", error=brief(error))
            self._stop_all(Status.FAILED)
