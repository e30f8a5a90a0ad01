"""Ends handlers before they end by themselves: of jobs that are lost, cancelled or timed out, and at a stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tenure.core import limits
from tenure.core.job import LeaseRef
from tenure.core.outcome import Cancelled
from tenure.runtime.context import WorkerContext
from tenure.runtime.jobs.held import OVERRUN_GRACE_MS, Batch, Held, Phase, Stop
from tenure.runtime.jobs.outcomes import outcome_of_timeout
from tenure.runtime.log import log_event
from tenure.runtime.settler import Settler

OVERRUN_GRACE_S: Final = OVERRUN_GRACE_MS / limits.SECOND


class Canceller:
    """See the module. `watch` finds timeouts, in place of a timer for each job. `extended` is called when a handler
    was given more time."""

    def __init__(self, context: WorkerContext, settler: Settler, extended: Callable[[], None]) -> None:
        self._context = context
        self._env = context.env
        self._inflight = context.inflight
        self._settler = settler
        self._extended = extended

    def lose(self, ref: LeaseRef, at: str) -> None:
        """The lease is gone: end its handler where that can be done, ignore its outcome."""
        held = self._inflight.lose(ref)
        if held is None:
            return
        self._context.reports.lost(held, at, None, True)
        self._settler.lost(held)
        self._end(held, Stop.LOST)

    def cancel(self, ref: LeaseRef, reason: str) -> None:
        """Handle a cancel request. Every heartbeat repeats it until the job ends.

        A job that has not started ends at once. An async handler is cancelled, once; a sync one can see the request. A
        handler that continues keeps its job, and its lane, until it ends or times out.
        """
        held = self._inflight.find(ref)
        if held is None or held.cancelled is not None or held.phase not in (Phase.PENDING, Phase.RUNNING):
            return
        held.request_cancel(reason)
        _log(held, "cancel_requested", started=held.phase is Phase.RUNNING)
        if held.phase is Phase.PENDING:
            self._inflight.unqueue(held)
            self._settler.put(held, Cancelled(reason))
        elif not held.answered:
            self._end(held, Stop.CANCEL)

    def _end(self, held: Held, why: Stop) -> None:
        """End the handler of a job, unless it still works for other jobs of the same batch."""
        run = held.run
        if run not in self._inflight.running:
            return
        if isinstance(run, Batch):
            if not run.pointless:
                return
            why = Stop.CANCEL if run.open() else Stop.LOST
        self._stop(run, why, self._env.clock())

    def silence(self, now: float) -> None:
        """Stop jobs that must not run at the same time as others, of queues without a good heartbeat for a lease's
        length: other workers may soon run them, or the next of their lanes and limits. Each is released after its
        handler has ended.
        """
        for run in list(self._inflight.running):
            first = next((held for held in run.members if held.must_be_alone), None)
            if first is None or run.stop not in (None, Stop.CANCEL) or self._context.intake.kept.is_fresh(first):
                continue
            _log(first, "lease_lost", noticed_by="heartbeat", certain=False)
            self._stop(run, Stop.SILENCE, now)

    def end_persistent(self) -> None:
        """At a stop: persistent jobs never end by themselves. A sync handler has the grace period to see that its job
        is lost."""
        self._stop_all(lambda run: run.persistent)

    def end_all(self) -> None:
        """At a stop, after the grace period. Threads end with the process."""
        self._stop_all(lambda run: True)

    def _stop_all(self, wanted: Callable[[Held | Batch], bool]) -> None:
        now = self._env.clock()
        for run in list(self._inflight.running):
            if wanted(run):
                self._stop(run, Stop.SHUTDOWN, now)

    def watch(self, now: float) -> None:
        """Find attempts that have timed out, handlers that did not end after a stop, and jobs that waited too long for
        the end of their handlers."""
        for run in list(self._inflight.running):
            if run.ends_at <= now:
                self._time_out(run, now)
            elif run.give_up_at <= now:
                self._give_up(run)
            elif run.settle_at <= now:
                self._settle_kept(run)

    def _time_out(self, run: Held | Batch, now: float) -> None:
        if isinstance(run, Batch):  # the earliest may have been answered, or given more time
            ends_at = min((held.ends_at for held in run.open()), default=math.inf)
            run.ends_by(ends_at)
            if ends_at > now:
                return
        run.ends_by(math.inf)
        if run.stop is None or run.stop is Stop.CANCEL:
            self._stop(run, Stop.TIMEOUT, now)
        if run.runner.given_up_s == 0:
            self._give_up(run)

    def _stop(self, run: Held | Batch, why: Stop, now: float) -> None:
        run.request_stop(why)
        if run.rest is not None:
            run.rest()
            return
        if run.runner.given_up_s and why is not Stop.CANCEL:
            run.give_up_by(now + run.runner.given_up_s)
        run.runner.stop(run, why)

    def _give_up(self, run: Held | Batch) -> None:
        """The handler continues although its attempt is over: settle the attempt, leave the slot to it. Logged once.

        A job that must not run at the same time is settled after it has ended, or by `_settle_kept`. Its lease is kept
        until then.
        """
        if not run.abandon():
            return
        self._inflight.changed.set()
        kind = "task" if run.runner.given_up_s else "thread"
        for held in run.open():
            kept = (
                held.phase is Phase.RUNNING and held.must_be_alone
            )  # at a stop, by the keeper until this process has ended
            _log(held, "handler_overran", ended=False, kind=kind, job="kept" if kept else "given up")
            if run.stop is not Stop.TIMEOUT or held.phase is not Phase.RUNNING:
                continue
            outcome = outcome_of_timeout(held, self._env.random)
            if kept:
                run.postpone(held, outcome)
            else:
                self._settler.put(held, outcome)

    def _settle_kept(self, run: Held | Batch) -> None:
        """Settle what waits for the end of a handler, with the outcomes that its timeout decided.

        Later the keeper would give these leases up, and a crash would start the jobs again, also those without retries.
        """
        for held, outcome in run.take_verdict():
            if held.phase is Phase.RUNNING:  # not lost since
                reason = f"it has not ended {OVERRUN_GRACE_S:g} s after its timeout"
                _log(held, "handler_overran", ended=False, job="given up", reason=reason)
                self._settler.put(held, outcome)

    async def extend(self, held: Held, ms: int) -> bool:
        """Let an attempt continue for `ms` from now. False: this worker holds the lease no longer."""
        if held.phase is not Phase.RUNNING or held.run.verdict is not None:
            return False
        holds: bool = await self._context.driver.run(self._context.engine.extend(held.lease, ms))
        if not holds:
            self.lose(held.ref, "extend")
        elif held.run.stop is None or held.run.stop is Stop.CANCEL:
            held.extend(self._env.clock() + ms / limits.SECOND)
            self._extended()  # before the handler continues: it may hold up this process from now on
        return holds


def _log(held: Held, name: str, **fields: object) -> None:
    log_event(name, queue=held.ref.queue, task=held.lease.record.task, id=held.ref.id, **fields)
