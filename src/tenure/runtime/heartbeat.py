"""Heartbeats as the worker sees them: another process renews its leases, and the worker acts on its reports.

That process, the keeper, sends the heartbeats. It runs no handlers, so none can delay them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tenure.core import limits
from tenure.core.engine import HeartbeatReply
from tenure.core.job import Lease, LeaseRef
from tenure.core.outcome import TimedOut
from tenure.runtime.canceller import Canceller
from tenure.runtime.context import WorkerContext
from tenure.runtime.executor import Executor
from tenure.runtime.handlers.routes import UNROUTABLE
from tenure.runtime.jobs.held import PENDING, Held
from tenure.runtime.log import brief, log_event
from tenure.runtime.loops import FailureRate, redis_pauses
from tenure.runtime.ports import Keeper, KeeperGone, ParentGone
from tenure.runtime.settler import Settler
from tenure.runtime.waits import catch_up

KEEPER_DEATHS: Final = 5
"""When more keepers than this have died within a minute, the worker stops with an error."""
START_S: Final = 30
"""When no keeper has reported for this long after the last one was lost, the worker stops with an error."""


class Heartbeat:
    """Starts a keeper, reads its reports, and replaces it when it has ended or is silent.

    While no keeper reports, nothing is claimed.
    """

    def __init__(
        self,
        context: WorkerContext,
        keeper: Keeper,
        canceller: Canceller,
        executor: Executor,
        settler: Settler,
    ) -> None:
        self._keeper = keeper
        self._worker = context.worker
        self._queues = context.queues
        self._env = context.env
        self._beat_s = context.engine.timing.beat_ms / limits.SECOND
        self._lease_s = context.engine.timing.lease_ms / limits.SECOND
        self._inflight = context.inflight
        self._intake = context.intake
        self._kept = context.intake.kept
        self._canceller = canceller
        self._executor = executor
        self._settler = settler
        self._deaths = FailureRate(KEEPER_DEATHS)
        self._missing_since = self._env.clock()
        """Since when no keeper reports, while none does."""
        self._pauses = redis_pauses(context.env)
        self._has_failed = False
        """Whether the last start has failed."""
        self._is_silent = False
        """Whether the keeper is being replaced because it was silent."""
        self._orphaned: dict[LeaseRef, tuple[float, float]] = {}
        """When each lease that the worker does not know was first and last reported."""
        self._heard_at: float | None = None
        self._watched_at = self._resumed_at = self._env.clock()
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Run until `stop`. Raises `KeeperGone` when no keeper can be started, or when many die within a minute."""
        try:
            while not self._stopped.is_set():
                await self._one_keeper()
        finally:
            # If a handler has cancelled this loop, no code reads the reports, so silence means nothing.
            self._heard_at = None
            self._intake.is_kept.clear()

    async def _one_keeper(self) -> None:
        """Start a keeper and read its reports until it has ended."""
        try:
            await self._keeper.start(self._worker, self._queues)
            async with asyncio.timeout(START_S - (self._env.clock() - self._missing_since)):
                self._take(await self._keeper.report())
            if self._has_failed:
                log_event("keeper_restored", after_s=self._env.clock() - self._missing_since)
            self._has_failed = False
            self._pauses.reset()
            while True:
                self._take(await self._keeper.report())
        except OSError as error:  # also a TimeoutError
            await self._not_started(error)
        except KeeperGone as error:
            self._lost(error)

    async def _not_started(self, error: OSError) -> None:
        """The system may lack processes, descriptors or memory for a while. Running jobs continue in that time."""
        if self._stopped.is_set():
            return
        if not self._has_failed:
            log_event("keeper_lost", reason="not_started", error=brief(error))
        if self._env.clock() - self._missing_since >= START_S:
            raise KeeperGone(
                f"No process that keeps the leases has started and reported for {START_S:g} s: {error!r}. Is "
                "this user, or the machine, out of memory, processes or file descriptors?"
            ) from error
        self._has_failed = True
        await self._env.sleep(self._pauses.next_s())

    def _lost(self, error: KeeperGone) -> None:
        is_silent, self._heard_at, self._missing_since = self._is_silent, None, self._env.clock()
        self._is_silent = False
        self._intake.is_kept.clear()
        self._intake.note_heartbeat(None)
        if self._stopped.is_set():
            return
        if not is_silent and not isinstance(error, ParentGone):
            log_event("keeper_lost", reason="ended", error=str(error))
        # A keeper that was replaced for its silence may live: the machine is short of processor time.
        if not is_silent and self._deaths.strike(self._env.clock()):
            raise KeeperGone(
                f"The process that keeps the leases died more than {KEEPER_DEATHS} times in a minute. See the log "
                "lines before this one. Can `python -m tenure.processes.keeper` start here?"
            ) from error

    def _take(self, report: HeartbeatReply | None) -> None:
        self._heard_at = self._env.clock()
        if self._stopped.is_set():
            return
        self._intake.note_heartbeat(report is not None)
        if report is not None:
            self._act_on(report)
        self._keeper.show(self._inflight.snapshot(self._heard_at - self._beat_s / 2))

    def lay_down(self) -> None:
        """Ignore the reports from now on: all jobs are about to be released."""
        self._stopped.set()
        self._intake.is_kept.clear()

    async def stop(self, *, left: bool, crashed: bool, outcomes: TimedOut) -> None:
        """End the heartbeats. `left`: the keeper releases the jobs that are still held when this process has ended, and
        settles those with `outcomes`."""
        self.lay_down()
        await self._keeper.stop(left=left, crashed=crashed, outcomes=outcomes)

    async def watch(self) -> None:
        """Replace a silent keeper, and stop handlers that must not run twice when no heartbeat has gone through.

        Called every few milliseconds while jobs are held. The keeper reports at every heartbeat, also while Redis does
        not answer. If two reports are missing, the worker claims nothing; after the length of a lease without a report,
        it replaces the keeper.
        """
        now = self._env.clock()
        if now - self._watched_at > self._beat_s:
            self._resumed_at = now  # this process was stopped, or a handler held the loop; perhaps the keeper was, too
        self._watched_at = now
        if self._stopped.is_set() or not (self._silent_s(now) >= 2 * self._beat_s or self._is_late()):
            return
        await catch_up()  # a handler may have held the loop: the reports lie in the socket
        now = self._env.clock()
        if self._stopped.is_set():
            return
        if self._is_late():
            self._canceller.silence(now)
            self._executor.release_doubtful()
        silent_s = self._silent_s(now)
        if silent_s >= 2 * self._beat_s:
            self._intake.is_kept.clear()
        if silent_s >= self._lease_s:
            self._heard_at, self._is_silent = None, True
            log_event("keeper_lost", reason="silent", silent_s=silent_s)
            self._keeper.replace()

    def _is_late(self) -> bool:
        return self._kept.is_late(self._inflight.queues())

    def _silent_s(self, now: float) -> float:
        """How long the keeper has sent no report although it should have."""
        since = self._intake.keeping_since
        return 0.0 if since is None or self._heard_at is None else now - max(since, self._heard_at, self._resumed_at)

    def _act_on(self, report: HeartbeatReply) -> None:
        late = self._kept.hear(self._keeper.kept_at)
        for ref in report.lost:
            self._canceller.lose(ref, "heartbeat")
        for asked in report.cancelled:
            self._canceller.cancel(asked.ref, asked.reason)
        if late:
            self._executor.release_doubtful()
        self._release_orphaned(report.orphaned)
        held = self._inflight.everything() if report.paused else ()
        if any(one.phase is PENDING and one.lease.record.queue in report.paused for one in held):
            self._intake.pause(report.paused)
        self._intake.is_kept.set()
        self._executor.dispatch()

    def _release_orphaned(self, reported: Sequence[Lease]) -> None:
        """Release leases after the reply of their claim was lost.

        Such a lease may belong to a claim that is under way. If it was reported before that claim began, it does not:
        the jobs of earlier claims are known. A report is not about every queue, so the times are kept for a while.
        """
        now = self._env.clock()
        before = now - 3 * limits.KEEPER_TEND_MS / limits.SECOND
        seen = {ref: times for ref, times in self._orphaned.items() if times[1] > before}
        orphans: list[Held] = []
        for lease in reported:
            ref = lease.ref
            if self._inflight.knows(ref):
                continue
            first = seen.pop(ref)[0] if ref in seen else None
            claiming = self._intake.claiming_since
            if first is None or (claiming is not None and claiming <= first):
                seen[ref] = (now if first is None else first, now)
            elif (held := self._inflight.add(lease, UNROUTABLE, now, to_run=False)) is not None:
                orphans.append(held)
                log_event("jobs_released", queue=ref.queue, id=ref.id, token=ref.token, reason="lost reply")
        if orphans:
            self._settler.release(orphans)
        self._orphaned = seen
