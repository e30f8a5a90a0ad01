"""The drop-in for asyncio: cancellations, which its client may swallow, and pipelines that watch keys."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
import redis
import redis.asyncio

from tenure.compat.redis_work_queue import AsyncWorkQueue, Item, KeyPrefix, WorkQueue
from tenure.core.errors import InvalidArgument
from tests.wire.redis_work_queue.bench import Bench


class Deaf:
    """A client that swallows a cancellation, as that of the package can: it goes on as if nothing had been said."""

    def __init__(self, db: redis.asyncio.Redis, error: Exception | None = None) -> None:
        self.db = db
        self.error = error
        self.asked = asyncio.Event()

    async def execute_command(self, *args: object, **options: object) -> object:
        self.asked.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        if self.error is not None:
            raise self.error
        return await self.db.execute_command(*args, **options)


@pytest.mark.parametrize("error", [None, redis.TimeoutError("silent")])
def test_a_cancellation_is_never_swallowed(bench: Bench, error: Exception | None) -> None:
    async def main() -> None:
        queue = AsyncWorkQueue(KeyPrefix("jobs"))
        async with redis.asyncio.Redis.from_url(bench.server.url) as db:
            await queue.add_item(db, Item(b"x", "a"))
            deaf = Deaf(db, error)
            lease = asyncio.create_task(queue.lease(deaf, 5))
            await deaf.asked.wait()
            lease.cancel()
            with pytest.raises(asyncio.CancelledError):
                await lease
            item = await queue.lease(db, 5, block=False)
            assert item is not None, "what the cancelled call took is given to the next"
            assert await queue.complete(db, item)

    asyncio.run(main())
    bench.audit()


def test_what_several_cancelled_calls_took_is_given_to_the_next_ones(bench: Bench) -> None:
    async def main() -> None:
        queue = AsyncWorkQueue(KeyPrefix("jobs"))
        async with redis.asyncio.Redis.from_url(bench.server.url) as db:
            assert await queue.lease(db, 5, block=False) is None  # Redis knows the script from now on
            deaf = [Deaf(db) for _ in range(3)]
            leases = [asyncio.create_task(queue.lease(one, 5)) for one in deaf]
            await asyncio.gather(*(one.asked.wait() for one in deaf))
            for id in "abc":
                await queue.add_item(db, Item(b"x", id))
            for lease in leases:
                lease.cancel()
            await asyncio.wait(leases)
            assert bench.lengths() == (0, 3), "all were taken"
            items = [await queue.lease(db, 5, block=False) for _ in range(4)]
            assert sorted(item.id() for item in items if item) == ["a", "b", "c"]
            await queue.add_item(db, Item(b"x", "d"))
            assert await queue.lease(db, 5, block=False)

    asyncio.run(main())


def test_a_cancellation_does_not_wait_for_a_wait(bench: Bench) -> None:
    class DeafInWaits(Deaf):
        async def execute_command(self, *args: object, **options: object) -> object:
            return await self.db.execute_command(*args, **options)

        def pipeline(self, transaction: bool) -> Any:
            pipeline = self.db.pipeline(transaction=transaction)
            pipeline.execute = self.execute  # type: ignore[method-assign,assignment]
            return pipeline

        async def execute(self, raise_on_error: bool) -> object:
            self.asked.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            return await over.wait()

    async def main() -> None:
        async with redis.asyncio.Redis.from_url(bench.server.url) as db:
            deaf = DeafInWaits(db)
            lease = asyncio.create_task(AsyncWorkQueue(KeyPrefix("jobs")).lease(deaf, 5))
            await deaf.asked.wait()
            lease.cancel()
            done, _ = await asyncio.wait({lease}, timeout=20)
            over.set()
            assert done
            assert lease.cancelled()

    over = asyncio.Event()
    asyncio.run(main())


def test_a_call_during_a_cancellation_goes_on(bench: Bench) -> None:
    """Who puts things right in a `finally` has been cancelled before."""

    async def tidy(queue: AsyncWorkQueue, db: redis.asyncio.Redis) -> bool:
        try:
            await asyncio.sleep(60)
        finally:
            return await queue.add_item(db, Item(b"x", "a"))  # noqa: B012

    async def main() -> None:
        async with redis.asyncio.Redis.from_url(bench.server.url) as db:
            task = asyncio.create_task(tidy(AsyncWorkQueue(KeyPrefix("jobs")), db))
            await asyncio.sleep(0)
            task.cancel()
            assert await task

    asyncio.run(main())
    assert bench.queue() == [b"a"]


def test_a_watching_pipeline_takes_an_item_after_its_multi_or_says_so(bench: Bench, db: redis.Redis) -> None:
    queue, twin = WorkQueue(KeyPrefix("jobs")), AsyncWorkQueue(KeyPrefix("jobs"))

    async def main() -> None:
        async with redis.asyncio.Redis.from_url(bench.server.url) as adb, adb.pipeline() as pipeline:
            await pipeline.watch("k")
            with pytest.raises(InvalidArgument, match="multi"):
                twin.add_unique_item_to_pipeline(pipeline, Item(b"x", "a"))
            pipeline.multi()
            twin.add_unique_item_to_pipeline(pipeline, Item(b"x", "a"))
            assert await pipeline.execute() == [1]

    asyncio.run(main())
    with db.pipeline() as pipeline:
        pipeline.watch("k")
        queue.add_unique_item_to_pipeline(pipeline, Item(b"x", "b"))
    assert bench.queue() == [b"a", b"b"]
