"""Claims jobs, and waits until there may be some."""

from __future__ import annotations

from leasehold.core.errors import RedisError
from leasehold.core.job import Leased, Refused, together
from leasehold.runtime.context import WorkerContext
from leasehold.runtime.demand import Demand, Part
from leasehold.runtime.intake import Intake
from leasehold.runtime.jobs.suspects import Suspects
from leasehold.runtime.log import log_event
from leasehold.runtime.loops import is_away
from leasehold.runtime.receiver import Receiver
from leasehold.runtime.waiting import WorkWaiter


class Claimer:
    """A claim is never cancelled: the jobs of its reply would be lost. One exception: a claim that waits first."""

    def __init__(
        self,
        context: WorkerContext,
        intake: Intake,
        demand: Demand,
        suspects: Suspects,
        receiver: Receiver,
    ) -> None:
        self._context = context
        self._clock = context.env.clock
        self._intake = intake
        self._demand = demand
        self._suspects = suspects
        self._receiver = receiver
        self._waiter = WorkWaiter(context.engine, context.driver, context.worker, context.env)
        self.refused: frozenset[str] = frozenset()
        """The queues of which Redis refused the last claim."""

    @property
    def has_room(self) -> bool:
        """Whether a claim could bring something."""
        now = self._clock()
        return any(self._demand.room(part, now) for part in self._demand.parts())

    def startable(self) -> Part:
        """The queues of which a job could be claimed and started now."""
        return self._demand.startable(self.refused)

    async def claim(self) -> tuple[Leased, int]:
        """Claim from all queues for which there is room. Answers also how many there was room for."""
        self._intake.keep_all()
        got: list[Leased] = []
        most = 0
        asked: set[str] = set()
        for part in self._demand.parts():
            if got and (self._suspects.reserved is not None or self._suspects.alone_ms()):
                break
            room = self._demand.room(part, self._clock())
            if room and self._intake.is_open:
                most += room
                leased = await self._claim(part, room)
                # Once there was no more room, the queues that followed were not asked.
                full = len(leased.leases) >= room
                asked.update({lease.record.queue for lease in leased.leases} if full else part)
                got.append(leased)
        self._demand.turns.advance()
        leased = together(got)
        self._log_refused(leased, asked)
        return leased, most

    async def wait(self, queues: Part, wait_ms: int) -> bool | None:
        """Wait for a job of these queues. Answers whether the worker was woken for one; None when the wait was lost or
        cut short."""
        woken = await self._intake.rest(self._waiter.wait(queues, wait_ms))
        if self._intake.is_stopped or self._intake.is_disturbed:
            await self._waiter.put_back()
            return None
        if woken is None:
            return None
        self._demand.turns.woken(woken or None)
        return bool(woken)

    async def close(self) -> None:
        await self._waiter.close()

    def _log_refused(self, leased: Leased, asked: set[str]) -> None:
        refused = {one.queue: one.reason for one in leased.refused}
        for queue in refused.keys() - self.refused:
            log_event("redis_refused", what="claim", queue=queue, error=refused[queue])
        for queue in (self.refused & asked) - refused.keys():
            log_event("redis_restored", what="claim", queue=queue)
        self.refused = (self.refused - asked) | refused.keys()

    async def _claim(self, part: Part, room: int) -> Leased:
        asked_at = self._context.env.lease_clock()
        self._intake.begin_claim()
        slots, alone = self._demand.slots(part), self._suspects.prepare()
        try:
            claim = self._context.engine.lease(
                self._context.worker, part, room, None, slots, self._demand.of_lane, alone
            )
            if self._waiter.leads:  # it waits first, so it may be cancelled: heartbeats report leases that it lost
                leased: Leased = await self._intake.rest(self._waiter.claim(claim)) or Leased()
            else:
                leased = await self._context.driver.run(claim)
        except RedisError as error:
            self._suspects.claimed(Leased())
            if len(part) > 1 or is_away(error):
                raise
            # As the engine does among several queues: one that Redis refuses must not keep the worker from the others.
            return Leased(refused=(Refused(part[0], str(error)),))
        finally:
            self._intake.end_claim()
        for dropped in leased.dropped:
            log_event("entry_dropped", queue=dropped.queue, id=dropped.id, reason=dropped.reason)
        self._receiver.accept(leased.leases, asked_at)
        self._suspects.claimed(leased)
        return leased
