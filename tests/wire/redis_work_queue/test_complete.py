"""Complete of the drop-in when its short way is not enough: late, by hand, and in long lists."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import redis

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.compat.redis_work_queue.base import HASHED_MAX
from tenure.core.outcome import Failed, Retried
from tenure.engines.redis_work_queue.config import COPIES_FEW
from tests.support import keyspace
from tests.support import redis_work_queue as layout
from tests.wire.redis_work_queue.bench import BOOM, Bench, P
from tests.wire.redis_work_queue.test_compat import Lossy


@pytest.fixture
def queue() -> WorkQueue:
    return WorkQueue(KeyPrefix(P), grace=0)


def leased(db: redis.Redis, queue: WorkQueue, seconds: float = 1) -> Item:
    item = queue.lease(db, seconds, block=False)
    assert item is not None
    return item


def keys(bench: Bench) -> set[bytes]:
    """Without the remembered answers."""
    return {name for name in keyspace.keys(bench.server) if not name.startswith(b"jobs:done:")}


def put_back(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    bench.pass_time(1_001)
    queue.light_clean(db)
    assert bench.lengths() == (1, 0)


def by_us(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    put_back(bench, db, queue)


def by_a_worker(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    bench.pass_time(10_000)
    bench.maintain()
    assert bench.lengths() == (1, 0)


def by_an_original(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    bench.pass_time(1_001)
    bench.foreign_reset("a")


def by_no_client(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    bench.pass_time(1_001)


def by_us_and_leased_until_now(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    put_back(bench, db, queue)
    leased(db, queue)
    bench.pass_time(1_001)


def twice(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    put_back(bench, db, queue)
    bench.foreign_push("a")
    bench.foreign_push("a")
    bench.foreign_pop()
    bench.foreign_pop()


def by_a_client_that_died(bench: Bench, db: redis.Redis, queue: WorkQueue) -> None:
    put_back(bench, db, queue)
    bench.foreign_pop()


@pytest.mark.parametrize(
    "back", [by_us, by_us_and_leased_until_now, by_a_worker, by_an_original, by_no_client, by_a_client_that_died, twice]
)
def test_a_late_completion_ends_an_item_that_no_client_holds(
    bench: Bench, db: redis.Redis, queue: WorkQueue, back: Callable[[Bench, redis.Redis, WorkQueue], None]
) -> None:
    queue.add_item(db, Item(b"x", "a"))
    item = leased(db, queue)
    back(bench, db, queue)
    item["data"] = b"the caller's own"
    assert [queue.complete(db, item) for _ in range(3)] == [True, False, False]
    assert bench.lengths() == (0, 0)
    assert not bench.foreign_complete_by_list("a")
    queue.light_clean(db)
    assert keys(bench) <= {b"jobs:meta"}


@pytest.mark.parametrize("size", [1, HASHED_MAX, HASHED_MAX + 1])
def test_a_late_completion_by_a_token_from_elsewhere_compares_the_data(
    bench: Bench, db: redis.Redis, queue: WorkQueue, size: int
) -> None:
    queue.add_item(db, Item(b"x" * size, "a"))
    token = leased(db, queue).token
    put_back(bench, db, queue)
    assert not queue.complete(db, Item(b"y" * size, "a"), token=token)
    assert not queue.complete(db, Item(b"x" * (size + 1), "a"), token=token)
    assert not queue.complete(db, Item(b"x" * size, "a"), token="5")
    assert queue.complete(db, Item(b"x" * size, "a"), token=token)


@pytest.mark.parametrize("by", ["lease", "maintain", "light"])
def test_expired_items_go_to_the_end_in_the_order_of_their_leases(
    bench: Bench, db: redis.Redis, queue: WorkQueue, by: str
) -> None:
    """Their holders may still be at work: the next callers get other items, and the late completions count."""
    bench.put("a", "b", "c")
    late = [leased(db, queue) for _ in range(2)]
    if by == "lease":  # one that finds an empty queue
        assert leased(db, queue, 60).id() == "c"
    bench.pass_time(10_000)
    if by == "maintain":
        bench.maintain()
    elif by == "light":
        queue.light_clean(db)
    if by == "lease":
        assert leased(db, queue, 60).id() == "a"
        assert bench.queue() == [b"b"]
    else:
        assert bench.queue() == [b"c", b"a", b"b"]
        assert leased(db, queue, 60).id() == "c"
        assert queue.complete(db, late[0])
    assert queue.complete(db, late[1])


def held_by_the_drop_in(bench: Bench, db: redis.Redis) -> None:
    leased(db, WorkQueue(KeyPrefix(P)), 60)


def held_by_a_worker(bench: Bench, db: redis.Redis) -> None:
    bench.take_one()


def held_by_a_worker_whose_lease_has_gone(bench: Bench, db: redis.Redis) -> None:
    bench.take_one()
    bench.command("DEL", "jobs:lease:a", "jobs:leased_by_session:a")


def held_by_an_original(bench: Bench, db: redis.Redis) -> None:
    bench.foreign_lease()


def added_anew(bench: Bench, db: redis.Redis) -> None:
    bench.foreign_complete("a")
    bench.command("DEL", "jobs:queue")
    bench.foreign_add("a", b"another")


def to_be_retried(bench: Bench, db: redis.Redis) -> None:
    assert bench.settle(bench.take_one(), Retried(BOOM, 60_000))


def to_be_retried_whose_lease_has_gone(bench: Bench, db: redis.Redis) -> None:
    to_be_retried(bench, db)
    bench.command("DEL", "jobs:lease:a", "jobs:leased_by_session:a")


def failed(bench: Bench, db: redis.Redis) -> None:
    assert bench.settle(bench.take_one(), Failed(BOOM))


@pytest.mark.parametrize(
    "now",
    [
        held_by_a_worker,
        held_by_a_worker_whose_lease_has_gone,
        held_by_an_original,
        added_anew,
        to_be_retried,
        to_be_retried_whose_lease_has_gone,
        failed,
    ],
)
def test_a_late_completion_is_refused_when_the_item_is_another_clients(
    bench: Bench, db: redis.Redis, queue: WorkQueue, now: Callable[[Bench, redis.Redis], None]
) -> None:
    queue.add_item(db, Item(b"x", "a"))
    item = leased(db, queue)
    put_back(bench, db, queue)
    now(bench, db)
    before = layout.dump(bench.server)
    assert not queue.complete(db, item)
    assert layout.dump(bench.server) == before


def test_of_several_callers_the_first_that_is_done_completes_the_item(
    bench: Bench, db: redis.Redis, queue: WorkQueue
) -> None:
    queue.add_item(db, Item(b"x", "a"))
    first = leased(db, queue)
    put_back(bench, db, queue)
    second = leased(db, WorkQueue(KeyPrefix(P)), 60)
    assert [queue.complete(db, item) for item in (first, second, first)] == [True, False, False]
    assert not bench.foreign_complete_by_list("a")
    bench.audit()


def test_a_late_completion_is_refused_when_another_client_took_the_item_over(
    bench: Bench, db: redis.Redis, queue: WorkQueue
) -> None:
    """No cleaner of Tenure's has been there: the record of the lease is left."""
    queue.add_item(db, Item(b"x", "a"))
    item = leased(db, queue)
    bench.pass_time(1_001)
    bench.foreign_reset("a")
    bench.foreign_lease()
    assert not queue.complete(db, item)
    assert (bench.lengths(), bench.items()) == ((0, 1), 1)
    assert bench.foreign_complete_by_list("a")


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_completion_whose_reply_was_lost_is_repeated(
    bench: Bench, db: redis.Redis, queue: WorkQueue, by_hand: bool
) -> None:
    for id in ("warm", "a"):  # the scripts are known after the first
        queue.add_item(db, Item(b"x", id))
        item = leased(db, queue)
        item.token = None if by_hand else item.token
        put_back(bench, db, queue)
        if id == "warm":
            assert queue.complete(db, item)
    with pytest.raises(redis.exceptions.ConnectionError):
        queue.complete(Lossy(db, 1 if by_hand else 2), item)
    assert bench.items() == 0
    assert [queue.complete(db, item) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("hold", [held_by_the_drop_in, held_by_a_worker, held_by_an_original, lambda *_: None])
def test_an_item_made_by_hand_is_completed_whatever_its_data_and_holder(
    bench: Bench, db: redis.Redis, queue: WorkQueue, hold: Callable[[Bench, redis.Redis], None]
) -> None:
    """As with the original, which reads the id alone."""
    bench.foreign_add("a", b"x")
    hold(bench, db)
    assert [queue.complete(db, Item(b"", "a")) for _ in range(3)] == [True, False, False]
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)
    assert not bench.foreign_complete_by_list("a")
    bench.audit()


