"""Two items of one id, one aside and one that another client added since: neither is touched for the other."""

from __future__ import annotations

from tenure.core.job import State
from tenure.core.outcome import Broken, Failed, Outcome, Unroutable
from tenure.core.shape import CancelAnswer
from tenure.engines.kit.moving import Moved
from tenure.engines.native.partitions.engine import PartitionedEngine
from tests.support.moves import move
from tests.wire.redis_work_queue.bench import BOOM, Bench

NATIVE = PartitionedEngine("shop")
PARK = 600_000
GOOD = b'{"tenure":1,"task":"u","text":"good"}'


def aside(bench: Bench, outcome: Outcome | None = None) -> None:
    """`x` with b"bad" ends in this way; then another client adds `x` with b"good", for another task."""
    bench.put("x", data=b"bad", task="t")
    assert bench.settle(bench.take_one(), outcome or Failed(BOOM))
    bench.foreign_add("x", GOOD)


def good(bench: Bench) -> bool:
    """Whether the later item is there as it was added, once."""
    lists = bench.queue() + bench.processing()
    return bench.command("GET", "jobs:item:x") == GOOD and lists == [b"x"]


def test_to_discard_what_failed_leaves_the_later_item(bench: Bench) -> None:
    aside(bench)
    assert bench.run(bench.engine.discard("default", "x"))
    assert good(bench)
    assert bench.state("x") is State.READY
    assert bench.drain() == ["x"]
    bench.audit()


def test_to_purge_what_failed_leaves_the_later_item_to_its_holder(bench: Bench) -> None:
    aside(bench)
    bench.foreign_lease()
    assert bench.run(bench.engine.purge("default", State.FAILED)) == 1
    assert good(bench)
    assert bench.command("EXISTS", "jobs:leased_by_session:x") == 1
    assert bench.foreign_complete("x")


def test_to_purge_what_waits_leaves_what_failed(bench: Bench) -> None:
    aside(bench)
    assert bench.run(bench.engine.purge("default", State.READY)) == 1
    assert bench.items() == 0
    assert bench.state("x") is State.FAILED
    bench.audit()


def test_to_cancel_what_is_parked_leaves_the_later_item(bench: Bench) -> None:
    aside(bench, Unroutable())
    assert bench.run(bench.engine.cancel("default", "x")) is CancelAnswer.CANCELLED
    assert good(bench)
    assert bench.run(bench.engine.cancel("default", "x")) is CancelAnswer.CANCELLED, "and now the later one"
    assert bench.lengths() == (0, 0)
    bench.audit()


def test_a_parked_item_is_not_lost_when_a_later_one_fails_or_is_parked(bench: Bench) -> None:
    aside(bench, Unroutable())
    for outcome, error in ((Unroutable(), "IdTaken"), (Failed(BOOM), "Boom")):
        assert bench.settle(bench.take_one(), outcome)
        assert good(bench)
        (view,) = bench.run(bench.engine.page("default", State.SCHEDULED)).jobs
        assert (view.payload, view.error and view.error.type) == (b"good", error)
        bench.pass_time(PARK + 1)
        bench.maintain()
    assert bench.run(bench.engine.discard("default", "x"))
    assert bench.settle(bench.take_one(), Failed(BOOM))
    assert bench.state("x") is State.FAILED
    bench.audit()


def test_a_later_failure_replaces_an_earlier_one(bench: Bench) -> None:
    aside(bench)
    assert bench.settle(bench.take_one(), Broken(BOOM))
    counts = bench.run(bench.engine.queue("default")).counts
    assert (counts[State.FAILED], counts[State.BROKEN], bench.state("x")) == (0, 1, State.BROKEN)
    bench.audit()


def test_a_migration_moves_the_later_item_and_leaves_what_failed(bench: Bench) -> None:
    aside(bench)
    bench.put("y")
    assert bench.run(move(bench.engine, "default", NATIVE, "images")) == Moved(2, 2)
    (view, _) = bench.run(NATIVE.page("images", State.READY)).jobs
    assert (view.id, view.payload) == ("x", b"good")
    assert bench.state("x") is State.FAILED
    assert bench.items() == 0
