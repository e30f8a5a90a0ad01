"""Claims jobs: as many as there are free slots plus a little ahead; waits to be woken when there are none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Any

from leasehold.core import limits
from leasehold.core.engine import Engine
from leasehold.core.job import Leased
from leasehold.runtime.executor import Executor
from leasehold.runtime.inflight import Inflight
from leasehold.runtime.log import event
from leasehold.runtime.pace import Pace
from leasehold.runtime.ports import Driver, Env, Keeper


class Fetcher:
    """The claiming loop. A claim is never cancelled: its reply would be lost, and with it the jobs that it brings."""

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        keeper: Keeper,
        worker: str,
        queues: Sequence[str],
        inflight: Inflight,
        executor: Executor,
        pace: Pace,
        env: Env,
        burst: bool = False,
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._keeper = keeper
        self._worker = worker
        self._queues = deque(queues)
        self._inflight = inflight
        self._executor = executor
        self._pace = pace
        self._env = env
        self._burst = burst
        self._stopped = asyncio.get_running_loop().create_future()
        self._hinted = 0
        self._refused: set[str] = set()
        self._checked_at = env.clock()
        self._checked_started = 0
        self._was_saturated = False
        self.ready = asyncio.Event()
        """Set while the keeper keeps: without it nothing is claimed."""
        self.claiming_since: float | None = None
        """When the claim that is under way began."""
        self._kept = frozenset(queues)
        self.keeping_since: float | None = env.clock()
        """Since when there has been something to keep; None: there is nothing."""

    @property
    def stopping(self) -> bool:
        return self._stopped.done()

    def stop(self) -> None:
        """Claim no more. A claim that is under way is waited for by `run`; everything else ends at once."""
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def run(self) -> None:
        """Until stopped; with `burst`, until there is nothing left to do."""
        while not self.stopping:
            if not self.ready.is_set():
                await self._rest(self.ready.wait())
                continue
            room = self._room()
            if room <= 0:
                self._inflight.room.clear()
                await self._rest(self._inflight.room.wait())
                continue
            was_empty = self._inflight.empty
            leased = await self._claim(room)
            if leased.leases:
                self._hinted = 0
            elif not leased.dropped and leased.next_ms != 0:  # 0: claim again now, there is more to look through
                if self._burst and self._inflight.empty:
                    if was_empty:
                        return
                    continue  # what ran during the claim may have left a retry
                await self._idle(leased.next_ms)

    def watch(self, now: float, late: bool) -> None:
        """Learn the pace of the last moments, and hand back what has waited too long behind busy slots.

        `late`: the event loop was held up, so that waiting proves nothing.
        """
        started, seconds = self._executor.started - self._checked_started, now - self._checked_at
        saturated = bool(self._inflight.pending)
        if not late:
            self._pace.window(started, seconds, saturated and self._was_saturated)
        self._checked_at, self._checked_started, self._was_saturated = now, self._executor.started, saturated
        # A claim under way may bring newer jobs: handed back after these they would land in front of them.
        if late or not saturated or self._inflight.free > 0 or self.stopping or self.claiming_since is not None:
            return
        before = now - limits.STUCK_MS / limits.SECOND
        stuck = self._inflight.take_pending(lambda held: held.claimed_at < before)
        if stuck:
            self._pace.stuck()
            self._executor.hand_back(stuck)
            event(logging.DEBUG, "handed_back", jobs=len(stuck))

    def _room(self) -> int:
        """How many to claim now. 0: enough is pending, and no slot is idle."""
        inflight = self._inflight
        pending = len(inflight.pending)
        ahead = self._pace.ahead(inflight.lively(self._env.clock() - limits.STUCK_MS / limits.SECOND))
        inflight.low_water = ahead // 2
        if pending >= inflight.free and (pending > inflight.low_water or ahead == 0):
            return 0
        return min(inflight.free + ahead - pending, limits.MAX_BATCH, limits.MAX_HELD - inflight.held)

    async def _claim(self, limit: int) -> Leased:
        # Told before, so that the new leases are kept whatever holds this process up. A keeper that keeps anything
        # comes by the other queues too, often enough.
        if not self._kept:
            self._keep(frozenset(self._queues))
        self.claiming_since = self._env.clock()
        try:
            leased = await self._driver.run(
                self._engine.lease(self._worker, tuple(self._queues), limit, slots=self._inflight.slots)
            )
        finally:
            self.claiming_since = None
        self._queues.rotate(-1)  # fairness: each queue is looked at first in its turn
        refused = {one.queue: one.reason for one in leased.refused}
        for queue in refused.keys() - self._refused:
            event(logging.ERROR, "queue_refused", queue=queue, error=refused[queue])
        for queue in self._refused - refused.keys():
            event(logging.WARNING, "queue_back", queue=queue)
        self._refused = set(refused)
        for dropped in leased.dropped:
            event(logging.WARNING, "dropped", queue=dropped.queue, id=dropped.id, reason=dropped.reason)
        self._executor.accept(leased.leases)
        self._keep(self._inflight.queues())
        return leased

    def _keep(self, queues: frozenset[str]) -> None:
        if queues != self._kept:
            if not queues or not self._kept:
                self.keeping_since = self._env.clock() if queues else None
            self._kept = queues
            self._keeper.keep(queues)

    async def _idle(self, next_ms: int | None) -> None:
        """Nothing came: wait until something may have."""
        if self._burst and not self._inflight.empty:
            # A job here may still be retried or handed back: look again when one has ended.
            self._inflight.changed.clear()
            await self._rest(self._inflight.changed.wait(), limits.SPURIOUS_MS)
            return
        if self._hinted > 1:
            # Woken and nothing there, again and again: others are faster. Do not spin.
            await self._rest(
                self._env.sleep(min(limits.MIN_WAIT_MS * self._hinted, limits.SPURIOUS_MS) / limits.SECOND)
            )
        most = self._engine.timing.idle_wait_ms
        wait_ms = max(limits.MIN_WAIT_MS, min(most, most if next_ms is None else next_ms))
        wait_ms += int(self._env.random() * limits.MIN_WAIT_MS / 4)
        queue = await self._rest(self._driver.run(self._engine.wait(tuple(self._queues), wait_ms)))
        self._hinted = 0 if queue is None else self._hinted + 1
        if queue in self._queues:
            self._queues.rotate(-self._queues.index(queue))

    async def _rest(self, waiting: Awaitable[Any], timeout_ms: int | None = None) -> Any:
        """Wait for this, but not when it is time to stop. Only what may be cancelled is waited for here."""
        task = asyncio.ensure_future(waiting)
        try:
            timeout = None if timeout_ms is None else timeout_ms / limits.SECOND
            await asyncio.wait({task, self._stopped}, return_when=asyncio.FIRST_COMPLETED, timeout=timeout)
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(_forget)
        return task.result() if task.done() else None


def _forget(task: asyncio.Future[Any]) -> None:
    """Look at the end of a cancelled wait, so that nobody complains that it was not looked at."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
