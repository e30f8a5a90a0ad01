"""Brings outcomes to Redis, many in a call: whatever gathered while the last call was under way. Never drops one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Final

from leasehold.core import limits
from leasehold.core.engine import Engine
from leasehold.core.errors import LeaseholdError, RedisError, ReplyError, Unreachable
from leasehold.core.job import Lease, LeaseRef
from leasehold.core.outcome import Completed, Crashed, Outcome, Released
from leasehold.core.steps import durably
from leasehold.runtime.deferred import DeferredOutcomes, Item, may_be_of_one
from leasehold.runtime.handlers.hooks import Hooks
from leasehold.runtime.jobs.held import Held
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.log import log_event
from leasehold.runtime.observe.dispatcher import EventDispatcher
from leasehold.runtime.ports import Driver, Env

ROUND_MOST: Final = 200
"""Jobs that a worker claims or settles in one call: Redis serves no other client meanwhile. A batch of one lane is
claimed whole."""
SETTLE_CROWD: Final = 8
"""When this many jobs have ended at once, the worker waits for more before it settles them."""
SETTLE_FULL: Final = 100
"""The worker stops waiting for more when this many jobs have ended."""
GATHER_MS: Final = 2
"""How long the worker waits for more jobs to end."""

ASIDE_MOST: Final = 20
"""So many that may each be refused for itself are tried again at one time: the others wait meanwhile."""


class Settler:
    """A queue of outcomes and the loop that settles them in order.

    When Redis does not answer they stay in the queue and the loop raises: its supervisor repeats it. Those that Redis
    refuses are set aside, queue by queue, and tried again later.
    """

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        inflight: Inflight,
        env: Env,
        herald: EventDispatcher | None = None,
        replicas: int = 0,
    ) -> None:
        self._engine = engine
        self._herald = herald
        self.hooks: Hooks | None = None
        """Where there are any."""
        self._driver = driver
        self._inflight = inflight
        self._env = env
        self._queue: deque[Item] = deque()
        self._wake = asyncio.Event()
        self._replicas = replicas
        self._too_few = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._doubtful: set[LeaseRef] = set()
        self._strays: dict[LeaseRef, int] = {}
        """Orphaned leases that are being released: their place in the order in which they were found."""
        self._strays_put = 0
        self._aside: dict[str, DeferredOutcomes] = {}

    def put(self, held: Held, outcome: Outcome) -> bool:
        """Settle a lease with this outcome. False: its end was decided before, or it was lost."""
        if not self._inflight.begin_settling(held):
            return False
        if self._herald is not None:
            self._herald.ending(held)
        self._add((held.lease, outcome, held))
        return True

    def put_stray(self, lease: Lease) -> bool:
        """Hand back a lease that Redis says is ours and that never reached us. False: that is under way."""
        if lease.ref in self._strays:
            return False
        self._strays_put += 1
        self._strays[lease.ref] = self._strays_put
        self._add((lease, Released(), None))
        return True

    def crowded(self, queue: str) -> bool:
        """Whether so many outcomes of this queue are refused that nothing of it is to be claimed."""
        aside = self._aside.get(queue)
        return aside is not None and aside.crowded

    @property
    def set_aside(self) -> int:
        """How many outcomes are refused and wait for their next try. They leave room for jobs of other queues."""
        return sum(len(aside.items) for aside in self._aside.values()) if self._aside else 0

    async def flushed(self) -> None:
        """Until every outcome so far has reached Redis."""
        await self._quiet.wait()

    async def run(self) -> None:
        while True:
            await self._something()
            self._wake.clear()
            while self._queue or self._due() is not None:
                if (aside := self._due()) is not None:
                    await self._try_again(aside)
                if SETTLE_CROWD <= len(self._queue) < SETTLE_FULL:
                    # So many at once: jobs are short, and more will have ended in a moment.
                    await self._env.sleep(GATHER_MS / limits.SECOND)
                if self._queue:
                    await self._round(_take(self._queue, ROUND_MOST))
            if not self._aside:
                self._quiet.set()

    async def _something(self) -> None:
        """Until there is something to settle."""
        left = min(one.due_at for one in self._aside.values()) - self._env.clock() if self._aside else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._wake.wait()

    def _due(self) -> DeferredOutcomes | None:
        """Whose pause is over, and has been for the longest time."""
        if not self._aside:
            return None
        first = min(self._aside.values(), key=lambda one: one.due_at)
        return first if self._env.clock() >= first.due_at else None

    def _add(self, item: Item) -> None:
        if not self._queue:  # else this was done for the first in it, and the loop goes on until it is empty
            self._quiet.clear()
            self._wake.set()
        self._queue.append(item)

    async def _round(self, batch: list[Item]) -> None:
        """Queue by queue, which is as many calls to Redis: the answers of one count, whatever becomes of the next.

        A refusal may be about one queue alone (a foreign key in its place): the others must not wait for it.
        """
        left: dict[str, list[Item]] = {}
        for item in batch:
            left.setdefault(item[0].record.queue, []).append(item)
        try:
            for queue in list(left):
                await self._settle_of(queue, left[queue])
                del left[queue]
        except BaseException:
            # It may have been done or not.
            self._doubtful.update(lease.ref for lease, _, _ in left[queue])
            raise
        finally:
            if left:
                self._queue.extendleft(item for items in reversed(left.values()) for item in reversed(items))
                self._wake.set()

    async def _settle_of(self, queue: str, items: list[Item]) -> None:
        """Settle these of one queue, or set them aside. When it raises, those that are left are in `items`."""
        aside = self._aside.get(queue)
        if aside is not None and aside.whole:
            aside.add(items)
        elif (refusal := await self._settle_all(queue, items)) is not None:
            self._set_aside(queue, items, refusal)

    async def _settle_all(self, queue: str, items: list[Item]) -> LeaseholdError | None:
        """In one call, and one by one where some are refused. Why the rest in `items` is, if there is one."""
        refusal = await self._refusal(items)
        if refusal is None:
            items.clear()
        if refusal is None or len(items) == 1 or not may_be_of_one(refusal):
            return refusal
        # What goes back to the front of its queue does so one after the other: the first of them last.
        back = [item for item in items if isinstance(item[1], (Released, Crashed))]
        others = [item for item in items if not isinstance(item[1], (Released, Crashed))]
        items[:] = [*others, *sorted(back, key=self._place, reverse=True)]
        return await self._settle_each(queue, items)

    def _place(self, item: Item) -> tuple[bool, int]:
        """The place in the order of claims, by the worker's own count: tokens are the engine's and have no order here.

        The worker did not count the claim of an orphaned lease. That is older than two heartbeats and never ran: it
        goes first.
        """
        lease, _, held = item
        return (False, self._strays[lease.ref]) if held is None else (True, held.number)

    async def _settle_each(self, queue: str, items: list[Item]) -> LeaseholdError | None:
        """One by one, so that none waits for one that is refused for itself. Why the rest in `items` is refused."""
        while items:
            first, refusal = items[:1], await self._refusal(items[:1])
            if refusal is not None and not may_be_of_one(refusal):
                return refusal
            del items[0]
            if refusal is not None:
                self._set_aside(queue, first, refusal)
        return None

    def _set_aside(self, queue: str, items: list[Item], refusal: LeaseholdError) -> None:
        aside = self._aside.get(queue)
        if aside is None:
            aside = self._aside[queue] = DeferredOutcomes(queue, self._env)
        aside.refused(refusal)
        aside.add(items)
        self._inflight.room.set()  # the fetcher may be waiting because the table was full

    async def _try_again(self, aside: DeferredOutcomes) -> None:
        """Some of those that were set aside. The next have their turn soon if any of these went through; those that are
        refused for themselves go behind the others, and all keep their place when none is taken."""
        before, whole = len(aside.items), aside.whole
        items = _take(aside.items, ROUND_MOST if whole else ASIDE_MOST)
        aside.whole = False
        try:
            refusal = await (self._settle_all if whole else self._settle_each)(aside.queue, items)
            if refusal is not None:
                aside.refused(refusal)
        except BaseException:
            self._doubtful.update(lease.ref for lease, _, _ in items)
            raise
        finally:
            aside.items.extendleft(reversed(items))
            aside.pause(shortest=len(aside.items) < before)
        if len(aside.items) < before:
            self._inflight.room.set()  # the fetcher may be waiting because of the crowd
        if not aside.items:
            del self._aside[aside.queue]
            aside.settled()

    async def _refusal(self, items: list[Item]) -> LeaseholdError | None:
        """Settle them. Why Redis refuses to, if it does. That it does not answer is raised."""
        try:
            await self._settle(items)
        except Unreachable:
            raise
        except RedisError as error:
            if isinstance(error, ReplyError):  # a script that stopped half-way has done a part of it
                self._doubtful.update(lease.ref for lease, _, _ in items)
            return error
        return None

    async def _settle(self, batch: list[Item]) -> None:
        answers = await self._tell([(lease, outcome) for lease, outcome, _ in batch])
        for (lease, outcome, held), ours in zip(batch, answers, strict=True):
            if held is None:
                self._strays.pop(lease.ref, None)
                continue
            if ours:
                if self._herald is not None:
                    self._herald.ended(held, outcome)
                if self.hooks is not None:
                    self.hooks.ended(held, outcome)
            else:
                self._report(held, outcome)
            self._inflight.gone(held)
        if self._doubtful:
            self._doubtful.difference_update([lease.ref for lease, _, _ in batch])

    async def _tell(self, settlements: list[tuple[Lease, Outcome]]) -> list[bool]:
        """Settle; with replicas that are to have it, wait for them. Too few of them change no outcome: it is logged."""
        steps = self._engine.settle(settlements)
        if not self._replicas:
            return await self._driver.run(steps)
        done = await self._driver.run(durably(steps, self._replicas))
        before, self._too_few = self._too_few, done.replicas < self._replicas
        if self._too_few and not before:
            log_event(logging.WARNING, "not_durable", replicas=done.replicas, wanted=self._replicas)
        elif before and not self._too_few:
            log_event(logging.WARNING, "durable_again", replicas=done.replicas)
        return done.answer

    def _report(self, held: Held, outcome: Outcome) -> None:
        """The answer was no. After a call without an answer, that may mean that the first try went through."""
        ref, kind = held.ref, type(outcome).__name__.lower()
        if self._herald is not None:
            self._herald.lost(held, "settle", certain=ref not in self._doubtful)
        if ref in self._doubtful:
            log_event(logging.WARNING, "settled_or_lost", queue=ref.queue, id=ref.id, outcome=kind)
            return
        log_event(logging.WARNING, "lost", queue=ref.queue, id=ref.id, token=ref.token, outcome=kind, at="settle")


def _take(items: deque[Item], most: int) -> list[Item]:
    """The first of them, up to so many and to the size of one call."""
    batch: list[Item] = []
    size = 0
    while items and len(batch) < most:
        outcome = items[0][1]
        if type(outcome) is Completed:
            size += len(outcome.result)
            if batch and size > limits.MAX_CALL_BYTES:
                break
        batch.append(items.popleft())
    return batch
