"""The work queue for asyncio. `queue.py` is the blocking version."""

from __future__ import annotations

import time
from types import CoroutineType
from typing import Any

from leasehold.compat.redis_work_queue.base import Base, add_key, complete_key, lease_ms, slice_s, timeout_s
from leasehold.compat.redis_work_queue.calls import LEASE, arun
from leasehold.compat.redis_work_queue.item import Item
from leasehold.core.errors import InvalidArgument


class AsyncWorkQueue(Base):
    """`WorkQueue` for a client of `redis.asyncio`, with the same methods.

    queue = AsyncWorkQueue(KeyPrefix("jobs"))
    item = await queue.lease(db, 5)
    """

    async def add_item(self, db: Any, item: Item) -> bool:
        """Add an item. Returns False if an item has this id; nothing then changes."""
        return await arun(db, self._add(item), self._nonces.turn(add_key(item)))

    async def add_unique_item(self, db: Any, item: Item) -> bool:
        """Add an item with a unique id. Returns False if an item has this id nevertheless; nothing then changes."""
        return await self.add_item(db, item)

    def add_unique_item_to_pipeline(self, pipeline: Any, item: Item) -> None:
        """Add an item with a unique id by a command on the caller's pipeline.

        Raises `InvalidArgument` on a pipeline that watches keys, before its `multi()`: such a pipeline sends commands
        at once, and this method cannot await the reply.
        """
        sent = pipeline.execute_command(*self._add_command(item))
        if isinstance(sent, CoroutineType):
            sent.close()
            raise InvalidArgument(
                "The pipeline watches keys, so it would send the command at once; nothing was added. Call "
                "pipeline.multi() first, or `await queue.add_item(db, item)`."
            )

    add_item_to_pipeline = add_unique_item_to_pipeline

    async def lease(self, db: Any, lease_secs: float, block: bool = True, timeout: float = 0) -> Item | None:  # noqa: ASYNC109
        """Lease the next item for `lease_secs` (at least 1). If there is none: returns None if not `block`, or after
        `timeout` seconds; 0: no limit. If a call is cancelled, the next call within 30 seconds gets its item; otherwise
        the item returns to the queue after its lease."""
        wanted_ms, slice = lease_ms(lease_secs), slice_s(db)
        until = time.monotonic() + timeout_s(timeout)
        while True:
            item = await arun(db, self._claim(wanted_ms), self._nonces.turn(LEASE))
            left = until - time.monotonic()
            if item is not None or not block or left <= 0:
                return item
            await arun(db, self._wait(min(left, slice)), self._nonces.turn())

    async def extend(self, db: Any, item: Item, lease_secs: float, token: str | None = None) -> bool:
        """Extend the lease to `lease_secs` from now. Returns False if it was lost; nothing then changes."""
        steps = self._extend(item, lease_ms(lease_secs), token)
        return await arun(db, steps, self._nonces.turn())

    async def complete(self, db: Any, item: Item, token: str | None = None) -> bool:
        """Remove an item for good. Returns True for one call per item; False: another caller completed or leased it."""
        return await arun(db, self._complete(item, token), self._nonces.turn(complete_key(item, token)))

    async def light_clean(self, db: Any) -> None:
        """Return the items of dead holders to the queue."""
        await arun(db, self._light(), self._nonces.turn())

    async def deep_clean(self, db: Any) -> None:
        """As `light_clean`, and return items that are in no list."""
        await arun(db, self._deep(), self._nonces.turn())

    async def queue_len(self, db: Any) -> int:
        """Return how many items wait."""
        return await arun(db, self._length("queue"), self._nonces.turn())

    async def processing(self, db: Any) -> int:
        """Return how many items are leased, or wait for `light_clean` after their lease."""
        return await arun(db, self._length("processing"), self._nonces.turn())
