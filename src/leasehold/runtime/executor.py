"""Runs jobs: starts leases in free slots, and passes their outcomes on to the settler."""

from __future__ import annotations

import asyncio
from typing import Final

from leasehold.core import limits
from leasehold.core.job import Lease
from leasehold.core.outcome import Completed, Outcome, Released
from leasehold.core.task import RunIn
from leasehold.runtime.context import WorkerContext
from leasehold.runtime.handlers.invoke import Caller
from leasehold.runtime.handlers.runners import LoopRunner, Runner, ThreadRunner
from leasehold.runtime.intake import Intake
from leasehold.runtime.isolation.child import Launch
from leasehold.runtime.isolation.pool import ProcessPool
from leasehold.runtime.jobs.batches import Outcomes
from leasehold.runtime.jobs.held import Batch, Held, Rest
from leasehold.runtime.jobs.job import Job, JobServices
from leasehold.runtime.jobs.overrun import take_verdict, unless_asked
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.log import ended, log_event
from leasehold.runtime.settler import Settler

PROCESS: Final = RunIn.PROCESS
QUICK_S: Final = 1.0
"""A persistent job that ends sooner than this rests for its task's first backoff before it is put back in line."""


class Executor:
    """Used on the event loop only. An async handler is one task, a sync one runs in a thread, and either may run in a
    job process (`pool`; None where no handler does)."""

    def __init__(
        self,
        context: WorkerContext,
        inflight: Inflight,
        intake: Intake,
        settler: Settler,
        services: JobServices,
        launch: Launch | None,
    ) -> None:
        self._events = context.events
        self._clock = clock = context.env.clock
        self._inflight = inflight
        self._intake = intake
        self._settler = settler
        self._services = services
        self._loop = asyncio.get_running_loop()
        caller, may_start = Caller(context.env.random, clock, intake.kept.may_start), intake.kept.may_start
        cancel_s = context.env.limits.cancel_ms / limits.SECOND
        self._tasks = LoopRunner(caller, self._finished, cancel_s)
        self._threads = ThreadRunner(caller, self._finished, inflight.slots, clock)
        self.pool: ProcessPool | None = None
        if launch is not None:
            self.pool = ProcessPool(
                launch, size=inflight.slots, services=services, may_start=may_start, finished=self._finished
            )
        self._bell: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------------------------------------ starting them

    def dispatch(self) -> None:
        """Start pending leases while there are free slots."""
        if not self._intake.is_open:
            return
        inflight, now = self._inflight, self._clock()
        while (run := inflight.start_next(now, self._intake.kept.may_start)) is not None:
            self._start(run, now)
        if inflight.gathering.group_of and inflight.free > 0:
            if self._bell is not None:
                self._bell.cancel()
            self._bell = self._loop.call_later(max(0.0, inflight.gathering.next_at() - now), self._batch_ripe)

    def _batch_ripe(self) -> None:
        """A batch has waited long enough for more jobs."""
        self._bell = None
        self.dispatch()

    def release(self, held: list[Held]) -> None:
        """Return leases that have not started, to the front of their queue and in their order.

        The last go first: within a call the engine keeps the order, and what a later call returns lands in front.
        """
        for one in reversed(held):
            self._settler.put(one, Released())

    def release_orphan(self, lease: Lease) -> bool:
        """Release a lease that Redis counts as this worker's and that never reached it. False: that is under way."""
        return self._settler.put_stray(lease)

    def release_doubtful(self) -> None:
        """Release what has not started and may be another worker's by now: its heartbeats were late."""
        if doubtful := self._inflight.take_pending(lambda held: not self._intake.kept.may_start(held)):
            log_event("jobs_released", jobs=len(doubtful), reason="no heartbeat")
            self.release(doubtful)

    def _start(self, run: Held | Batch, now: float) -> None:
        if type(run) is Held:
            run.prepare(self._job(run), now)
            if run.spec.run_in is PROCESS and self.pool is not None:
                self.pool.start(run)
                return
        elif type(run) is Batch:
            run.prepare([self._job(held) for held in run.members], now)
        if run.spec.is_async:
            self._tasks.start(run)
        else:
            self._threads.start(run)

    def _job(self, held: Held) -> Job:
        if self._events is not None:
            self._events.started(held)
        return Job(held, self._services)

    # --------------------------------------------------------------------------------------------------- ending them

    def runner_of(self, run: Held | Batch) -> Runner:
        """Where the handler runs."""
        if run.spec.run_in is PROCESS and type(run) is Held and self.pool is not None:
            return self.pool
        return self._tasks if run.spec.is_async else self._threads

    def _finished(self, run: Held | Batch, outcomes: Outcomes, at: float) -> None:
        seconds = at - run.started_at
        self._inflight.prefetch.finished(seconds if type(run) is Held else seconds / len(run.members))
        if not (run.persistent and self._rests(run, outcomes, seconds)):
            self._end(run, outcomes)

    def _rests(self, run: Held | Batch, outcomes: Outcomes, seconds: float) -> bool:
        """Whether this persistent job has ended so soon that it waits in its slot for a while."""
        if seconds >= QUICK_S or run.stop is not None or self._intake.is_stopped:
            return False
        rest_s = min(run.spec.backoff.base, limits.MINUTE / limits.SECOND)
        if rest_s <= 0 or not any(type(outcome) is Completed for _, outcome in outcomes):
            return False
        run.begin_rest(Rest(self._loop.call_later(rest_s, self.end_rest, run), outcomes))
        return True

    def end_rest(self, run: Held | Batch) -> None:
        """End the pause of a persistent job and put it back in line, unless it is to be cancelled."""
        self._end(run, [(held, unless_asked(held, outcome)) for held, outcome in run.end_rest()])

    def _end(self, run: Held | Batch, outcomes: Outcomes) -> None:
        """Free the slot, settle, start the next."""
        self._inflight.leave_slot(run)
        for held, outcome in outcomes if run.verdict is None else take_verdict(run):
            self.settle(held, outcome)
        run.forget_jobs()
        self.dispatch()

    def settle(self, held: Held, outcome: Outcome) -> None:
        """Settle an attempt, and log how it ended."""
        if self._settler.put(held, outcome):
            ended(held.lease, outcome)
        else:
            record = held.lease.record
            log_event("handler_overran", ended=True, queue=record.queue, task=record.task, id=record.id)

    def answer(self, held: Held, outcome: Outcome) -> None:
        """Settle one job of a batch, as its handler says. Not when its time is over: that decides its outcome."""
        if held.run.verdict is None:
            self.settle(held, outcome)

    @property
    def can_isolate(self) -> bool:
        """Whether jobs that need a process of their own can have one."""
        return self.pool is None or self.pool.trouble is None

    def close(self) -> None:
        if self._bell is not None:
            self._bell.cancel()
        self._threads.close()
        if self.pool is not None:
            self.pool.end()
