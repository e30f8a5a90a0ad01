"""An id that is listed twice, by clients and cleaners of others: one of those who complete it is told that it did."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leasehold.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from leasehold.core import limits
from leasehold.core.job import State
from leasehold.core.outcome import Retried
from leasehold.engines.native import NativeEngine
from leasehold.engines.redis_work_queue.migrate import migrate_page
from leasehold.redis.sync import SyncDriver
from leasehold.testing.server import RedisServer
from tests.wire.redis_work_queue.bench import BOOM, LEASE_KEYS, Bench


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
    native = NativeEngine("shop")
    assert bench.run(migrate_page(bench.engine, "default", native, "images")).count == 1
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
    many = limits.RWQ_COPIES_MAX // 2
    held_elsewhere(bench)
    bench.command("EVAL", f"for i = 1, {many} do redis.call('LPUSH', KEYS[1], 'i' .. i) end", 1, "jobs:processing")
    assert by_worker(bench)
    assert b"a" not in bench.processing()


def test_what_waited_for_a_retry_says_nothing_of_a_later_item(bench: Bench) -> None:
    """Another client completes it, and somebody adds other data under its id."""
    for add in (bench.put, bench.foreign_add):
        bench.put("a", data=b"first")
        assert bench.settle(bench.take_one(), Retried(BOOM, 600_000))
        assert bench.foreign_complete("a")
        add("a", data=b"second")
        assert bench.state("a") is State.READY
        lease = bench.take_one()
        assert (lease.record.payload, lease.failures) == (b"second", 0)
        assert bench.settle(lease)
        bench.audit()


def test_a_later_item_is_discarded_whole(bench: Bench) -> None:
    bench.put("a", data=b"first")
    assert bench.settle(bench.take_one(), Retried(BOOM, 600_000))
    assert bench.foreign_complete("a")
    bench.foreign_add("a", data=b"second")
    assert bench.run(bench.engine.discard("default", "a"))
    assert bench.lengths() == (0, 0)
    bench.audit()
