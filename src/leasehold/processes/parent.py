"""The parent process: starts worker processes, replaces those that end, keeps their leases, and stops all in order.

It runs no code of the user. Everything happens on one event loop, in plain methods that are called when a worker
process sends its status, when one ends, when a signal comes and when a time is over. Nothing here may block that loop:
the heartbeats of all workers are sent from it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from leasehold.core import limits
from leasehold.processes.child import WorkerProcess, how_it_ended
from leasehold.processes.health import Health, HealthReporter
from leasehold.processes.keeper import KeeperDrivers
from leasehold.processes.messages import WorkerState
from leasehold.processes.reload import RELOAD_GRACE_MS, follow_changes
from leasehold.processes.restarts import CHILD_FAILURES, RestartPauses
from leasehold.processes.slots import CHILD_HARD_MS, CHILD_KILL_MS, CHILD_START_MS, ParentConfig, Slot
from leasehold.processes.status import Status
from leasehold.processes.system import has_terminal
from leasehold.runtime.log import brief, log_event


class Parent:
    """Runs worker processes until it is told to stop. Run it once.

    status = asyncio.run(Parent(ParentConfig(command, processes=4)).run())
    """

    def __init__(
        self,
        plan: ParentConfig,
        *,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._places = [Slot(number, RestartPauses(chance)) for number in range(plan.processes)]
        self._children: set[WorkerProcess] = set()
        self._releases: set[asyncio.Task[None]] = set()
        """Release the jobs of processes that have ended."""
        self._drivers = KeeperDrivers()
        self._level = logging.INFO if plan.processes > 1 else logging.DEBUG
        """Of what a user with a single worker process need not know."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._asks = 0
        self._stopping = False
        self._status: int = Status.DONE
        self._reloading = False
        self._rolling: deque[Slot] = deque()
        self._turn: Slot | None = None
        """In a rolling restart: the place whose turn it is."""
        self._rolled: WorkerProcess | None = None
        """In a rolling restart: the process whose end is waited for before the next place has its turn."""
        self._roll_again = False
        """It was asked for another one meanwhile: the code may have changed since it began."""
        self._ever_ready = False
        self._failures = 0
        """How many in a row ended before they were ready."""

    async def run(self) -> int:
        """Until told to stop; in a burst, until nothing is left to do. Answers the exit status.

        Raises `NotConfigured` when the health port cannot be had.
        """
        loop = asyncio.get_running_loop()
        self._over: asyncio.Future[int] = loop.create_future()
        reporter = HealthReporter(self.health, self._plan.outlets)
        await reporter.open()
        nohup = signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        numbers = [signal.SIGTERM, signal.SIGINT, *([] if nohup else [signal.SIGHUP])]
        for number in numbers:
            loop.add_signal_handler(number, self._signalled, number)
        log_event("parent_started", self._level, pid=os.getpid(), processes=len(self._places))
        self._launch(self._places[0])
        if self._plan.outlets:
            self._background(reporter.run())
        if self._plan.watched is not None:
            self._background(follow_changes(self._plan.watched, self._changed))
        try:
            status = await self._over
            if self._releases:
                await asyncio.wait(self._releases)
            return status
        finally:
            for task in self._tasks:
                task.cancel()
            for child in self._children:
                child.kill()
            await self._drivers.close()
            for number in numbers:
                loop.remove_signal_handler(number)

    def health(self) -> Health:
        """Of the processes that are in their places now."""
        present = [child for place in self._places for child in (place.current, place.successor) if child is not None]
        return Health.of([child.status for child in present], self._clock())

    # ------------------------------------------------------------------------------------------------ starting them

    def _launch(self, place: Slot, *, successor: bool = False) -> None:
        place.starting = True
        self._background(self._start(place, successor))

    async def _start(self, place: Slot, successor: bool) -> None:
        place.forget_pause()
        try:
            is_alone = self._plan.processes == 1
            child = await WorkerProcess.start(place.number, self._plan.command, self._drivers.of, is_alone=is_alone)
        except OSError as error:
            place.starting = False
            log_event("start_failed", logging.ERROR, kind="worker_process", place=place.number, error=brief(error))
            if successor:
                self._give_up_rolling(place, "the system could not start it")
            if not self._stopping:
                self._later(place, 0.0)
            self._end_if_over()
            return
        place.starting = False
        self._children.add(child)
        if successor:
            place.successor = child
        else:
            place.current = child
        child.follow(self._heard, self._ended)
        self._at(CHILD_START_MS / limits.SECOND, lambda: self._slow(child))
        if self._stopping or self._reloading or (successor and self._roll_again):
            self._dismiss(child)

    def _fill(self) -> None:
        for place in filter(lambda one: one.empty, self._places):
            self._launch(place)

    def _slow(self, child: WorkerProcess) -> None:
        if child not in self._children or child.was_ready or child.is_leaving:
            return
        about = {"place": child.place, "child": child.pid, "not_ready_in_s": self._age(child)}
        log_event("start_failed", kind="worker_process", **about)
        if self._places[child.place].successor is child:
            self._dismiss(child)

    def _later(self, place: Slot, lived_s: float) -> float:
        """Fill the place after a pause, whose length is answered."""
        pause_s = place.pauses.after(lived_s)

        def fill() -> None:
            place.pause = None
            if not self._stopping and not self._reloading and place.empty:
                self._launch(place)

        place.pause = self._at(pause_s, fill)
        return pause_s

    # ------------------------------------------------------------------------------------------------- hearing them

    def _heard(self, child: WorkerProcess) -> None:
        place, state = self._places[child.place], child.status.state
        if state is WorkerState.RUNNING and not child.was_ready:
            child.was_ready = self._ever_ready = True
            self._failures = 0
            worker = child.status.worker
            log_event("worker_process_ready", self._level, place=child.place, child=child.pid, worker=worker)
            if place.successor is child and not child.is_leaving:
                self._succeed(place)
            if not self._stopping and not self._reloading:
                self._fill()  # the first one came through: so will the others
        if state is WorkerState.RETIRING and place.current is child:
            place.current = None
            place.retiring.add(child)
            if not self._stopping and not self._reloading and place.empty:
                self._launch(place)

    def _ended(self, child: WorkerProcess, status: int) -> None:
        self._children.discard(child)
        if child.keeping is not None:
            self._releases.add(child.keeping)
            child.keeping.add_done_callback(self._releases.discard)
        place = self._places[child.place]
        how, lived_s = how_it_ended(status), self._age(child)
        expected = child.is_leaving or status == Status.RECYCLED or (self._plan.burst and status == Status.DONE)
        expected = expected or (not self._ever_ready and status in (Status.FAILED, Status.WRONG))  # it has said why
        level = self._level if expected else logging.WARNING
        log_event("worker_process_ended", level, place=child.place, child=child.pid, how=how, lived_s=lived_s)
        place.retiring.discard(child)
        was_current, was_successor = place.current is child, place.successor is child
        if was_current:
            place.current = None
        if was_successor:
            place.successor = None
        if self._stopping or self._reloading:
            self._end_if_over()
            self._begin_if_reloaded()
            return
        if was_successor and self._roll_again:
            self._begin_rolling()
        elif was_successor:
            self._give_up_rolling(place, "the new process was not ready")
        if was_current:
            self._replace(place, child, status, lived_s)
        elif place.empty:
            self._launch(place)
        if child is self._rolled:
            self._roll_next()

    def _replace(self, place: Slot, child: WorkerProcess, status: int, lived_s: float) -> None:
        """Decide what comes into the place of one that ended."""
        if status == Status.RECYCLED:
            if place.empty:
                self._launch(place)
            return
        if self._plan.burst and status == Status.DONE:
            place.done = True
            self._fill()
            if all(one.done for one in self._places):
                self._stop_all(Status.DONE)
            return
        if not child.was_ready:
            self._failures += 1
            if self._plan.watched is not None and status == Status.WRONG:
                log_event("worker_process_delayed", place=place.number, until="file_change")
                return
            if not self._ever_ready and status in (Status.FAILED, Status.WRONG):
                self._stop_all(status)  # it has said why
                return
            if self._failures >= CHILD_FAILURES and not any(one.was_ready for one in self._children):
                log_event("parent_failed", failures=self._failures, reason="no process gets ready")
                self._stop_all(Status.FAILED)
                return
        if place.successor is None and not place.starting:
            pause_s = self._later(place, lived_s)
            if pause_s:
                log_event("worker_process_delayed", place=place.number, next_in_s=pause_s)

    # ------------------------------------------------------------------------------------- rolling and reloading

    def _roll(self) -> None:
        if self._stopping or self._reloading:
            return  # all of them are ending already
        if self._turn is None:
            log_event("restart_started", processes=len(self._places))
            self._begin_rolling()
            return
        then = "after this place" if self._rolled is not None else "with a new process for this place"
        log_event("restart_started", place=self._turn.number, then=then)
        self._roll_again = True
        if self._turn.successor is not None:
            # It may have loaded the old code, or hang in it. It was never ready, so it has no job to finish.
            self._dismiss(self._turn.successor, RELOAD_GRACE_MS / limits.SECOND)

    def _begin_rolling(self) -> None:
        """The oldest first: when this comes again and again, each has its turn."""
        self._roll_again = False
        present = [(place.current.began_at, place.number) for place in self._places if place.current is not None]
        self._rolling = deque(self._places[number] for _, number in sorted(present))
        self._roll_next()

    def _roll_next(self) -> None:
        """A fresh process beside the old one; when it is ready, the old one is told to stop. Then the next place."""
        self._turn = self._rolled = None
        if self._roll_again:
            self._begin_rolling()
            return
        while self._rolling:
            place = self._rolling.popleft()
            if place.current is not None and not place.starting and place.successor is None:
                self._turn = place
                self._launch(place, successor=True)
                return

    def _give_up_rolling(self, place: Slot, reason: str) -> None:
        log_event("restart_failed", place=place.number, reason=reason)
        self._forget_rolling()

    def _forget_rolling(self) -> None:
        self._rolling.clear()
        self._turn = self._rolled = None
        self._roll_again = False

    def _succeed(self, place: Slot) -> None:
        old, place.current, place.successor = place.current, place.successor, None
        if old is None:
            self._roll_next()
        else:
            self._rolled = old
            self._dismiss(old)

    def _changed(self, count: int, path: str) -> None:
        if self._stopping or self._reloading:
            return
        log_event("restart_started", files=count, one=path)
        self._reloading = True
        for place in self._places:
            place.forget_pause()
            place.done = False
        for child in self._children:
            self._dismiss(child, min(self._plan.grace_s, RELOAD_GRACE_MS / limits.SECOND))
        self._begin_if_reloaded()

    def _begin_if_reloaded(self) -> None:
        """All that ran the old code have ended: the first place tries the new."""
        if (
            self._reloading
            and not self._stopping
            and not self._children
            and not any(place.starting for place in self._places)
        ):
            self._reloading = False
            self._forget_rolling()
            self._launch(self._places[0])

    # ------------------------------------------------------------------------------------------------------ the end

    def _signalled(self, number: signal.Signals) -> None:
        # A terminal that is closed sends SIGHUP as well: then nobody is there to go on for.
        if number is signal.SIGHUP and not has_terminal():
            self._roll()
            return
        self._asks += 1
        then = {1: "stopping", 2: "stopping hard"}.get(self._asks, "killing")
        log_event("signal_received", self._level, name=number.name, then=then)
        if self._asks == 1:
            self._stop_all(Status.DONE)
        elif self._asks == 2:
            self._status = Status.HARD
            for child in self._children:
                self._dismiss_hard(child)
        else:
            for child in self._children:
                child.kill()
            for release in self._releases:
                release.cancel()

    def _stop_all(self, status: int) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._status = status
        for place in self._places:
            place.forget_pause()
        for child in self._children:
            self._dismiss(child)
        self._end_if_over()

    def _dismiss(self, child: WorkerProcess, grace_s: float | None = None) -> None:
        """Tell it to stop, and see to it that it does: the grace that it knows of, then hard, then by force."""
        child.stop()
        full_s = self._plan.grace_s + CHILD_HARD_MS / limits.SECOND
        self._at(full_s if grace_s is None else grace_s, lambda: self._dismiss_hard(child))

    def _dismiss_hard(self, child: WorkerProcess) -> None:
        if child in self._children:
            child.stop(hard=True)
            self._at(CHILD_KILL_MS / limits.SECOND, lambda: self._kill(child))

    def _kill(self, child: WorkerProcess) -> None:
        if child in self._children:
            log_event("worker_process_killed", place=child.place, child=child.pid)
            child.kill()

    def _end_if_over(self) -> None:
        if (
            self._stopping
            and not self._children
            and not any(place.starting for place in self._places)
            and not self._over.done()
        ):
            log_event("parent_stopped", self._level, status=int(self._status))
            self._over.set_result(self._status)

    # ---------------------------------------------------------------------------------------------------- small ones

    def _age(self, child: WorkerProcess) -> float:
        return self._clock() - child.began_at

    def _at(self, seconds: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, act)

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        """What goes wrong in it ends the parent: it is never alive, but deaf."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._background_ended)

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log_event("parent_failed", error=brief(error))
            self._stop_all(Status.FAILED)
