"""Runs jobs: starts leases in free slots, and passes their outcomes on to the settler."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from tenure.core import limits
from tenure.core.job import Lease
from tenure.core.outcome import Broken, Completed, Outcome, Unroutable
from tenure.core.task import RunIn
from tenure.core.text import cut
from tenure.core.worker_view import JobStack
from tenure.runtime.context import WorkerContext
from tenure.runtime.handlers.invoke import Caller
from tenure.runtime.handlers.routes import UNROUTABLE, Routes
from tenure.runtime.handlers.runners import LoopRunner, ThreadRunner
from tenure.runtime.isolation.child import Launch
from tenure.runtime.isolation.pool import ProcessPool
from tenure.runtime.jobs.held import Batch, Ended, HandlerRunner, Held, Outcomes
from tenure.runtime.jobs.job import JobServices
from tenure.runtime.log import Once, log_event
from tenure.runtime.settler import Settler

PROCESS: Final = RunIn.PROCESS
STACKS_BYTES_MAX: Final = 32 * 1024
"""Bytes of all stacks that a worker announces."""
QUICK_S: Final = 1.0
"""A persistent job that ends sooner than this rests for its task's first backoff before it is ready again."""
UNROUTABLE_LOGGED: Final = 100
"""Tasks without a route that a worker logs, each once."""


