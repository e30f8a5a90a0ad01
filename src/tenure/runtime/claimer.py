"""Claims jobs from the queues that have room, takes them in, and waits until there may be some."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from msgspec import Struct

from tenure.core import limits
from tenure.core.errors import RedisError, is_away
from tenure.core.job import Leased, Refused, together
from tenure.core.steps import Steps, WaitLost
from tenure.core.waiting import Lead, SeparateWait, Wait
from tenure.runtime.context import WorkerContext
from tenure.runtime.executor import Executor
from tenure.runtime.handlers.routes import Routes
from tenure.runtime.jobs.suspects import Suspects
from tenure.runtime.log import Drops, log_event
from tenure.runtime.round_robin import WeightedRoundRobin
from tenure.runtime.settler import Settler
from tenure.runtime.waiting import WorkWaiter

Part: TypeAlias = tuple[str, ...]
"""Queues that one call claims from."""


class Claimed(Struct, frozen=True):
    """What a claim brought. `room`: how many jobs there was room for. `woken`: whether the claim waited first, and was
    woken; None: it did not wait, or the wait was cut short. `is_refused`: Redis refuses the claim of some queue."""

    leased: Leased
    room: int
    woken: bool | None = None
    is_refused: bool = False

    @property
    def may_continue(self) -> bool:
        """Whether another claim may bring more: this one was full, or brought a job that is not persistent."""
        leases = self.leased.leases
        return any(not lease.record.shape.persistent for lease in leases) or len(leases) >= self.room > 0

    @property
    def is_partial(self) -> bool:
        """Whether the claim brought jobs, but fewer than there was room for."""
        return 0 < len(self.leased.leases) < self.room

    @property
    def took_all(self) -> bool:
        """Whether an idle worker was woken for jobs, and its claim left none."""
        return self.is_partial and bool(self.woken) and self.leased.next_ms != 0


class Claimer:
    """See the module. A claim is never cancelled, because its reply may have jobs; but for one that waits first: see
    `core.waiting.Lead`."""

    def __init__(
        self,
        context: WorkerContext,
        executor: Executor,
        settler: Settler,
        suspects: Suspects,
        routes: Routes,
        turns: WeightedRoundRobin,
    ) -> None:
        self._context = context
        self._env = context.env
        self._inflight = context.inflight
        self._intake = context.intake
        self._executor = executor
        self._settler = settler
        self._suspects = suspects
        self._turns = turns
        self._batches = routes.batch_rules()
        self._of_lane = {queue: rule.size for queue, rule in self._batches.items() if rule.one_lane} or None
        """How many jobs of one lane a claim may take together, by queue."""
        self._grace_s = context.engine.timing.grace_ms / limits.SECOND
        self._waiter = WorkWaiter(context.engine, context.driver, context.worker, context.env)
        self._drops = Drops(context.env.clock)
        self.refused: frozenset[str] = frozenset()
        """The queues of which Redis refused the last claim."""

    # -------------------------------------------------------------------------------------------------- what to claim

    @property
    def has_room(self) -> bool:
        """Whether a claim could bring something."""
        now = self._env.clock()
        return any(self._room(part, now) for part in self._parts())

    def startable(self) -> Part:
        """The queues of which a job could be claimed and started now, without those that Redis refuses.

        If a worker without a free slot were woken for a job, an idle worker would not get it.
        """
        queues = (queue for part in self._parts() if self._startable(part) > 0 for queue in part)
        return tuple(queue for queue in queues if queue not in self.refused)

    def _parts(self) -> list[Part]:
        """The queues in the order of their turns, except where Redis refuses outcomes. A queue with a batch
        handler is a part of its own, as its room is counted in batches."""
        order = tuple(queue for queue in self._turns.order if not self._settler.is_refused(queue))
        if self._suspects.queue in order:
            order = (self._suspects.queue,)
        if not self._batches:
            return [order] if order else []
        parts: list[Part] = []
        for queue in order:
            if parts and queue not in self._batches and parts[-1][0] not in self._batches:
                parts[-1] += (queue,)
            else:
                parts.append((queue,))
        return parts

    def _room(self, part: Part, now: float) -> int:
        """How many jobs to claim now. 0: enough are pending, and no slot is free.

        With a batch handler: a batch for each free slot. If each batch is of one lane: one batch, because the number of
        lanes is unknown.
        """
        inflight = self._inflight
        ahead = inflight.ahead(now)
        rule = self._batches.get(part[0])
        pending = len(inflight.pending) if rule is None else inflight.gathering.count(part[0])
        startable = self._startable(part)
        if startable <= 0 and (pending > inflight.low_water or ahead == 0):
            return 0
        wanted = max(startable, -pending) + ahead
        at_once = rule.size if rule is not None and rule.one_lane else self._env.limits.claim_most
        return max(0, min(wanted, at_once, limits.MAX_HELD - inflight.held + self._settler.refused))

    def _startable(self, part: Part) -> int:
        """How many more jobs could start now than are pending."""
        inflight, gathering = self._inflight, self._inflight.gathering
        rule = self._batches.get(part[0])
        if rule is None:
            return inflight.free - gathering.groups() - len(inflight.pending)
        idle = inflight.free - len(inflight.pending) - gathering.groups(but=part[0])
        return max(0, idle) * rule.size - gathering.count(part[0])

    # ------------------------------------------------------------------------------------------------------- claiming

    async def claim(self, lead: Lead | None) -> Claimed:
        """Claim from all queues for which there is room; with `lead`, wait first, and begin with its queue."""
        got: list[Leased] = []
        most, woken = 0, None
        asked: set[str] = set()
        parts = self._parts()
        if lead is not None and not any(lead.queue in part for part in parts):
            lead = None
        if lead is not None:
            parts = [(lead.queue,), *_without(parts, lead.queue)]
        for number, part in enumerate(parts):
            waits = lead if number == 0 else None
            if got and self._suspects.claims_nothing:
                break
            if number and lead is not None and self._intake.is_disturbed:
                break
            room = self._room(part, self._env.clock())
            if room and self._intake.is_open:
                most += room
                leased, was_woken = await self._claim(part, room, waits)
                woken = was_woken if waits is not None else woken
                # Once there was no more room, the queues that followed were not asked.
                full = len(leased.leases) >= room
                asked.update({lease.record.queue for lease in leased.leases} if full else part)
                got.append(leased)
        self._turns.advance()
        self._drops.log()
        leased = together(got)
        self._log_refused(leased, asked)
        return Claimed(leased, most, woken, bool(self.refused))

    async def _claim(self, part: Part, room: int, lead: Lead | None) -> tuple[Leased, bool | None]:
        """Claim from one part. Also return what `Claimed.woken` is."""
        if lead is None:  # else there would be heartbeats all the while that an idle worker waits
            self._intake.keep_all()
        asked_at = self._env.lease_clock()
        self._intake.begin_claim()
        rule, alone = self._batches.get(part[0]), self._suspects.company()
        slots = self._inflight.slots * (1 if rule is None else rule.size)
        try:
            claim = self._context.engine.lease(self._context.worker, part, room, None, slots, self._of_lane, alone)
            if lead is None:
                leased, woken = await self._context.driver.run(claim), None
            else:
                leased, woken = await self._wait_and_claim(lead, claim)
        except RedisError as error:
            self._suspects.claimed(Leased())
            if len(part) > 1 or is_away(error):
                raise
            # As the engine does among several queues: the worker continues with the others.
            return Leased(refused=(Refused(part[0], str(error)),)), None
        finally:
            self._intake.end_claim()
        self._drops.add(leased.dropped)
        if lead is not None:
            # A lease began with the wait at the earliest, and others take its jobs a grace period after its end.
            asked_at = min(self._env.lease_clock(), asked_at + self._grace_s)
        if lead is not None and leased.leases:
            self._intake.keep_all()  # before any of them starts: its thread may hold the GIL at once
        self._executor.accept(leased.leases, asked_at)
        self._suspects.claimed(leased)
        return leased, woken

    async def _wait_and_claim(self, lead: Lead, claim: Steps[Leased]) -> tuple[Leased, bool | None]:
        """A claim that waits first. A stop or a disturbance cancels it: heartbeats report leases of a lost reply."""
        waiting = asyncio.ensure_future(self._waiter.claim(lead, claim))
        try:
            done: tuple[Leased, bool] | None = await self._intake.rest(waiting)
        except WaitLost:
            self._intake.doubt()
            return Leased(next_ms=0), None
        if done is None:
            self._intake.doubt()
            # Until its connection is closed: a worker that stops then releases all that Redis has leased to it.
            await asyncio.wait({waiting})
            return Leased(), None
        return done

    def _log_refused(self, leased: Leased, asked: set[str]) -> None:
        for one in leased.refused:
            if one.partition is not None:  # the others of its queue are claimed from
                log_event("redis_refused", what="claim", queue=one.queue, partition=one.partition, error=one.reason)
        refused = {one.queue: one.reason for one in leased.refused if one.partition is None}
        for queue in refused.keys() - self.refused:
            log_event("redis_refused", what="claim", queue=queue, error=refused[queue])
        for queue in (self.refused & asked) - refused.keys():
            log_event("redis_restored", what="claim", queue=queue)
        self.refused = (self.refused - asked) | refused.keys()

    # -------------------------------------------------------------------------------------------------------- waiting

    def wait_for(self, queues: Part, wait_ms: int) -> Wait:
        """How to wait for a job of these queues: a `Lead` is for the next claim, other waits are for `wait`."""
        return self._waiter.wait_for(queues, wait_ms, self._inflight.empty)

    async def wait(self, wait: SeparateWait, wait_ms: int) -> bool | None:
        """Wait for a job. Return whether the worker was woken for one; None: the wait was lost or cut short."""
        woken = await self._intake.rest(self._waiter.wait(wait, wait_ms))
        if self._intake.is_stopped or self._intake.is_disturbed:
            await self._waiter.put_back()
            return None
        if woken is None:
            return None
        self._turns.woken(woken or None)
        return bool(woken)

    async def close(self) -> None:
        self._drops.log(at_once=True)
        await self._waiter.close()


def _without(parts: list[Part], queue: str) -> list[Part]:
    """The parts without this queue."""
    rest = (tuple(one for one in part if one != queue) for part in parts)
    return [part for part in rest if part]