def test_in_a_long_list_of_others_a_second_copy_goes_with_the_item(
    bench: Bench, db: redis.Redis, queue: WorkQueue
) -> None:
    bench.foreign_add("a")
    bench.foreign_push("a")
    bench.foreign_lease()
    bench.command("DEL", "jobs:leased_by_session:a")
    many = "for i = 1, ARGV[1] do redis.call('LPUSH', KEYS[1], 'i' .. i) end"
    bench.command("EVAL", many, 1, "jobs:processing", COPIES_FEW + 1)
    item = leased(db, queue, 60)
    assert queue.complete(db, item)
    assert b"a" not in bench.processing()
    assert not bench.foreign_complete_by_list("a")


@pytest.mark.parametrize("place", [0, 1_500, -1])
def test_in_a_long_list_of_our_own_leases_the_item_is_found_at_each_end(
    bench: Bench, db: redis.Redis, queue: WorkQueue, place: int
) -> None:
    many = COPIES_FEW + 500
    bench.put(*(f"i{n}" for n in range(many)))
    items = [leased(db, queue, 600) for _ in range(many)]
    item = items[place]
    assert queue.complete(db, item)
    assert not queue.complete(db, item)
    assert bench.lengths() == (0, many - 1)
    assert item.id().encode() not in bench.processing()


