"""Brings outcomes to Redis, many in a call: whatever gathered while the last call was under way. Never drops one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Final, TypeAlias

from leasehold.core import limits
from leasehold.core.engine import Engine
from leasehold.core.errors import LeaseholdError, QueueFull, RedisError, ReplyError, Unreachable, WrongState
from leasehold.core.job import Lease, LeaseRef
from leasehold.core.outcome import Completed, Crashed, Outcome, Released
from leasehold.core.steps import durably
from leasehold.runtime.held import Held
from leasehold.runtime.herald import Herald
from leasehold.runtime.hooks import Hooks
from leasehold.runtime.inflight import Inflight
from leasehold.runtime.log import brief, event
from leasehold.runtime.loops import pause_s
from leasehold.runtime.ports import Driver, Env

Item: TypeAlias = tuple[Lease, Outcome, Held | None]
"""A lease, how it ended, and its entry in the table (None: a stray that was never in it)."""

APART: Final = (WrongState, ReplyError)
"""Refusals that may be about one job alone, as those for all of them are not: they are settled one by one."""
ASIDE_MOST: Final = 20
"""So many that were refused are tried again at one time: the others wait meanwhile."""


class Settler:
    """A queue of outcomes and the loop that settles them in order.

    When Redis does not answer, or refuses all, they stay in the queue and the loop raises: its supervisor repeats it.
    Some that alone are refused are set aside and tried again later.
    """

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        inflight: Inflight,
        env: Env,
        herald: Herald | None = None,
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
        self._aside: list[Item] = []
        self._aside_at, self._aside_tries = 0.0, 0
        self._told = ""
        self.settled = 0
        self.lost = 0

    def put(self, held: Held, outcome: Outcome) -> bool:
        """Settle a lease with this outcome. False: its end was decided before, or it was lost."""
        if not self._inflight.begin_settling(held):
            return False
        if self._herald is not None:
            self._herald.ending(held)
        self._add((held.lease, outcome, held))
        return True

    def put_stray(self, lease: Lease) -> None:
        """Hand back a lease that Redis says is ours and that never reached us."""
        self._add((lease, Released(), None))

    async def flushed(self) -> None:
        """Until every outcome so far has reached Redis."""
        await self._quiet.wait()

    async def run(self) -> None:
        while True:
            await self._something()
            self._wake.clear()
            while self._queue or self._is_due():
                if self._is_due():
                    await self._try_again()
                if limits.SETTLE_CROWD <= len(self._queue) < limits.SETTLE_FULL:
                    # So many at once: jobs are short, and more will have ended in a moment.
                    await self._env.sleep(limits.GATHER_MS / limits.SECOND)
                if self._queue:
                    await self._round(self._take())
            if not self._aside:
                self._told = ""
                self._quiet.set()

    async def _something(self) -> None:
        """Until there is something to settle."""
        left = self._aside_at - self._env.clock() if self._aside else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._wake.wait()

    def _add(self, item: Item) -> None:
        if not self._queue:  # else this was done for the first in it, and the loop goes on until it is empty
            self._quiet.clear()
            self._wake.set()
        self._queue.append(item)

    def _take(self) -> list[Item]:
        """What is there, up to the limits of one call."""
        batch: list[Item] = []
        queue, size = self._queue, 0
        while queue and len(batch) < limits.ROUND_MOST:
            outcome = queue[0][1]
            if type(outcome) is Completed:
                size += len(outcome.result)
                if batch and size > limits.MAX_CALL_BYTES:
                    break
            batch.append(queue.popleft())
        return batch

    async def _round(self, batch: list[Item]) -> None:
        """Queue by queue, which is as many calls to Redis: the answers of one count, whatever becomes of the next.

        A refusal may be about one queue alone (a foreign key in its place): the others must not wait for it.
        """
        left: dict[str, list[Item]] = {}
        for item in batch:
            left.setdefault(item[0].record.queue, []).append(item)
        refusal: LeaseholdError | None = None
        try:
            for queue in list(left):
                try:
                    await self._settle(left[queue])
                except APART as error:
                    await self._settle_apart(left[queue], error)
                except (RedisError, QueueFull) as error:  # full: a Redis that cannot write to its disk says so, too
                    if isinstance(error, Unreachable):
                        raise
                    refusal = error
                    continue
                del left[queue]
        except BaseException:
            # It may have been done or not.
            self._doubtful.update(lease.ref for lease, _, _ in left[queue])
            raise
        finally:
            if left:
                self._queue.extendleft(item for items in reversed(left.values()) for item in reversed(items))
                self._wake.set()
        if refusal is not None:
            raise refusal

    async def _settle_apart(self, items: list[Item], refusal: RedisError) -> None:
        """A foreign key may be that of one lane or priority, and a record that no script can read that of one job: the
        others need not wait for it. What has been settled or set aside is taken out of `items`."""
        first = not self._aside
        if len(items) == 1:
            self._set_aside(items.pop(), refusal)
        if isinstance(refusal, ReplyError):  # a script that stopped half-way has done a part of it
            self._doubtful.update(lease.ref for lease, _, _ in items)
        # What goes back to the front of its queue does so one after the other: the first of them last.
        back = [item for item in items if isinstance(item[1], (Released, Crashed))]
        others = [item for item in items if not isinstance(item[1], (Released, Crashed))]
        items[:] = [*others, *sorted(back, key=_age, reverse=True)]
        await self._settle_each(items)
        if first:
            self._pause(1)

    async def _settle_each(self, items: list[Item]) -> None:
        while items:
            try:
                await self._settle(items[:1])
            except APART as error:
                self._set_aside(items[0], error)
            del items[0]

    def _set_aside(self, item: Item, refusal: RedisError) -> None:
        self._aside.append(item)
        if isinstance(refusal, ReplyError):
            self._doubtful.add(item[0].ref)
        if str(refusal) != self._told:
            self._told = str(refusal)
            event(logging.ERROR, "redis_refused", loop="settle", error=brief(refusal))

    def _is_due(self) -> bool:
        return bool(self._aside) and self._env.clock() >= self._aside_at

    def _pause(self, tries: int) -> None:
        """What was set aside has a pause of its own, which the others need not keep."""
        self._aside_tries = tries
        self._aside_at = self._env.clock() + pause_s(min(tries, 16), self._env.random)

    async def _try_again(self) -> None:
        """Some of those that were set aside, one by one. The next have their turn soon if any of these went through."""
        before = len(self._aside)
        items, self._aside = self._aside[:ASIDE_MOST], self._aside[ASIDE_MOST:]
        try:
            await self._settle_each(items)
        except BaseException:
            self._doubtful.update(lease.ref for lease, _, _ in items)
            raise
        finally:
            self._aside = [*items, *self._aside]
        self._pause(self._aside_tries + 1 if len(self._aside) == before else 1)

    async def _settle(self, batch: list[Item]) -> None:
        answers = await self._tell([(lease, outcome) for lease, outcome, _ in batch])
        for (_, outcome, held), ours in zip(batch, answers, strict=True):
            if ours:
                self.settled += 1
            if held is None:
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
            event(logging.WARNING, "not_durable", replicas=done.replicas, wanted=self._replicas)
        elif before and not self._too_few:
            event(logging.WARNING, "durable_again", replicas=done.replicas)
        return done.answer

    def _report(self, held: Held, outcome: Outcome) -> None:
        """The answer was no. After a call without an answer, that may mean that the first try went through."""
        ref, kind = held.ref, type(outcome).__name__.lower()
        if self._herald is not None:
            self._herald.lost(held, "settle", certain=ref not in self._doubtful)
        if ref in self._doubtful:
            event(logging.WARNING, "settled_or_lost", queue=ref.queue, id=ref.id, outcome=kind)
            return
        self.lost += 1
        event(logging.WARNING, "lost", queue=ref.queue, id=ref.id, token=ref.token, outcome=kind, at="settle")


def _age(item: Item) -> str:
    """The later it was claimed, the greater. Tokens are numbers, or texts of one length or shorter."""
    return f"{item[0].token:>30}"
