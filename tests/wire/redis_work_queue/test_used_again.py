"""An id that is used again, while something of ours is left of the item that had it before: nothing of it counts."""

from __future__ import annotations

import pytest

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.core.errors import WrongState
from tenure.core.job import State
from tenure.core.outcome import Released, Retried
from tenure.core.shape import CancelAnswer
from tenure.engines.redis_work_queue.config import COMPARED_MAX
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.wire.redis_work_queue.bench import BOOM, LEASE_KEYS, STRAY_MS, Bench

RETRY_MS = 600_000


@pytest.fixture(params=LEASE_KEYS)
def bench(server: RedisServer, driver: SyncDriver, request: pytest.FixtureRequest) -> Bench:
    return Bench(server, driver, request.param)


def waited(bench: Bench) -> None:
    """`a` waited for a retry of ours, and another client completed it."""
    bench.put("a", data=b"first")
    assert bench.settle(bench.take_one(), Retried(BOOM, RETRY_MS))
    assert bench.foreign_complete("a")


def leased(bench: Bench) -> None:
    """The drop-in leased `a`, and another client completed it."""
    bench.put("a", data=b"first")
    with bench.client() as db:
        assert WorkQueue(KeyPrefix("jobs")).lease(db, 5, block=False) is not None
    assert bench.foreign_complete("a")


def leases_lapse(bench: Bench) -> None:
    bench.pass_time(5_001)
    bench.command("DEL", "jobs:lease:a", "jobs:leased_by_session:a")


@pytest.mark.parametrize("add", ["ours", "theirs"])
@pytest.mark.parametrize("tidied", [False, True])
def test_what_waited_for_a_retry_says_nothing_of_a_later_item(bench: Bench, add: str, tidied: bool) -> None:
    waited(bench)
    if tidied:
        bench.maintain()
    (bench.put if add == "ours" else bench.foreign_add)("a", data=b"second")
    assert bench.state("a") is State.READY
    lease = bench.take_one()
    assert (lease.record.payload, lease.failures) == (b"second", 0)
    assert bench.settle(lease)
    bench.audit()


def test_a_later_item_is_discarded_whole(bench: Bench) -> None:
    waited(bench)
    bench.foreign_add("a", data=b"second")
    assert bench.run(bench.engine.discard("default", "a"))
    assert bench.lengths() == (0, 0)
    bench.audit()


def test_to_purge_what_waits_for_a_retry_leaves_a_later_item(bench: Bench) -> None:
    waited(bench)
    bench.foreign_add("a", data=b"second")
    assert bench.run(bench.engine.purge("default", State.SCHEDULED)) == 0
    assert bench.drain() == ["a"]


@pytest.mark.parametrize("before", [waited, leased])
def test_a_clean_waits_for_whoever_takes_the_later_item_in_two_steps(bench: Bench, before) -> None:
    before(bench)
    leases_lapse(bench)
    bench.foreign_add("a", data=b"second")
    bench.foreign_pop()
    assert bench.light().requeued == 0
    bench.foreign_hold("a")
    assert bench.processing() == [b"a"]


def test_a_retry_that_is_due_leaves_the_later_item_to_who_takes_it(bench: Bench) -> None:
    waited(bench)
    bench.foreign_add("a", data=b"second")
    bench.foreign_pop()
    bench.pass_time(RETRY_MS + 1)
    bench.maintain()
    assert bench.lengths() == (0, 1)


@pytest.mark.parametrize("repair", ["deep clean", "adding it again"])
def test_a_later_item_in_no_list_is_listed(bench: Bench, repair: str) -> None:
    leased(bench)
    leases_lapse(bench)
    bench.foreign_item("a", b"second")
    for _ in range(2):
        if repair == "deep clean":
            bench.deep()
        else:
            bench.put("a")
        bench.pass_time(STRAY_MS + 1)
    if repair == "adding it again":
        bench.put("a")
    assert bench.queue() == [b"a"]
    assert bench.drain() == ["a"]


def test_a_lease_that_is_left_holds_no_later_item(bench: Bench) -> None:
    """Another client knows the one name of the lease, and deletes it; the other one is still there."""
    leased(bench)
    bench.foreign_add("a", b"second")
    assert bench.state("a") is State.READY
    assert bench.run(bench.engine.cancel("default", "a")) is CancelAnswer.CANCELLED


