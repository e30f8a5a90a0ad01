"""Writes outcomes to Redis in batches: each call settles what ended during the previous one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final, TypeAlias

from msgspec import structs

from tenure.core import limits
from tenure.core.engine import Trait
from tenure.core.errors import RedisError, ReplyError, Unreachable, is_silent
from tenure.core.job import Lease, LeaseRef
from tenure.core.outcome import Completed, Crashed, Outcome, Released, Retried
from tenure.core.steps import durably
from tenure.runtime.context import WorkerContext
from tenure.runtime.jobs.held import Held
from tenure.runtime.log import Once, brief, log_event
from tenure.runtime.loops import redis_pauses
from tenure.runtime.ports import Env

SETTLE_CROWD: Final = 8
SETTLE_FULL: Final = 100
GATHER_MS: Final = 2
"""If at least `SETTLE_CROWD` and less than `SETTLE_FULL` jobs have ended, jobs are short: wait `GATHER_MS` for more."""

Item: TypeAlias = tuple[Held, Outcome]


class Outbox:
    """The outcomes of one queue that are not settled, in their order. When Redis refuses one, the queue pauses."""

    def __init__(self, queue: str, env: Env) -> None:
        self.items: deque[Item] = deque()
        self._queue = queue
        self._pauses = redis_pauses(env)
        self._told = Once()
        self.due_at = 0.0
        """The time of the next attempt, if Redis refused the last one, else 0."""
        self.releases = 0
        """How many of them release a job, also in the call under way."""

    def add(self, item: Item) -> None:
        self.items.append(item)
        if type(item[1]) is Released:
            self.releases += 1

    def settled(self, items: Sequence[Item]) -> None:
        """Count what Redis has answered."""
        if self.releases:
            self.releases -= sum(type(outcome) is Released for _, outcome in items)

    def refused(self, error: RedisError, now: float) -> None:
        text = brief(error)
        if self._told.is_new(text):
            log_event("redis_refused", what="settle", queue=self._queue, error=text)
        self.due_at = now + self._pauses.next_s()

    def accepted(self) -> None:
        self.due_at = 0.0
        self._pauses.reset()
        self._told.forget()
        log_event("redis_restored", what="settle", queue=self._queue)


class Settler:
    """Settles outcomes queue by queue, and drops none.

    When Redis does not answer, the outcomes stay here and the loop raises: its supervisor runs it again. When Redis
    refuses one (a foreign key, a missing right), its whole queue is tried again, with growing pauses. In that time
    the worker claims nothing of that queue. The other queues continue.
    """

    def __init__(
        self,
        context: WorkerContext,
        replicas: int = 0,
    ) -> None:
        self._engine = context.engine
        self._has_delays = Trait.RETRY_DELAY in context.engine.traits
        """Else the format runs a retry at once, and no log or event names a delay."""
        self._driver = context.driver
        self._env = context.env
        self._reports = context.reports
        self._inflight = context.inflight
        self._outboxes: dict[str, Outbox] = {}
        """Outboxes by queue; only queues with unsettled outcomes are here."""
        self._groups: dict[tuple[str, str], list[Item]] = {}
        """Outcomes of leases that settle together, by queue and group, until all members have one."""
        self._wake = asyncio.Event()
        self._replicas = replicas
        self._too_few = Once()
        self._settled = asyncio.Event()
        self._settled.set()
        self._doubtful: set[LeaseRef] = set()
        """Leases that a call without a reply may have settled."""

    def put(self, held: Held, outcome: Outcome) -> None:
        """Settle a lease with this outcome. Ignored if its end was decided before, or it was lost."""
        self.put_all(((held, outcome),))

    def put_all(self, ended: Iterable[Item]) -> None:
        """Settle leases with these outcomes, as `put` does."""
        now = self._env.clock()
        for item in ended:
            held, outcome = item
            if type(outcome) is Retried and not self._has_delays:
                item = held, structs.replace(outcome, delay_ms=0)
            if type(outcome) is Released and held.started_at and held.lease.record.shape.at_most_once:
                item = held, Crashed()  # it may have begun, so it must not run again
            lease = held.lease
            if not self._inflight.begin_settling(held):
                record = lease.record
                log_event("handler_overran", ended=True, queue=record.queue, task=record.task, id=record.id)
                continue
            held.end_at(now)
            if lease.group:
                self._groups.setdefault((lease.record.queue, lease.group), []).append(item)
                self._settle_group(held)
            else:
                self._outbox(lease.record.queue).add(item)

    def release(self, held: list[Held]) -> None:
        """Return leases that have not started, to the front of their queue and in their order.

        The last go first: within a call the engine keeps the order, and what a later call returns lands in front.
        """
        for one in reversed(held):
            self.put(one, Released())

    def lost(self, held: Held) -> None:
        """A lease is lost. Those that settle together with it no longer wait for its outcome."""
        if held.lease.group:
            self._settle_group(held)

    def _settle_group(self, held: Held) -> None:
        """Settle the group of a lease, if all its members have outcomes."""
        queue, group = held.lease.record.queue, held.lease.group
        if not self._inflight.awaits_others(held.lease) and (items := self._groups.pop((queue, group), [])):
            outbox = self._outbox(queue)
            for item in items:
                outbox.add(item)

    def is_refused(self, queue: str) -> bool:
        """Whether Redis refuses outcomes of this queue."""
        outbox = self._outboxes.get(queue)
        return outbox is not None and outbox.due_at > 0

    @property
    def is_releasing(self) -> bool:
        """Whether Redis has not answered a release yet: a claim could overtake it, and bring later jobs of the queue.
        Without queues that Redis refuses, of which nothing is claimed."""
        return any(outbox.releases and not outbox.due_at for outbox in self._outboxes.values())

    @property
    def refused(self) -> int:
        """How many outcomes wait because Redis refuses them. They do not count against the room for other jobs."""
        return sum(len(outbox.items) for outbox in self._outboxes.values() if outbox.due_at)

    async def flushed(self) -> None:
        """Wait until every outcome so far has reached Redis."""
        await self._settled.wait()

    async def run(self) -> None:
        while True:
            await self._until_due()
            await self.settle_due()

    async def settle_due(self) -> None:
        """Settle the outcomes that there are, without those that Redis has just refused."""
        self._wake.clear()
        while due := self._due():
            if SETTLE_CROWD <= sum(len(outbox.items) for outbox in due) < SETTLE_FULL:
                await self._env.sleep(GATHER_MS / limits.SECOND)
            for outbox in due:
                await self._settle(outbox)
        if not self._outboxes:
            self._settled.set()

    async def _until_due(self) -> None:
        left = min((outbox.due_at for outbox in self._outboxes.values()), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if left is None else max(0.0, left - self._env.clock())):
                await self._wake.wait()

    def _due(self) -> list[Outbox]:
        now = self._env.clock()
        return [outbox for outbox in self._outboxes.values() if outbox.due_at <= now]

    def _outbox(self, queue: str) -> Outbox:
        outbox = self._outboxes.get(queue)
        if outbox is None:
            outbox = self._outboxes[queue] = Outbox(queue, self._env)
            self._settled.clear()
            self._wake.set()
        return outbox

    async def _settle(self, outbox: Outbox) -> None:
        """Settle the first outcomes of a queue, in one call. After an error they are the first again."""
        batch = _take(outbox.items, self._env.limits.settle_most)
        try:
            answers = await self._answers([(held.lease, outcome) for held, outcome in batch])
        except BaseException as error:
            outbox.items.extendleft(reversed(batch))
            if not isinstance(error, RedisError) or isinstance(error, (Unreachable, ReplyError)):
                self._doubtful.update(held.ref for held, _ in batch)  # Redis may have done all of it, or a part
            if not isinstance(error, RedisError) or is_silent(error):
                raise
            outbox.refused(error, self._env.clock())
            self._inflight.room.set()  # the fetcher may be waiting because the table was full
            self._inflight.changed.set()  # or for a release of this queue
            return
        outbox.settled(batch)
        self._end(batch, answers)
        if outbox.due_at:
            outbox.accepted()
            self._inflight.room.set()  # the fetcher may be waiting for this queue
        if not outbox.items:
            del self._outboxes[batch[0][0].lease.record.queue]

    def _end(self, batch: list[Item], answers: list[bool]) -> None:
        """Take settled leases out of the table, and report their outcomes."""
        for (held, outcome), was_held in zip(batch, answers, strict=True):
            if not was_held:  # after a call without a reply, the first attempt may have settled it
                self._reports.lost(held, "settle", outcome, held.ref not in self._doubtful)
        self._reports.settled(batch if all(answers) else list(compress(batch, answers)))
        self._inflight.gone([held for held, _ in batch])
        if self._doubtful:
            self._doubtful.difference_update([held.ref for held, _ in batch])

    async def _answers(self, settlements: list[tuple[Lease, Outcome]]) -> list[bool]:
        """Settle, and wait for `replicas` replicas. If too few have the outcomes, only log that."""
        steps = self._engine.settle(settlements)
        if not self._replicas:
            return await self._driver.run(steps)
        done = await self._driver.run(durably(steps, self._replicas))
        if done.replicas < self._replicas:
            if self._too_few.is_new(""):
                log_event("durability_lost", replicas=done.replicas, wanted=self._replicas)
        elif self._too_few.forget():
            log_event("durability_restored", replicas=done.replicas)
        return done.answer


def _take(items: deque[Item], most: int) -> list[Item]:
    """Remove the first of them: at most `most`, and at most the size of one call. A group is never divided."""
    batch: list[Item] = []
    size = 0
    while items:
        held, outcome = items[0]
        if type(outcome) is Completed:
            size += len(outcome.result) + sum(len(job.payload) for job in outcome.jobs_after())
        if batch and (len(batch) >= most or size > limits.MAX_CALL_BYTES):
            group = held.lease.group
            if not group or group != batch[-1][0].lease.group:
                break
        batch.append(items.popleft())
    return batch
