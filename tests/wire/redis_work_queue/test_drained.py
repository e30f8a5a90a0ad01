"""A drained prefix on which no Tenure worker works: no key of it remains after a light clean."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.engines.redis_work_queue.clean import deep_clean
from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig
from tests.support import keyspace
from tests.wire.redis_work_queue.bench import Bench, P


def keys(bench: Bench) -> list[bytes]:
    return sorted(keyspace.keys(bench.server))


def drained(bench: Bench, db: redis.Redis) -> list[bytes]:
    """The keys that remain, without the answers that Redis remembers for a minute."""
    WorkQueue(KeyPrefix(P), grace=0).light_clean(db)
    assert bench.lengths() == (0, 0)
    return [name for name in keys(bench) if not name.startswith(b"jobs:done:")]


def by_us(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    while item := queue.lease(db, 60, block=False):
        assert queue.extend(db, item, 30)
        assert queue.complete(db, item)


def by_us_by_hand(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    while item := queue.lease(db, 60, block=False):
        assert queue.complete(db, Item(b"", item.id()))


def by_originals(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    while bench.lengths()[0]:
        bench.foreign_complete(bench.foreign_lease())


def leased_by_us_and_completed_by_originals(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    while item := queue.lease(db, 60, block=False):
        bench.foreign_complete(item.id())


def leased_by_originals_and_completed_by_us(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    while bench.lengths()[0]:
        assert queue.complete(db, Item(b"", bench.foreign_lease().decode()))


WAYS = [
    by_us,
    by_us_by_hand,
    by_originals,
    leased_by_us_and_completed_by_originals,
    leased_by_originals_and_completed_by_us,
]


@pytest.mark.parametrize("drain", WAYS)
@pytest.mark.parametrize("lapsed", [False, True])
def test_no_key_remains(
    bench: Bench,
    db: redis.Redis,
    drain: Callable[[Bench, redis.Redis, WorkQueue], None],
    lapsed: bool,
) -> None:
    queue = WorkQueue(KeyPrefix(P), grace=0)
    for n in range(12):
        queue.add_item(db, Item(b"x", f"i{n}"))
    for n in range(12, 15):
        bench.foreign_add(f"i{n}")
    if lapsed:
        for _ in range(5):
            queue.lease(db, 1)
        for _ in range(3):
            bench.foreign_pop()
        bench.pass_time(10_000)
        queue.light_clean(db)
        queue.deep_clean(db)
        assert bench.lengths()[0] == 15 or bench.lengths() == (12, 3)
        queue.light_clean(db)
    drain(bench, db, queue)
    assert drained(bench, db) == []


def test_counts_of_many_items_that_others_complete_do_not_remain(bench: Bench, db: redis.Redis) -> None:
    """More than one call looks at, although no place is kept in `meta`."""
    queue = WorkQueue(KeyPrefix(P), grace=0)
    for n in range(1_000):
        bench.foreign_add(f"i{n}")
    for _ in range(700):
        queue.lease(db, 600)
    for id in bench.processing():
        bench.foreign_complete(id)
    by_originals(bench, db, queue)
    assert drained(bench, db) == []


def test_remembered_answers_end_after_a_minute(bench: Bench, db: redis.Redis) -> None:
    queue = WorkQueue(KeyPrefix(P))
    for complete in (lambda item: queue.complete(db, item), lambda item: queue.complete(db, Item(b"", item.id()))):
        bench.foreign_add("a")
        item = queue.lease(db, 60)
        assert item is not None
        (answer,) = bench.command("KEYS", "jobs:done:*")
        assert 0 < bench.command("PTTL", answer) <= 60_000
        assert queue.extend(db, item, 60)
        assert 0 < bench.command("PTTL", answer) <= 60_000
        assert complete(item)
        assert keys(bench) == [answer]
        assert 0 < bench.command("PTTL", answer) <= 60_000


def test_a_lease_that_finds_nothing_leaves_no_key(bench: Bench, db: redis.Redis) -> None:
    queue = WorkQueue(KeyPrefix(P))
    queue.add_item(db, Item(b"x", "a"))
    item = queue.lease(db, 60)
    assert item is not None
    assert queue.complete(db, item)
    assert queue.lease(db, 60, block=False) is None
    assert keys(bench) == []
    queue.add_item(db, Item(b"x", "b"))
    assert queue.lease(db, 1) is not None
    bench.pass_time(1_001)
    bench.foreign_complete("b")
    assert queue.lease(db, 60, block=False) is None, "by the long way, since a lease is due"
    bench.pass_time(10_000)
    assert queue.lease(db, 60, block=False) is None
    assert keys(bench) == []


def test_where_a_worker_works_its_counters_go_on(bench: Bench, db: redis.Redis) -> None:
    queue = WorkQueue(KeyPrefix(P), grace=0)
    bench.put("a", "b", "c")
    assert bench.settle(bench.take_one())
    token = int(bench.command("HGET", "jobs:meta", "token"))
    bench.command("HSET", "jobs:meta", "token", token + 1_000_000_000)  # as if the clock had been set back
    item = queue.lease(db, 60)
    assert item is not None
    assert int(str(item.token).split()[0]) == token + 1_000_000_001
    assert bench.command("HGET", "jobs:meta", "token") == b"%d" % (token + 1_000_000_001)
    assert queue.complete(db, item)
    other = queue.lease(db, 60)
    assert other is not None
    assert queue.complete(db, Item(b"", other.id()))
    queue.light_clean(db)
    assert bench.command("HGET", "jobs:meta", "completed") == b"3"


def test_a_clean_by_the_command_line_leaves_no_key(bench: Bench, db: redis.Redis) -> None:
    from tenure.protocols.redis_work_queue import _cleaning

    bench.foreign_add("a")
    bench.foreign_complete(bench.foreign_lease())
    for deep in (False, True):
        bench.run(_cleaning(bench.engine, None).first("default", deep))
    assert keys(bench) == []
    bench.run(deep_clean(P, bench.engine.config))
    assert keys(bench) == [b"jobs:meta"]


def test_marks_of_items_that_others_complete_do_not_remain(bench: Bench, db: redis.Redis) -> None:
    queue = WorkQueue(KeyPrefix(P), grace=30)
    bench.foreign_add("popped")
    bench.foreign_pop()
    bench.foreign_item("unlisted")
    bench.run(deep_clean(P, RedisWorkQueueConfig(stray_ms=30_000, creates_meta=False)))
    assert {b"jobs:unleased", b"jobs:stray"} <= set(keys(bench))
    for id in ("popped", "unlisted"):
        bench.foreign_complete(id)
    queue.light_clean(db)
    assert drained(bench, db) == []


def test_marks_expire_where_no_program_cleans_again(bench: Bench, db: redis.Redis) -> None:
    queue = WorkQueue(KeyPrefix(P))
    assert queue.add_item(db, Item(b"data", "again"))
    assert not queue.add_item(db, Item(b"data", "again"))
    assert bench.command("PTTL", f"{P}:stray") > 0
    bench.command("DEL", f"{P}:stray")
    bench.foreign_add("popped")
    bench.foreign_pop()
    bench.foreign_item("unlisted")
    bench.run(deep_clean(P, RedisWorkQueueConfig(stray_ms=30_000, creates_meta=False)))
    assert min(bench.command("PTTL", f"{P}:{kind}") for kind in ("unleased", "stray")) > 0
