"""The work queues, for blocking code and for asyncio."""

from __future__ import annotations

import asyncio
from types import CoroutineType
from typing import Any, Self

from tenure.compat.redis_work_queue.base import WorkQueueBase, add_key, complete_key
from tenure.compat.redis_work_queue.calls import aexecute, execute, sleep
from tenure.compat.redis_work_queue.item import Item
from tenure.compat.redis_work_queue.kept import KeptConnection
from tenure.compat.redis_work_queue.keyprefix import KeyPrefix
from tenure.compat.twins import blocking_twin
from tenure.core.errors import InvalidArgument
from tenure.core.steps import finish

__all__ = ["AsyncWorkQueue", "Item", "KeyPrefix", "WorkQueue"]


class AsyncWorkQueue(WorkQueueBase):
    """`WorkQueue` for a client of `redis.asyncio`, with the same methods.

    queue = AsyncWorkQueue(KeyPrefix("jobs"))
    item = await queue.lease(db, 5)
    """

    _is_async = True
    _sleep = staticmethod(asyncio.sleep)

    async def _execute(self, db: Any, args: tuple[Any, ...], lead: tuple[Any, ...] = ()) -> Any:
        return await aexecute(db, self._prefix, args, lead)

    async def add_item(self, db: Any, item: Item, *, replace: bool = False) -> bool:
        """Add an item. Returns False if an item has this id; nothing then changes.

        A Tenure worker keeps an item that it has ended (a failed one, for a week) or parked. `replace`: remove such
        a record of this id in the same step. Raises `ItemEnded` if there is one and `replace` is not set.
        """
        return await self._run(db, self._add(item, replace), add_key(item, replace))

    async def add_unique_item(self, db: Any, item: Item, *, replace: bool = False) -> bool:
        """Add an item with a unique id. Returns False if an item has this id nevertheless; nothing then changes.
        `replace` and `ItemEnded` as for `add_item`."""
        return await self.add_item(db, item, replace=replace)

    def add_unique_item_to_pipeline(self, pipeline: Any, item: Item, *, replace: bool = False) -> None:
        """Add an item with a unique id by a command on the caller's pipeline.

        Raises `InvalidArgument` on a pipeline that watches keys, before its `multi()`: such a pipeline sends commands
        at once, and this method cannot await the reply.
        """
        sent = pipeline.execute_command(*self._add_command(pipeline, item, replace))
        if isinstance(sent, CoroutineType):
            sent.close()
            raise InvalidArgument(
                "The pipeline watches keys, so it would send the command at once; nothing was added. Call "
                "pipeline.multi() first, or `await queue.add_item(db, item)`."
            )

    add_item_to_pipeline = add_unique_item_to_pipeline

    async def lease(self, db: Any, lease_secs: float, block: bool = True, timeout: float = 0) -> Item | None:  # noqa: ASYNC109
        """Lease the next item for `lease_secs` (at least 1). Without an item: returns None if not `block`, or after
        `timeout` seconds; 0: no limit. After its lease, an item that is not completed goes to another caller.

        If a call for asyncio is cancelled, the next call within 30 seconds gets its item; otherwise the item returns to
        the queue after its lease.
        """
        return await self._lease(db, lease_secs, block, timeout)

    async def extend(self, db: Any, item: Item, lease_secs: float, token: str | None = None) -> bool:
        """Extend the lease to `lease_secs` from now. Returns False if it was lost; nothing then changes."""
        return await self._run(db, self._extend(item, lease_secs, token))

    async def complete(self, db: Any, item: Item, token: str | None = None) -> bool:
        """Remove an item for good. Returns True for one call per item; False: another caller completed or leased it.

        Repeat a call after its reply was lost: it gets the first answer. `token`: the `token` of the leased item, if
        this item has none.
        """
        return await self._run(db, self._complete(item, token), complete_key(item, token))

    async def light_clean(self, db: Any) -> None:
        """Return the items of dead holders to the queue: at once if Tenure leased them, or if the clean before met
        their leases, else after `grace`.

        Call it now and then, unless a Tenure worker serves the queue.
        """
        await self._run(db, self._light())

    async def deep_clean(self, db: Any) -> None:
        """As `light_clean`, and return items that are in no list because a producer or cleaner died half-way.

        Waits for at most `grace` and half a second while an item in no list has data that was written within `grace`.
        """
        await self._deep_clean(db)

    async def queue_len(self, db: Any) -> int:
        """Return how many items wait."""
        return await self._run(db, self._length("queue"))

    async def processing(self, db: Any) -> int:
        """Return how many items are leased, or wait for `light_clean` after their lease."""
        return await self._run(db, self._length("processing"))

    async def close(self, db: Any) -> None:
        """Remove the answers of the last calls, which Redis keeps for a minute in case that a reply was lost.

        The next call of any kind removes them as well. The queue can be used again afterwards.
        """
        await self._close(db)


class WorkQueue(WorkQueueBase):
    """A work queue of items, at the keys of a prefix.

        queue = WorkQueue(KeyPrefix("jobs"))

    Every method takes a client of the redis package. `grace`: how many seconds (5 by default) an item of another
    client must have been seen without a lease, before `light_clean` or `deep_clean` returns it to the queue. Other
    clients take an item and write its lease in two commands; with 0 such an item may run twice. Raises
    `InvalidArgument` if keys with the prefix would belong to another queue.
    """

    _is_async = False
    _sleep = staticmethod(sleep)
    _wait = staticmethod(finish)

    def _begin(self) -> None:
        super()._begin()
        self._kept = KeptConnection()

    async def _execute(self, db: Any, args: tuple[Any, ...], lead: tuple[Any, ...] = ()) -> Any:
        if not lead and args[0] != "SCAN":
            return self._kept.execute(db, args)
        self._kept.give_back()
        return await execute(db, self._prefix, args, lead)

    @property
    def _twin(self) -> Self:
        return self

    add_item = blocking_twin(AsyncWorkQueue.add_item)
    lease = blocking_twin(AsyncWorkQueue.lease)
    extend = blocking_twin(AsyncWorkQueue.extend)
    complete = blocking_twin(AsyncWorkQueue.complete)
    light_clean = blocking_twin(AsyncWorkQueue.light_clean)
    deep_clean = blocking_twin(AsyncWorkQueue.deep_clean)
    queue_len = blocking_twin(AsyncWorkQueue.queue_len)
    processing = blocking_twin(AsyncWorkQueue.processing)

    def add_unique_item(self, db: Any, item: Item, *, replace: bool = False) -> bool:
        """Add an item with a unique id: see `add_item`."""
        return self.add_item(db, item, replace=replace)

    def add_unique_item_to_pipeline(self, pipeline: Any, item: Item, *, replace: bool = False) -> None:
        """Add an item with a unique id by a command on the caller's pipeline.

        The result is 1; 0 if an item has this id; or -1 if a Tenure worker has ended or parked one and keeps it (see
        `add_item`). A pipeline that watches keys sends the command at once, before its `multi()`.
        """
        pipeline.execute_command(*self._add_command(pipeline, item, replace))

    add_item_to_pipeline = add_unique_item_to_pipeline

    def close(self, db: Any) -> None:
        """Remove the answers of the last calls, which Redis keeps for a minute in case that a reply was lost.

        The next call of any kind removes them as well. The queue can be used again afterwards.
        """
        finish(self._close(db))
        self._kept.give_back()

    def _lease_exists(self, db: Any, item_id: str) -> bool:
        return bool(db.exists(self._lease_key.of(item_id)))
