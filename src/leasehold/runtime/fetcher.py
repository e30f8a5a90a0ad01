"""Claims jobs: as many as there are free slots plus a little ahead; waits to be woken when there are none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping
from typing import Any

from leasehold.core import limits
from leasehold.core.engine import Engine
from leasehold.core.errors import RedisError
from leasehold.core.job import Leased, Refused, together
from leasehold.core.task import BatchRule
from leasehold.runtime.executor import Executor
from leasehold.runtime.jobs.held import PENDING, Held
from leasehold.runtime.jobs.suspects import RESERVED_LOOK_MS, Suspects
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.log import log_event
from leasehold.runtime.loops import SPURIOUS_MS, MonitoredDriver, is_away
from leasehold.runtime.ports import Env, Keeper
from leasehold.runtime.prefetch import STUCK_MS, Prefetch
from leasehold.runtime.round_robin import WeightedRoundRobin
from leasehold.runtime.settler import ROUND_MOST, Settler
from leasehold.runtime.waiting import WorkWaiter


class Fetcher:
    """The claiming loop. A claim is never cancelled: the jobs of its reply would be lost."""

    def __init__(
        self,
        engine: Engine,
        link: MonitoredDriver,
        keeper: Keeper,
        worker: str,
        turns: WeightedRoundRobin,
        batches: Mapping[str, BatchRule],
        inflight: Inflight,
        executor: Executor,
        pace: Prefetch,
        env: Env,
        settler: Settler,
        burst: bool = False,
    ) -> None:
        self._engine = engine
        self._link = link
        self._keeper = keeper
        self._worker = worker
        self._turns = turns
        self._batches = batches
        self._of_lane = {queue: rule.size for queue, rule in batches.items() if rule.one_lane}
        self._inflight = inflight
        self.suspects = Suspects(inflight, engine.timing.steady_ms, env)
        self._executor = executor
        self._pace = pace
        self._env = env
        self._settler = settler
        self._burst = burst
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()
        self._disturbed = self._loop.create_future()
        self._waits_for: tuple[str, ...] | None = None
        self._encore = False
        self.quiet = False
        self._paused: frozenset[str] = frozenset()
        self._hinted = 0
        self._waiter = WorkWaiter(engine, link, worker, env)
        self._refused: set[str] = set()
        self._checked_at = env.clock()
        self._checked_started = 0
        self._was_saturated = False
        self.ready = asyncio.Event()
        """Set while the keeper keeps: without it nothing is claimed."""
        self.claiming_since: float | None = None
        """When the claim that is under way began."""
        self._kept = frozenset(turns.order)
        self.keeping_since: float | None = env.clock()
        """Since when there has been something to keep; None: there is nothing."""

    @property
    def stopping(self) -> bool:
        return self._stopped.done()

    def stop(self) -> None:
        """Claim no more. A claim that is under way is waited for by `run`; everything else ends at once."""
        if not self._stopped.done():
            self._stopped.set_result(None)

    def be_quiet(self, quiet: bool) -> None:
        """Claim nothing and start nothing from now on, or go on. What runs, runs on."""
        if quiet == self.quiet:
            return
        self.quiet = self._executor.quiet = quiet
        log_event(logging.INFO, "quiet" if quiet else "awake", worker=self._worker)
        self._disturb()
        self._executor.dispatch()

    def give_up(self, paused: frozenset[str]) -> None:
        """Hand back what has not started of these queues, after a claim that is under way: jobs that go back later come
        first."""
        if any(held.phase is PENDING and held.lease.record.queue in paused for held in self._inflight.everything()):
            self._paused = paused
            self._disturb()

    def _is_paused(self, held: Held) -> bool:
        return held.lease.record.queue in self._paused

    async def run(self) -> None:
        """Until stopped; with `burst`, until there is nothing left to do."""
        try:
            await self._run()
        finally:
            await self._waiter.close()

    async def _run(self) -> None:
        while not self.stopping:
            if self._disturbed.done():
                self._disturbed = self._loop.create_future()
            if self._paused:
                self._executor.hand_back(self._inflight.take_pending(self._is_paused))
                self._paused = frozenset()
            if self.quiet:
                await self._be_still()
                continue
            if not self.ready.is_set():
                await self._rest(self.ready.wait())
                continue
            if alone_ms := self.suspects.alone_ms():
                await self._stand_by(alone_ms)
                continue
            if not any(self._room(part) for part in self._parts()):
                if self._burst and self._inflight.lasting and all(run.persistent for run in self._inflight.running):
                    return
                self._inflight.room.clear()
                await self._rest(self._inflight.room.wait())
                continue
            if not self.suspects.may_claim():
                await self._stand_by(RESERVED_LOOK_MS)
                continue
            was_lasting = self._inflight.lasting
            leased, room = await self._claim()
            if self.suspects.reserved is not None:
                await self._stand_by(RESERVED_LOOK_MS)
                continue
            if 0 < len(leased.leases) < room:
                await asyncio.sleep(0)  # what was just started comes first; where more waits, Redis works meanwhile
            if any(not lease.record.shape.persistent for lease in leased.leases) or len(leased.leases) >= room > 0:
                self._hinted, self._encore = 0, False
            elif not (leased.dropped or leased.next_ms == 0 or self.suspects.look_again):  # else claim again now
                if self._burst and was_lasting and self._inflight.lasting and self._nothing_else(leased):
                    return
                if leased.leases:
                    self._hinted = 0
                elif self._burst and self._inflight.empty and not self._refused:
                    continue  # what ran during the claim may have left a retry
                else:
                    await self._idle(leased.next_ms)

    def _nothing_else(self, leased: Leased) -> bool:
        """In a burst: whether it is the end, when a claim brought persistent jobs at most.

        They are begun, but one that has ended and comes again is no reason to go on. What is in a queue that Redis
        refuses, nobody knows.
        """
        if self._refused:
            return False
        if not leased.leases:
            return True
        again, self._encore = self._encore, True
        return again

    async def _be_still(self) -> None:
        """Hand back what has not started, and wait for what runs, or to be woken."""
        self._executor.hand_back(self._inflight.take_pending(lambda _: True))
        await self._stand_by(None)

    async def _stand_by(self, timeout_ms: int | None) -> None:
        """Claim nothing until something that is held has ended, or for a time."""
        self._inflight.changed.clear()
        self._keep(self._inflight.queues())
        self.suspects.settle()
        await self._rest(self._inflight.changed.wait(), timeout_ms)

    def watch(self, now: float, late: bool) -> None:
        """Learn the pace of the last moments, and hand back what has waited too long behind busy slots.

        `late`: the event loop was held up, so that waiting proves nothing.
        """
        if self.claiming_since is None:
            self.suspects.settle()
        started, seconds = self._executor.started - self._checked_started, now - self._checked_at
        if self._waits_for is not None and self._batches and self._waits_for != self._roomy():
            self._disturb()  # a batch took the last slot, or a slot came free for other queues
        saturated = bool(self._inflight.pending) or self._inflight.gathering.next_at() <= now
        if not late:
            self._pace.window(started, seconds, saturated and self._was_saturated)
        self._checked_at, self._checked_started, self._was_saturated = now, self._executor.started, saturated
        # A claim under way may bring newer jobs: handed back after these they would land in front of them.
        if late or not saturated or self._inflight.free > 0 or self.stopping or self.claiming_since is not None:
            return
        before = now - STUCK_MS / limits.SECOND
        stuck = self._inflight.take_pending(lambda held: self._inflight.ripe_at(held) < before)
        if stuck:
            self._pace.stuck()
            self._executor.hand_back(stuck)
            log_event(logging.DEBUG, "handed_back", jobs=len(stuck))

    def _parts(self) -> list[tuple[str, ...]]:
        """The queues in the order of their turns; those with a batch handler apart, as each has room of its own.

        Without those whose outcomes Redis refuses.
        """
        order = tuple(queue for queue in self._turns.order if not self._settler.is_refused(queue))
        if self.suspects.reserved in order:
            order = (self.suspects.reserved,)
        if not self._batches:
            return [order] if order else []
        parts: list[tuple[str, ...]] = []
        for queue in order:
            if parts and queue not in self._batches and parts[-1][0] not in self._batches:
                parts[-1] += (queue,)
            else:
                parts.append((queue,))
        return parts

    def _roomy(self) -> tuple[str, ...]:
        """The queues of which a job could be claimed and started now, and that Redis does not refuse.

        A worker that could not start a job must not be woken for it in the place of another that is idle.
        """
        startable = (queue for part in self._parts() if self._startable(part) > 0 for queue in part)
        return tuple(queue for queue in startable if queue not in self._refused)

    def _startable(self, part: tuple[str, ...]) -> int:
        """How many more could be started now than are pending."""
        inflight, gathering = self._inflight, self._inflight.gathering
        rule = self._batches.get(part[0])
        if rule is None:
            return inflight.free - gathering.groups() - len(inflight.pending)
        idle = inflight.free - len(inflight.pending) - gathering.groups(but=part[0])
        return max(0, idle) * rule.size - gathering.count(part[0])

    def _room(self, part: tuple[str, ...]) -> int:
        """How many to claim now. 0: enough is pending, and no slot is idle.

        Of a queue with a batch handler, as many as fill a batch for each idle slot. Of one whose batches are of one
        lane each, as many as fill one: nobody knows how many lanes they will be.
        """
        inflight = self._inflight
        ahead = self._pace.ahead(inflight.lively(self._env.clock() - STUCK_MS / limits.SECOND))
        inflight.low_water = ahead // 2
        rule = self._batches.get(part[0])
        pending = len(inflight.pending) if rule is None else inflight.gathering.count(part[0])
        startable = self._startable(part)
        if startable <= 0 and (pending > inflight.low_water or ahead == 0):
            return 0
        wanted = max(startable, -pending) + ahead
        at_once = rule.size if rule is not None and rule.one_lane else ROUND_MOST
        return max(0, min(wanted, at_once, limits.MAX_HELD - inflight.held + self._settler.refused))

    async def _claim(self) -> tuple[Leased, int]:
        """Claim from all queues for which there is room. Answers also how many there was room for."""
        # Before the claim, so that the keeper renews the new leases whatever holds this process up.
        parts = self._parts()
        if not self._kept:
            self._keep(frozenset(self._turns.order))
        got: list[Leased] = []
        most = 0
        asked: set[str] = set()
        for part in parts:
            if got and (self.suspects.reserved is not None or self.suspects.alone_ms()):
                break
            room = self._room(part)
            if room and not self.stopping and not self.quiet:
                most += room
                leased = await self._claim_part(part, room)
                # Once there was no more room, the queues that followed were not asked.
                full = len(leased.leases) >= room
                asked.update({lease.record.queue for lease in leased.leases} if full else part)
                got.append(leased)
        self._turns.advance()
        leased = together(got)
        self._tell_refused(leased, asked)
        self._keep(self._inflight.queues())
        return leased, most

    def _tell_refused(self, leased: Leased, asked: set[str]) -> None:
        refused = {one.queue: one.reason for one in leased.refused}
        for queue in refused.keys() - self._refused:
            log_event(logging.ERROR, "queue_refused", queue=queue, error=refused[queue])
        for queue in (self._refused & asked) - refused.keys():
            log_event(logging.WARNING, "queue_back", queue=queue)
        self._refused = (self._refused - asked) | refused.keys()

    async def _claim_part(self, part: tuple[str, ...], room: int) -> Leased:
        asked_at, self.claiming_since = self._env.lease_clock(), self._env.clock()
        slots = self._inflight.slots * (self._batches[part[0]].size if part[0] in self._batches else 1)
        company = self.suspects.prepare()
        try:
            claim = self._engine.lease(self._worker, part, room, None, slots, self._of_lane or None, company)
            if self._waiter.leads:  # it waits first, so it may be cancelled: heartbeats report leases that it lost
                leased = await self._rest(self._waiter.claim(claim)) or Leased()
            else:
                leased = await self._link.run(claim)
        except RedisError as error:
            self.suspects.claimed(Leased())
            if len(part) > 1 or is_away(error):
                raise
            # As the engine does among several queues: one that Redis refuses must not keep us from the others.
            return Leased(refused=(Refused(part[0], str(error)),))
        finally:
            self.claiming_since = None
        for dropped in leased.dropped:
            log_event(logging.WARNING, "dropped", queue=dropped.queue, id=dropped.id, reason=dropped.reason)
        self._executor.accept(leased.leases, asked_at)
        self.suspects.claimed(leased)
        return leased

    def _keep(self, queues: frozenset[str]) -> None:
        if queues != self._kept:
            if not queues or not self._kept:
                self.keeping_since = self._env.clock() if queues else None
            self._kept = queues
            self._keeper.keep(queues)

    async def _idle(self, next_ms: int | None) -> None:
        """Nothing came: wait until something may have."""
        self.suspects.settle()
        if self._burst and not self._inflight.empty:
            # A job here may still be retried or handed back: look again when one has ended.
            self._inflight.changed.clear()
            await self._rest(self._inflight.changed.wait(), SPURIOUS_MS)
            return
        if self._hinted > 1:
            # Woken and nothing there, again and again: others are faster. Do not spin.
            pause_ms = min(limits.MIN_WAIT_MS * self._hinted, SPURIOUS_MS)
            await self._rest(self._env.sleep(pause_ms / limits.SECOND))
        most = self._engine.timing.idle_wait_ms
        wait_ms = max(limits.MIN_WAIT_MS, min(most, most if next_ms is None else next_ms))
        wait_ms += int(self._env.random() * limits.MIN_WAIT_MS / 4)
        self._waits_for = self._roomy()
        try:
            if self._waits_for:
                await self._be_woken(self._waits_for, wait_ms)
            else:
                self._inflight.room.clear()
                await self._rest(self._inflight.room.wait(), wait_ms)
        finally:
            self._waits_for = None

    async def _be_woken(self, queues: tuple[str, ...], wait_ms: int) -> None:
        """Wait for work. When that fails the queues are looked at all the same, later and later while it goes on."""
        woken = await self._rest(self._waiter.wait(queues, wait_ms))
        if self.stopping or self._disturbed.done():
            await self._waiter.put_back()
        elif woken is not None:
            self._hinted = self._hinted + 1 if woken else 0
            self._turns.woken(woken or None)

    async def _rest(self, waiting: Awaitable[Any], timeout_ms: int | None = None) -> Any:
        """Wait for this, but not when it is time to stop or to look anew. Only what may be cancelled is waited for."""
        task = asyncio.ensure_future(waiting)
        try:
            timeout = None if timeout_ms is None else timeout_ms / limits.SECOND
            ends = {task, self._stopped, self._disturbed}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=timeout)
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(_forget)
        return task.result() if task.done() else None

    def _disturb(self) -> None:
        if not self._disturbed.done():
            self._disturbed.set_result(None)


def _forget(task: asyncio.Future[Any]) -> None:
    """Look at the end of a cancelled wait, so that nobody complains that it was not looked at."""
    with contextlib.suppress(asyncio.CancelledError):
        task.exception()
