"""Writes outcomes to Redis in batches: each call settles what ended during the previous one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Final, TypeAlias

from leasehold.core import limits
from leasehold.core.errors import RedisError, ReplyError, Unreachable
from leasehold.core.job import Lease, LeaseRef
from leasehold.core.outcome import Completed, Outcome, Released
from leasehold.core.steps import durably
from leasehold.runtime.context import WorkerContext
from leasehold.runtime.handlers.hooks import Hooks
from leasehold.runtime.jobs.held import Held
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.log import Once, brief, log_event
from leasehold.runtime.loops import redis_pauses
from leasehold.runtime.ports import Env

SETTLE_CROWD: Final = 8
"""When this many jobs have ended at once, the worker waits for more before it settles them."""
SETTLE_FULL: Final = 100
"""The worker stops waiting for more when this many jobs have ended."""
GATHER_MS: Final = 2
"""How long the worker waits for more jobs to end."""

Item: TypeAlias = tuple[Lease, Outcome, Held | None]
"""A lease, how it ended, and its entry in the table (None: an orphaned lease, which never was in it)."""


class Outbox:
    """The outcomes of one queue that are not settled, in their order."""

    def __init__(self, queue: str, env: Env) -> None:
        self.items: deque[Item] = deque()
        self._queue = queue
        self._pauses = redis_pauses(env)
        self._told = Once()
        self.due_at = 0.0
        """When Redis refused them: the time of the next attempt. 0: Redis did not."""

    def refused(self, error: RedisError, now: float) -> None:
        """Pause the whole queue after Redis refused an outcome. Each error is logged once."""
        text = brief(error)
        if self._told.is_new(text):
            log_event("redis_refused", what="settle", queue=self._queue, error=text)
        self.due_at = now + self._pauses.next_s()

    def accepted(self) -> None:
        """Redis took outcomes: the next may follow at once."""
        if self.due_at:
            self.due_at = 0.0
            self._pauses.reset()
            self._told.forget()
            log_event("redis_restored", what="settle", queue=self._queue)


class Settler:
    """Settles outcomes queue by queue, and drops none.

    When Redis does not answer, the outcomes stay here and the loop raises: its supervisor runs it again. When Redis
    refuses one (another program's key stands in the way, a right is missing), its queue waits as a whole and is tried
    again, with growing pauses. Meanwhile the worker claims nothing of that queue. The other queues continue.
    """

    def __init__(
        self, context: WorkerContext, inflight: Inflight, hooks: Hooks | None = None, replicas: int = 0
    ) -> None:
        self._engine = context.engine
        self._driver = context.driver
        self._env = context.env
        self._events = context.events
        self._inflight = inflight
        self._hooks = hooks
        self._outboxes: dict[str, Outbox] = {}
        """Of the queues with outcomes that are not settled."""
        self._groups: dict[tuple[str, str], list[Item]] = {}
        """Outcomes of leases that settle together: they wait for those of the other members."""
        self._wake = asyncio.Event()
        self._replicas = replicas
        self._too_few = Once()
        self._settled = asyncio.Event()
        self._settled.set()
        self._doubtful: set[LeaseRef] = set()
        self._orphans: set[LeaseRef] = set()

    def put(self, held: Held, outcome: Outcome) -> bool:
        """Settle a lease with this outcome. False: its end was decided before, or it was lost."""
        if not self._inflight.begin_settling(held):
            return False
        if self._events is not None:
            self._events.ending(held)
        self._add((held.lease, outcome, held))
        return True

    def put_stray(self, lease: Lease) -> bool:
        """Release a lease that Redis counts as this worker's and that never reached it. False: that is under way."""
        if lease.ref in self._orphans:
            return False
        self._orphans.add(lease.ref)
        self._add((lease, Released(), None))
        return True

    def lost(self, held: Held) -> None:
        """A lease is lost. Those that settle together with it no longer wait for its outcome."""
        if held.lease.group and not self._inflight.awaits_others(held.lease):
            self._add_all(self._groups.pop((held.lease.record.queue, held.lease.group), []))

    def is_refused(self, queue: str) -> bool:
        """Whether Redis refuses outcomes of this queue."""
        outbox = self._outboxes.get(queue)
        return outbox is not None and outbox.due_at > 0

    @property
    def refused(self) -> int:
        """How many outcomes wait because Redis refuses them. They leave room for jobs of other queues."""
        return sum(len(outbox.items) for outbox in self._outboxes.values() if outbox.due_at)

    async def flushed(self) -> None:
        """Wait until every outcome so far has reached Redis."""
        await self._settled.wait()

    async def run(self) -> None:
        while True:
            await self._until_due()
            self._wake.clear()
            while due := self._due():
                if SETTLE_CROWD <= sum(len(outbox.items) for outbox in due) < SETTLE_FULL:
                    # So many at once: jobs are short, and more will have ended in a moment.
                    await self._env.sleep(GATHER_MS / limits.SECOND)
                for outbox in due:
                    await self._settle(outbox)
            if not self._outboxes:
                self._settled.set()

    async def _until_due(self) -> None:
        """Wait until there is something to settle."""
        left = min((outbox.due_at for outbox in self._outboxes.values()), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if left is None else max(0.0, left - self._env.clock())):
                await self._wake.wait()

    def _due(self) -> list[Outbox]:
        now = self._env.clock()
        return [outbox for outbox in self._outboxes.values() if outbox.due_at <= now]

    def _add(self, item: Item) -> None:
        lease = item[0]
        if not lease.group:
            self._outbox(lease.record.queue).items.append(item)
            return
        together = self._groups.setdefault((lease.record.queue, lease.group), [])
        together.append(item)
        if not self._inflight.awaits_others(lease):
            self._add_all(self._groups.pop((lease.record.queue, lease.group)))

    def _add_all(self, items: list[Item]) -> None:
        if items:
            self._outbox(items[0][0].record.queue).items.extend(items)

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
            answers = await self._answers([(lease, outcome) for lease, outcome, _ in batch])
        except BaseException as error:
            outbox.items.extendleft(reversed(batch))
            if not isinstance(error, RedisError) or isinstance(error, (Unreachable, ReplyError)):
                self._doubtful.update(lease.ref for lease, _, _ in batch)  # Redis may have done all of it, or a part
            if not isinstance(error, RedisError) or isinstance(error, Unreachable):
                raise
            outbox.refused(error, self._env.clock())
            self._inflight.room.set()  # the fetcher may be waiting because the table was full
            return
        self._end(batch, answers)
        if outbox.due_at:
            outbox.accepted()
            self._inflight.room.set()  # the fetcher may be waiting for this queue
        if not outbox.items:
            del self._outboxes[batch[0][0].record.queue]

    def _end(self, batch: list[Item], answers: list[bool]) -> None:
        """Take settled leases out of the table and tell the listeners."""
        for (lease, outcome, held), ours in zip(batch, answers, strict=True):
            if held is None:
                self._orphans.discard(lease.ref)
                continue
            if ours:
                if self._events is not None:
                    self._events.ended(held, outcome)
                if self._hooks is not None:
                    self._hooks.ended(held, outcome)
            else:
                self._report(held, outcome)
            self._inflight.gone(held)
        if self._doubtful:
            self._doubtful.difference_update([lease.ref for lease, _, _ in batch])

    async def _answers(self, settlements: list[tuple[Lease, Outcome]]) -> list[bool]:
        """Settle. With `replicas`, wait for so many to have it; too few change no outcome and are logged."""
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

    def _report(self, held: Held, outcome: Outcome) -> None:
        """Redis said that the lease was lost. After a call without a reply, the first attempt may have settled it."""
        ref, kind = held.ref, type(outcome).__name__.lower()
        certain = ref not in self._doubtful
        if self._events is not None:
            self._events.lost(held, "settle", certain=certain)
        about: dict[str, object] = {"queue": ref.queue, "id": ref.id, "token": ref.token, "outcome": kind}
        log_event("lease_lost", **about, noticed_by="settle", certain=certain)


def _take(items: deque[Item], most: int) -> list[Item]:
    """Remove the first of them: at most `most`, and at most the size of one call. A group is never divided."""
    batch: list[Item] = []
    size = 0
    while items:
        lease, outcome, _ = items[0]
        if type(outcome) is Completed:
            size += len(outcome.result)
        if batch and (len(batch) >= most or size > limits.MAX_CALL_BYTES):
            last = batch[-1][0]
            if not lease.group or lease.group != last.group:
                break
        batch.append(items.popleft())
    return batch