def test_marks_of_a_clock_that_was_set_back_are_made_anew(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_pop()
    bench.foreign_item("b")
    bench.deep()
    bench.pass_time(-3_600_000)
    assert bench.deep().requeued == 0
    bench.pass_time(STRAY_MS + 1)
    assert bench.deep().requeued == 2


@pytest.mark.parametrize("spoil", ["SET", "SADD"])
@pytest.mark.parametrize("key", ["attempts", "passing", "stray", "unleased", "due"])
def test_to_complete_beside_a_key_of_another_type_changes_nothing(bench: Bench, key: str, spoil: str) -> None:
    bench.put("a")
    queue = WorkQueue(KeyPrefix("jobs"))
    with bench.client() as db:
        item = queue.lease(db, 60)
        assert item is not None
        bench.command("DEL", f"jobs:{key}")
        bench.command(spoil, f"jobs:{key}", "x")
        with pytest.raises(Exception, match="WRONGTYPE"):
            queue.complete(db, item)
        assert bench.items() == 1
        bench.command("DEL", f"jobs:{key}")
        assert queue.complete(db, Item.from_dict(item))


@pytest.mark.parametrize("key", ["unleased", "stray", "later", "holders", "failed"])
def test_a_set_in_the_place_of_a_sorted_set_is_noticed_before_anything_is_changed(bench: Bench, key: str) -> None:
    bench.put("a", "b")
    lease = bench.take_one()
    bench.command("DEL", f"jobs:{key}")
    bench.command("SADD", f"jobs:{key}", "x")
    for act in (bench.take_one, lambda: bench.settle(lease)):
        with pytest.raises(WrongState):
            act()
        assert (bench.queue(), bench.processing(), bench.items()) == ([b"b"], [b"a"], 2)
    bench.command("DEL", f"jobs:{key}")
    assert bench.settle(lease)


@pytest.mark.parametrize("size", [1, COMPARED_MAX + 1])
@pytest.mark.parametrize("how", ["worker", "drop-in"])
def test_an_item_that_others_add_over_a_held_one_does_not_end_with_its_lease(bench: Bench, how: str, size: int) -> None:
    bench.put("a", data=b"x" * size)
    queue = WorkQueue(KeyPrefix("jobs"))
    with bench.client() as db:
        lease = bench.take_one() if how == "worker" else None
        item = queue.lease(db, 5, block=False)
        bench.command("SET", "jobs:item:a", b"y" * size)
        bench.foreign_push("a")
        if lease is not None:
            assert not bench.settle(lease)
        else:
            assert item is not None
            assert not queue.complete(db, item)
    assert bench.command("GET", "jobs:item:a") == b"y" * size
    assert bench.queue() == [b"a"]


@pytest.mark.parametrize("holder", ["another client", "the drop-in"])
@pytest.mark.parametrize("end", ["discard", "purge", "cancel all", "retry"])
def test_one_that_others_hold_by_now_does_not_wait_for_its_retry(bench: Bench, holder: str, end: str) -> None:
    """Our workers went away; a cleaner of theirs put it into the queue when the lease that waits had ended."""
    bench.put("a")
    assert bench.settle(bench.take_one(), Retried(BOOM, RETRY_MS))
    bench.command("DEL", "jobs:lease:a", "jobs:leased_by_session:a")
    assert bench.state("a") is State.SCHEDULED
    bench.foreign_reset("a")
    assert bench.state("a") is State.READY
    with bench.client() as db:
        if holder == "another client":
            bench.foreign_lease()
        else:
            assert WorkQueue(KeyPrefix("jobs")).lease(db, 5, block=False) is not None
    assert bench.state("a") is State.ACTIVE
    if end == "discard":
        assert not bench.run(bench.engine.discard("default", "a"))
    elif end == "purge":
        assert bench.run(bench.engine.purge("default", State.SCHEDULED)) == 0
    elif end == "cancel all":
        bench.run(bench.engine.cancel_all("default"))
    else:
        assert not bench.run(bench.engine.retry("default", "a"))
    assert (bench.state("a"), bench.queue(), bench.processing()) == (State.ACTIVE, [], [b"a"])
    assert bench.command("EXISTS", f"jobs:{bench.lease_key if holder == 'another client' else 'lease'}:a") == 1


def test_tokens_grow_even_when_the_clock_was_set_back(bench: Bench) -> None:
    """The counter is ahead of the clock then."""
    bench.put("a")
    lease = bench.take_one()
    ahead = int(lease.token) + 3_600_000_000
    bench.command("HSET", "jobs:meta", "token", ahead)
    assert bench.settle(lease, Released())
    assert int(bench.take_one().token) > ahead
