"""The work queue for async code: the twin of `queue.py`."""

from __future__ import annotations

import time
from types import CoroutineType
from typing import Any

from leasehold.compat.redis_work_queue.base import Base, add_key, complete_key, lease_ms, slice_s, timeout_s
from leasehold.compat.redis_work_queue.calls import LEASE, arun
from leasehold.compat.redis_work_queue.item import Item
from leasehold.core.errors import InvalidArgument


class AsyncWorkQueue(Base):
    """`WorkQueue` for a client of `redis.asyncio`. See there.

    queue = AsyncWorkQueue(KeyPrefix("jobs"))
    item = await queue.lease(db, 5)
    """

    async def add_item(self, db: Any, item: Item) -> bool:
        """Add an item. False: there is one of this id already, and nothing was changed."""
        return await arun(db, self._add(item), self._nonces.turn(add_key(item)))

    async def add_unique_item(self, db: Any, item: Item) -> bool:
        """Add an item whose id nobody else has. Should there be one all the same, it is left alone: False."""
        return await self.add_item(db, item)

    def add_unique_item_to_pipeline(self, pipeline: Any, item: Item) -> None:
        """Put the command that adds an item whose id nobody else has on a pipeline of the caller's.

        Raises `InvalidArgument` on a pipeline that watches keys, before its `multi()`: it would send the command at
        once, for which this would have to be awaited.
        """
        sent = pipeline.execute_command(*self._add_command(item))
        if isinstance(sent, CoroutineType):
            sent.close()
            raise InvalidArgument(
                "The pipeline watches keys, so a command is sent at once and not put on it; nothing was added. Call "
                "pipeline.multi() first, or `await queue.add_item(db, item)`."
            )

    add_item_to_pipeline = add_unique_item_to_pipeline

    async def lease(self, db: Any, lease_secs: float, block: bool = True, timeout: float = 0) -> Item | None:  # noqa: ASYNC109
        """Take the next item for `lease_secs` (at least 1). Without one: None if not `block`, or after `timeout`
        seconds; 0: for ever. What was taken by a call that is cancelled is given to the next one within 30 seconds, or
        else to somebody when its time is up."""
        wanted_ms, slice = lease_ms(lease_secs), slice_s(db)
        until = time.monotonic() + timeout_s(timeout)
        while True:
            item = await arun(db, self._claim(wanted_ms), self._nonces.turn(LEASE))
            left = until - time.monotonic()
            if item is not None or not block or left <= 0:
                return item
            await arun(db, self._wait(min(left, slice)), self._nonces.turn())

    async def extend(self, db: Any, item: Item, lease_secs: float, token: str | None = None) -> bool:
        """Hold a leased item for `lease_secs` from now. False: it is ours no longer, and nothing was changed."""
        steps = self._extend(item, lease_ms(lease_secs), token)
        return await arun(db, steps, self._nonces.turn())

    async def complete(self, db: Any, item: Item, token: str | None = None) -> bool:
        """Remove an item for good. True for one call per item; False: somebody else did, or holds it now."""
        return await arun(db, self._complete(item, token), self._nonces.turn(complete_key(item, token)))

    async def light_clean(self, db: Any) -> None:
        """Put back what was taken by somebody who has died."""
        await arun(db, self._light(), self._nonces.turn())

    async def deep_clean(self, db: Any) -> None:
        """The same, and put back items that are in no list."""
        await arun(db, self._deep(), self._nonces.turn())

    async def queue_len(self, db: Any) -> int:
        """How many items wait."""
        return await arun(db, self._length("queue"), self._nonces.turn())

    async def processing(self, db: Any) -> int:
        """How many items are leased, or were and wait to be put back."""
        return await arun(db, self._length("processing"), self._nonces.turn())
