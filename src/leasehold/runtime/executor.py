"""Runs jobs: takes pending leases into free slots, runs their handlers, judges how they ended, passes the outcome on.

An async handler is one task on the loop, a sync one runs in a thread. Timeouts are found by `watch`, not by a timer for
each job.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from leasehold.core import limits
from leasehold.core.engine import Engine
from leasehold.core.errors import LeaseholdError
from leasehold.core.job import ErrorInfo, Lease, LeaseRef
from leasehold.core.outcome import Broken, Outcome, Released, Unroutable
from leasehold.core.task import Arguments, TaskSpec
from leasehold.runtime import judge
from leasehold.runtime.clones import Own
from leasehold.runtime.context import Job, Reach, enter
from leasehold.runtime.inflight import Held, Inflight, Phase, Stop
from leasehold.runtime.log import ended, event
from leasehold.runtime.pace import Pace
from leasehold.runtime.pools import ThreadPool
from leasehold.runtime.ports import Driver, Env
from leasehold.runtime.settler import Settler


@dataclass(frozen=True, slots=True)
class Known:
    """What this worker can run: tasks by name, handlers of raw payloads by queue."""

    tasks: Mapping[str, TaskSpec]
    handlers: Mapping[str, TaskSpec]

    def route(self, lease: Lease) -> TaskSpec | None:
        record = lease.record
        return self.handlers.get(record.queue) if record.task is None else self.tasks.get(record.task)


class Executor:
    """See the module. Everything but `_in_thread` runs on the event loop."""

    def __init__(
        self, engine: Engine, driver: Driver, known: Known, inflight: Inflight, settler: Settler, pace: Pace, env: Env
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._known = known
        self._inflight = inflight
        self._settler = settler
        self._pace = pace
        self._env = env
        self._own = Own()
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._reach = Reach(self._loop, env.clock, self.extend)
        self._threads: ThreadPool[Held, tuple[Held, Outcome, float]] = ThreadPool(
            inflight.slots, self._in_thread, self._from_thread
        )
        self._unroutable = TaskSpec(None, "", _never, is_async=False, encode_result=_never)
        self._warned: set[tuple[str, str | None]] = set()
        self.started = 0
        self.stopping = False

    # ------------------------------------------------------------------------------------------------- taking jobs in

    def accept(self, leases: tuple[Lease, ...]) -> None:
        """Take claimed leases in and start what finds a free slot. While stopping nothing is
        started: the worker hands all of it back together, so that the order is kept."""
        now = self._env.clock()
        for lease in leases:
            malformed = lease.record.malformed
            spec = None if malformed else self._known.route(lease)
            held = self._inflight.add(lease, spec or self._unroutable, now, to_run=spec is not None)
            if held is None:
                continue
            if malformed:
                outcome = Broken(ErrorInfo("Malformed", malformed))
                self._settler.put(held, outcome)
                ended(lease, outcome)
            elif spec is None:
                self._park(held)
        self.dispatch()

    def dispatch(self) -> None:
        """Start pending leases while there are free slots."""
        if self.stopping:
            return
        now = self._env.clock()
        while (held := self._inflight.start_next(now)) is not None:
            self._start(held, now)

    def hand_back(self, held: list[Held]) -> None:
        """Return leases that have not started, to the front of their queue and in their order.

        The last go first: within a call the engine keeps the order, and what a later call returns lands in front.
        """
        for one in reversed(held):
            self._settler.put(one, Released())

    def _park(self, held: Held) -> None:
        record = held.lease.record
        self._settler.put(held, Unroutable())
        if (record.queue, record.task) not in self._warned and len(self._warned) < limits.PAGE_MAX:
            self._warned.add((record.queue, record.task))
            event(logging.WARNING, "unroutable", queue=record.queue, task=record.task, id=record.id)

    def _start(self, held: Held, now: float) -> None:
        self.started += 1
        timeout_ms = held.lease.record.timeout_ms
        if timeout_ms is None:
            timeout_ms = held.spec.timeout_ms
        if timeout_ms is not None:
            held.timeout_s = timeout_ms / limits.SECOND
            held.ends_at = now + held.timeout_s
        held.job = Job(held, self._reach)
        if held.spec.is_async:
            # This may be running in the context of a job that just ended: each job starts from the worker's own.
            held.task = self._loop.create_task(self._on_loop(held, held.job), context=self._context.copy())
        else:
            self._threads.submit(held)

    # ---------------------------------------------------------------------------------------------------- running them

    async def _on_loop(self, held: Held, job: Job) -> None:
        held.began = True
        enter(job)
        spec, lease = held.spec, held.lease
        outcome: Outcome | None
        try:
            arguments = _arguments(spec, job)
        except BaseException as error:  # a decoder is user code too
            outcome = judge.judge_payload(error)
        else:
            try:
                value = await spec.function(*arguments[0], **arguments[1])
            except BaseException as error:  # SystemExit and friends end the attempt, not the worker
                outcome = self._after_error(held, error)
            else:
                outcome = judge.judge_value(spec, lease, value, self._env.random)
        now = self._env.clock()
        self._pace.finished(now - held.started_at)
        self._end(held, outcome)

    def _after_error(self, held: Held, error: BaseException) -> Outcome | None:
        """None: we ended the handler, so what it raised says nothing about the job."""
        if held.stop is Stop.TIMEOUT:
            return judge.judge_timeout(held.spec, held.lease, held.timeout_s, self._env.random)
        if held.stop is not None:
            return None
        return judge.judge_error(held.spec, held.lease, error, self._env.random)

    def _in_thread(self, held: Held) -> tuple[Held, Outcome, float]:
        """Runs in a thread, in a context of its own. Never raises."""
        outcome = self._context.copy().run(self._call, held)
        self._own.end_clone()
        return held, outcome, self._env.clock()

    def _call(self, held: Held) -> Outcome:
        assert held.job is not None
        held.began = True
        enter(held.job)
        spec, lease = held.spec, held.lease
        try:
            arguments = _arguments(spec, held.job)
        except BaseException as error:
            return judge.judge_payload(error)
        try:
            value = spec.function(*arguments[0], **arguments[1])
        except BaseException as error:
            return judge.judge_error(spec, lease, error, self._env.random)
        return judge.judge_value(spec, lease, value, self._env.random)

    def _from_thread(self, finished: tuple[Held, Outcome, float]) -> None:
        held, outcome, at = finished
        self._pace.finished(at - held.started_at)
        self._end(held, None if held.stop is Stop.LOST else outcome)

    def _end(self, held: Held, outcome: Outcome | None) -> None:
        """Free the slot, settle, start the next."""
        self._own.end_clone()
        self._inflight.leave_slot(held)
        if outcome is not None:
            if self._settler.put(held, outcome):
                ended(held.lease, outcome)
            else:
                event(
                    logging.WARNING,
                    "ignored",
                    queue=held.ref.queue,
                    task=held.lease.record.task,
                    id=held.ref.id,
                    reason="ended too late",
                )
        held.job = held.task = None
        self.dispatch()

    # --------------------------------------------------------------------------------------------------- ending them

    def lose(self, ref: LeaseRef, at: str) -> None:
        """The lease is gone: end its handler where that can be done, ignore its outcome."""
        held = self._inflight.lose(ref)
        if held is None:
            return
        self._settler.lost += 1
        event(logging.WARNING, "lost", queue=ref.queue, task=held.lease.record.task, id=ref.id, token=ref.token, at=at)
        if held in self._inflight.running:
            self._stop(held, Stop.LOST, self._env.clock())

    def cancel_running(self) -> None:
        """At a stop, when grace is over. Sync handlers cannot be cancelled: their process is about to end."""
        now = self._env.clock()
        for held in list(self._inflight.running):
            self._stop(held, Stop.SHUTDOWN, now)

    def watch(self, now: float) -> None:
        """Find attempts that are over time, and handlers that did not end when they were told to."""
        for held in list(self._inflight.running):
            if held.stop is None and held.ends_at <= now:
                self._time_out(held, now)
            elif held.give_up_at <= now:
                self._abandon(held)

    def _time_out(self, held: Held, now: float) -> None:
        held.ends_at = math.inf
        self._stop(held, Stop.TIMEOUT, now)
        if held.task is None:
            self._abandon(held)

    def _stop(self, held: Held, why: Stop, now: float) -> None:
        if held.stop is None or why is not Stop.TIMEOUT:
            held.stop = why
        if held.task is not None:
            held.give_up_at = min(held.give_up_at, now + limits.CANCEL_MS / limits.SECOND)
            if held.began:
                held.task.cancel()
            else:
                # A task cancelled before its first step never runs at all and would keep its slot for ever. Its first
                # step is in the loop's line already, so this comes after it.
                self._loop.call_soon(held.task.cancel)

    def _abandon(self, held: Held) -> None:
        """The handler goes on although its attempt is over: settle the attempt, leave the slot to it. Logged once."""
        held.give_up_at = math.inf
        if held.abandoned:
            return
        held.abandoned = True
        kind = "thread" if held.task is None else "task"
        event(logging.WARNING, "handler_goes_on", queue=held.ref.queue, id=held.ref.id, slot="busy", kind=kind)
        if held.stop is Stop.TIMEOUT:
            outcome = judge.judge_timeout(held.spec, held.lease, held.timeout_s, self._env.random)
            if self._settler.put(held, outcome):
                ended(held.lease, outcome)

    async def extend(self, held: Held, ms: int) -> bool:
        """Let an attempt go on for so long from now. False: it is ours no longer."""
        if held.phase is not Phase.RUNNING:
            return False
        ours = await self._driver.run(self._engine.extend(held.lease, ms))
        if not ours:
            self.lose(held.ref, "extend")
        elif held.stop is None:
            held.timeout_s = None
            held.ends_at = self._env.clock() + ms / limits.SECOND
        return ours

    def close(self) -> None:
        self._threads.close()


def _arguments(spec: TaskSpec, job: Job) -> Arguments:
    return ((job,), {}) if spec.decode is None else spec.decode(job.payload)


def _never(*_: Any) -> Any:
    raise LeaseholdError("an unroutable job was run: this is a bug in Leasehold")