def lapse(bench: Bench, db: redis.Redis, queue: WorkQueue, by: Callable[[], object], ms: int = 1_001) -> None:
    leased(db, queue)
    bench.pass_time(ms)
    by()


@pytest.mark.parametrize("by", ["light", "maintain", "claim", "original"])
def test_an_item_whose_leases_lapse_is_warned_about_at_3_10_and_20(
    bench: Bench, db: redis.Redis, queue: WorkQueue, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    ways = {
        "light": lambda: queue.light_clean(db),
        "maintain": bench.maintain,
        "claim": lambda: None,
        "original": lambda: bench.foreign_reset("a"),
    }
    queue.add_item(db, Item(b"x", "a"))
    with caplog.at_level(logging.WARNING, "tenure.compat"):
        for _ in range(21):
            lapse(bench, db, queue, ways[by], 10_000 if by in ("maintain", "claim") else 1_001)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(" message=")[0] for line in lines] == [
        f"lease_expired queue=jobs id=a expiries={count} lease_ms=1000" for count in (3, 10, 20)
    ]
    assert "extend()" in lines[0]
    view = bench.run(bench.engine.job("default", "a"))
    assert view is not None
    assert (view.failures, view.crashes) == (0, 0)
    assert queue.complete(db, leased(db, queue))
    assert b"jobs:attempts" not in keys(bench)


def test_expiries_of_an_earlier_item_are_not_those_of_a_later_one(
    bench: Bench, db: redis.Redis, queue: WorkQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.add_item(db, Item(b"x", "a"))
    for _ in range(2):
        lapse(bench, db, queue, lambda: queue.light_clean(db))
    bench.foreign_lease()
    bench.foreign_complete("a")
    bench.foreign_add("a", b"y")
    with caplog.at_level(logging.WARNING, "tenure.compat"):
        for _ in range(3):
            lapse(bench, db, queue, lambda: queue.light_clean(db))
    assert caplog.records == []
    assert bench.command("HGET", "jobs:attempts", "a").split()[3:] == [b"e3"]