class Executor:
    """Used on the event loop only. An async handler is one task, a sync one runs in a thread, and either may run in a
    job process (`pool`; None where no handler does)."""

    def __init__(
        self, context: WorkerContext, settler: Settler, services: JobServices, routes: Routes, launch: Launch | None
    ) -> None:
        self._reports = context.reports
        self._clock = clock = context.env.clock
        self._inflight = inflight = context.inflight
        self._intake = context.intake
        self._kept = kept = context.intake.kept
        self._settler = settler
        self._services = services
        self._routes = routes
        self._logged = Once(UNROUTABLE_LOGGED)
        self._rest_ms = context.env.limits.rest_ms
        env, intake = context.env, context.intake
        caller = Caller(env.random, clock, kept, context.payloads, lambda: intake.stops_in_order, context.raised)
        self._tasks = LoopRunner(caller, self._finished, env.limits.cancel_ms / limits.SECOND, env.lease_clock)
        self._threads = ThreadRunner(caller, self._finished, inflight.slots, clock, context.pools)
        self.job_of = self._tasks.job_of
        self.pool: ProcessPool | None = None
        if launch is not None:
            self.pool = ProcessPool(
                launch, size=inflight.slots, services=services, may_start=kept.may_start, finished=self._finished
            )
        self._batch_timer: asyncio.TimerHandle | None = None

    def accept(self, leases: Sequence[Lease], asked_at: float) -> None:
        """Take leases in, settle those that cannot run here, and start those for which a slot is free. `asked_at`: when
        the claim was sent."""
        now = self._clock()
        cannot_run: Outcomes = []
        for lease in leases:
            refusal = self._routes.refusal(lease)
            spec = None if refusal else self._routes.route(lease)
            held = self._inflight.add(lease, spec or UNROUTABLE, now, spec is not None, asked_at)
            if held is None:
                continue
            self._reports.claimed(lease)
            if refusal:
                cannot_run.append((held, Broken(refusal)))
            elif spec is None:
                cannot_run.append((held, Unroutable()))
                record = lease.record
                if self._logged.is_new(f"{record.queue} {record.task}"):
                    about = {"queue": record.queue, "task": record.task, "id": record.id}
                    log_event(
                        "unroutable", logging.WARNING, **about, known=self._routes.known(record.queue, record.task)
                    )
        self._settler.put_all(cannot_run)  # only now: those that settle together must all be known first
        if asked_at <= self._kept.lapsed_before:
            self.release_doubtful()
        self.dispatch()

    def dispatch(self) -> None:
        """Start pending leases while there are free slots."""
        if not self._intake.is_open:
            return
        inflight, now = self._inflight, self._clock()
        started, kept = self._reports.started, self._kept
        for run in inflight.starting(now, kept.may_start, kept.fresh_after()):
            started(run)
            runner: HandlerRunner = self._tasks if run.spec.is_async else self._threads
            if run.spec.run_in is PROCESS and type(run) is Held and self.pool is not None:
                runner = self.pool
            run.prepare(self._services, runner, now)
            runner.start(run)
        if inflight.gathering.group_of and inflight.free > 0:
            if self._batch_timer is not None:
                self._batch_timer.cancel()
            after_s = max(0.0, inflight.gathering.next_at() - now)
            self._batch_timer = self._services.loop.call_later(after_s, self.dispatch)

    def release_doubtful(self) -> None:
        """Release leases that have not started and that another worker may hold by now: their heartbeats were late.

        While a claim is under way, leave that to the fetcher. The claim may bring later jobs, which would start before
        these, or come in front of them when they are released as well.
        """
        if self._intake.claiming_since is not None:
            self._intake.disturb()
            return
        if doubtful := self._inflight.take_pending(lambda held: not self._kept.may_start(held)):
            log_event("jobs_released", released=len(doubtful), reason="no heartbeat")
            self._settler.release(doubtful)

    def _finished(self, ended: Sequence[Ended]) -> None:
        self._reports.finished(ended)
        self._inflight.prefetch.finished(
            [(at - run.started_at) / (1 if type(run) is Held else len(run.members)) for run, _, at in ended]
        )
        self._end(
            [
                (run, outcomes)
                for run, outcomes, at in ended
                if not (run.persistent and self._rests(run, outcomes, at - run.started_at))
            ]
        )

    def _rests(self, run: Held | Batch, outcomes: Outcomes, seconds: float) -> bool:
        """Whether this persistent job has ended so soon that it waits in its slot for a while."""
        if run.stop is not None or self._intake.is_stopped:
            return False
        quick_s = min(run.spec.backoff.base, limits.MINUTE / limits.SECOND) if seconds < QUICK_S else 0.0
        rest_s = quick_s if self._rest_ms is None else self._rest_ms / limits.SECOND
        if rest_s <= 0 or not any(type(outcome) is Completed for _, outcome in outcomes):
            return False

        def end() -> None:
            timer.cancel()
            run.end_rest()
            self._end([(run, [])])

        timer = self._services.loop.call_later(rest_s, end)
        run.begin_rest(end, outcomes)
        return True

    def _end(self, ended: Sequence[tuple[Held | Batch, Outcomes]]) -> None:
        """Free the slots, settle, start the next."""
        self._inflight.leave_slots([run for run, _ in ended])
        decided: Outcomes = []
        for run, outcomes in ended:
            decided += outcomes if run.verdict is None else run.take_verdict()
            run.forget_jobs()
        self._settler.put_all(decided)
        self.dispatch()

    def answer(self, held: Held, outcome: Outcome) -> None:
        """Settle one job of a batch with its handler's outcome. Ignored if its outcome is decided already."""
        if held.run.verdict is None:
            self._settler.put(held, outcome)

    async def stacks(self) -> tuple[JobStack, ...]:
        """Return where the running handlers are, those first that have run longest, as far as `STACKS_BYTES_MAX`."""
        isolated = await self.pool.stacks() if self.pool is not None else {}
        stacks, left = isolated | self._tasks.stacks() | self._threads.stacks(), STACKS_BYTES_MAX
        shown: list[JobStack] = []
        for run in sorted(stacks.keys() & self._inflight.running, key=lambda run: run.started_at):
            text, record = stacks[run], run.members[0].lease.record
            left -= len(text.encode(errors="replace"))
            if left < 0:
                break
            # The announcement is UTF-8; another program may have added a job with other names.
            id, task = cut(record.id, limits.MAX_ERROR_TEXT), record.task and cut(record.task, limits.MAX_ERROR_TEXT)
            shown.append(JobStack(record.queue, id, task, text))
        return tuple(shown)

    @property
    def can_isolate(self) -> bool:
        """Whether job processes can be started, or none are needed."""
        return self.pool is None or self.pool.trouble is None

    def close(self) -> None:
        if self._batch_timer is not None:
            self._batch_timer.cancel()
        self._threads.close()
        if self.pool is not None:
            self.pool.end()
