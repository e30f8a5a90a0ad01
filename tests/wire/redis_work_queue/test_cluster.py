"""The drop-in on a client of a cluster: three nodes, each with a third of the slots."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster

from tenure.compat.redis_work_queue import AsyncWorkQueue, Item, KeyPrefix, WorkQueue
from tenure.core.errors import InvalidArgument
from tests.support.cluster import redis_cluster

PREFIXES = ["{a}", "{b}:jobs", "shop:{c}"]
"""Their slots are on three nodes."""


@pytest.fixture(scope="module")
def port(redis_binary: str) -> Iterator[int]:
    with redis_cluster(redis_binary) as port:
        yield port


@pytest.fixture(params=[False, True], ids=["bytes", "decoded"])
def db(port: int, request: pytest.FixtureRequest) -> Iterator[RedisCluster]:
    client = RedisCluster(host="127.0.0.1", port=port, decode_responses=request.param)
    client.flushall(target_nodes=RedisCluster.PRIMARIES)
    yield client
    client.close()


def test_the_prefixes_of_the_tests_are_on_three_nodes(db: RedisCluster) -> None:
    assert len({db.get_node_from_key(prefix).port for prefix in PREFIXES}) == 3


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_life_of_an_item_on_a_cluster(db: RedisCluster, prefix: str) -> None:
    queue = WorkQueue(KeyPrefix(prefix), grace=0)
    assert queue.add_item(db, Item(b"\xff", "a"))
    assert not queue.add_unique_item(db, Item(b"x", "a"))
    with db.pipeline() as pipeline:
        queue.add_item_to_pipeline(pipeline, Item(b"x", "b"))
        assert pipeline.execute() == [1]
    first, second = queue.lease(db, 30), queue.lease(db, 30)
    assert first == {"data": b"\xff", "id": "a"}
    assert second == {"data": b"x", "id": "b"}
    assert isinstance(first, Item)
    assert queue.lease(db, 30, timeout=0.1) is None
    assert (queue.queue_len(db), queue.processing(db), queue._lease_exists(db, "a")) == (0, 2, True)
    assert queue.extend(db, first, 60)
    assert queue.complete(db, first)
    assert not queue.complete(db, first)
    assert queue.complete(db, Item(b"x", "b"))
    assert queue.processing(db) == 0


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_deep_clean_searches_the_node_of_the_prefix(db: RedisCluster, prefix: str) -> None:
    queue = WorkQueue(KeyPrefix(prefix), grace=0)
    for number in range(30):
        db.set(f"{prefix}:item:{number}", "x")
        db.set(f"other{number}:item:x", "x")
    for _ in range(2):
        queue.deep_clean(db)
    assert queue.queue_len(db) == 30
    queue.light_clean(db)


@pytest.mark.parametrize("prefix", ["jobs", "", "{}jobs", "{", "jobs:{a", "}a{"])
def test_a_prefix_without_a_hash_tag_is_refused_on_a_cluster(db: RedisCluster, prefix: str) -> None:
    queue, item = WorkQueue(KeyPrefix(prefix)), Item(b"x", "a")
    calls = [
        lambda: queue.add_item(db, item),
        lambda: queue.lease(db, 30),
        lambda: queue.complete(db, item),
        lambda: queue.light_clean(db),
        lambda: queue.deep_clean(db),
        lambda: queue.queue_len(db),
        lambda: queue.add_item_to_pipeline(db.pipeline(), item),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match=r"hash tag.*nothing was sent.*KeyPrefix\('\{(jobs|a|jobs:a)\}'\)"):
            call()
    assert db.keys(target_nodes=RedisCluster.PRIMARIES) == []


@pytest.mark.parametrize("decode", [False, True])
async def test_the_queue_for_asyncio_on_a_cluster(port: int, decode: bool) -> None:
    async with AsyncRedisCluster(host="127.0.0.1", port=port, decode_responses=decode) as db:
        await db.flushall(target_nodes=AsyncRedisCluster.PRIMARIES)
        for prefix in PREFIXES:
            queue = AsyncWorkQueue(KeyPrefix(prefix), grace=0)
            assert await queue.add_item(db, Item(b"\xff", "a"))
            pipeline = db.pipeline()
            queue.add_item_to_pipeline(pipeline, Item(b"x", "b"))
            assert await pipeline.execute() == [1]
            await db.set(f"{prefix}:item:c", "x")
            for _ in range(2):
                await queue.deep_clean(db)
            assert await queue.queue_len(db) == 3
            for _ in range(3):
                item = await queue.lease(db, 30)
                assert item is not None
                assert await queue.complete(db, item)
            assert await queue.lease(db, 30, timeout=0.1) is None
        queue = AsyncWorkQueue(KeyPrefix("jobs"))
        with pytest.raises(InvalidArgument, match="hash tag"):
            await queue.add_item(db, Item(b"x"))
        with pytest.raises(InvalidArgument, match="hash tag"):
            queue.add_item_to_pipeline(db.pipeline(), Item(b"x"))
        assert await db.keys("jobs*", target_nodes=AsyncRedisCluster.PRIMARIES) == []
