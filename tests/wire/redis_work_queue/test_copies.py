"""An id that is listed twice, by clients and cleaners of others: one of those who complete it is told that it did."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.engines.redis_work_queue.config import COPIES_MAX
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.moves import move
from tests.wire.redis_work_queue.bench import LEASE_KEYS, Bench


@pytest.fixture(params=LEASE_KEYS)
def bench(server: RedisServer, driver: SyncDriver, request: pytest.FixtureRequest) -> Bench:
    return Bench(server, driver, request.param)


def held_elsewhere(bench: Bench, data: bytes = b"data") -> None:
    """Another client holds `a`, its lease has ended, and a second copy waits."""
    bench.foreign_add("a", data)
    bench.foreign_push("a")
    bench.foreign_lease()
    bench.command("DEL", f"jobs:{bench.lease_key}:a")


def by_worker(bench: Bench) -> bool:
    return bench.settle(bench.take_one())


def by_drop_in(bench: Bench) -> bool:
    queue = WorkQueue(KeyPrefix("jobs"))
    with bench.client() as db:
        item = queue.lease(db, 5, block=False)
        assert item is not None
        return queue.complete(db, item)


def by_data(bench: Bench) -> bool:
    with bench.client() as db:
        return WorkQueue(KeyPrefix("jobs")).complete(db, Item(b"data", "a"))


@pytest.mark.parametrize("complete", [by_worker, by_drop_in, by_data])
def test_who_is_late_is_not_told_that_it_completed_what_we_did(bench: Bench, complete: Callable[[Bench], bool]) -> None:
    held_elsewhere(bench)
    assert complete(bench)
    assert bench.processing() == []
    assert not bench.foreign_complete_by_list("a")


def test_who_is_late_is_not_told_that_it_completed_what_has_moved(bench: Bench) -> None:
    held_elsewhere(bench)
    native = PartitionedEngine("shop")
    assert bench.run(move(bench.engine, "default", native, "images")).count == 1
    assert not bench.foreign_complete_by_list("a")


def test_two_of_ours_leave_no_copy(bench: Bench) -> None:
    bench.put("a")
    first = bench.take_one("one", lease_ms=1_000)
    bench.foreign_push("a")
    bench.command("DEL", "jobs:lease:a", "jobs:leased_by_session:a")
    second = bench.take_one("two")
    assert [bench.settle(second), bench.settle(first)] == [True, False]
    assert bench.lengths() == (0, 0)
    bench.audit()


def test_the_copies_of_many_are_looked_for_as_far_as_one_call_may(bench: Bench) -> None:
    """The list is long: of the first, as is usual, and not of all."""
    many = COPIES_MAX // 2
    held_elsewhere(bench)
    bench.command("EVAL", f"for i = 1, {many} do redis.call('LPUSH', KEYS[1], 'i' .. i) end", 1, "jobs:processing")
    assert by_worker(bench)
    assert b"a" not in bench.processing()


def test_what_is_left_of_another_item_does_not_hide_a_copy(bench: Bench) -> None:
    """Our record of an item that another client has completed makes the list look as if it were all ours."""
    bench.put("s")
    bench.take_one("one", lease_ms=600_000)
    assert bench.foreign_complete("s")
    held_elsewhere(bench)
    assert by_drop_in(bench)
    assert not bench.foreign_complete_by_list("a")
