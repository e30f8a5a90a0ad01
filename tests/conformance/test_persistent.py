"""Persistent jobs never complete, are held by one worker, and are taken over when it dies."""

from __future__ import annotations

import pytest

from tenure.core.engine import STEADY_MS, Feature, Trait
from tenure.core.job import Lease, State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried
from tenure.core.shape import Shape, UniqueRule
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.PERSISTENT)

FOREVER = Shape(persistent=True)


def put(world: World, *ids: str, shape: Shape = FOREVER) -> None:
    assert all(world.put(*ids, shape=shape, timeout_ms=0))


def beat_for(world: World, lease: Lease, ms: int) -> None:
    """Let time pass while the holder beats."""
    step = LEASE_MS // 2
    for _ in range(-(-ms // step)):
        world.pass_time(step)
        assert not world.beat(lease.worker, [lease]).lost


@pytest.mark.parametrize("ttl_ms", [0, 60_000])
def test_what_returns_is_run_again_after_the_others(world: World, ttl_ms: int) -> None:
    put(world, "a")
    world.put("b")
    assert world.settle(world.take_one(), Completed(b"result", ttl_ms))
    assert world.ids(State.READY) == ["b", "a"]
    assert world.counts() == {"ready": 2}
    assert world.totals().get("completed", 0) == 0
    view = world.view("a")
    assert (view.state, view.result, view.payload, view.shape) == (State.READY, None, b"p", FOREVER)
    world.put("c")
    assert world.take_ids() == ["b", "a", "c"]


@pytest.mark.needs(Trait.KEPT_WAKE)
def test_what_returns_wakes(world: World) -> None:
    put(world, "a")
    lease = world.take_one()
    assert world.wait(["q"], 20) in (None, "q")
    assert world.settle(lease, Completed(b""))
    assert world.wait(["q"], 5_000) == "q"


def test_a_round_starts_with_clean_counts(world: World) -> None:
    put(world, "a")
    world.take_one("victim")
    world.silence()
    assert world.settle(world.take_one(), Retried(BOOM))
    lease = world.take_one()
    assert (lease.failures, lease.crashes) == (1, 1)
    enqueued_ms = world.view("a").enqueued_ms
    assert world.settle(lease, Completed(b""))
    lease = world.take_one()
    assert (lease.failures, lease.crashes, lease.attempt) == (0, 0, 1)
    view = world.view("a")
    assert (view.error, view.enqueued_ms) == (None, enqueued_ms)


def test_it_may_be_retried_for_ever(world: World) -> None:
    put(world, "a")
    for n in range(30):
        lease = world.take_one()
        assert lease.failures == n
        assert world.settle(lease, Retried(BOOM, 1_000))
        world.pass_time(1_100)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(Failed(BOOM), State.FAILED), (Broken(BOOM), State.BROKEN), (Cancelled("x"), State.CANCELLED)],
)
def test_it_ends_in_no_other_way(world: World, outcome: Outcome, state: State) -> None:
    put(world, "a")
    assert world.settle(world.take_one(), Completed(b""))
    assert world.settle(world.take_one(), outcome)
    assert world.state("a") is state
    assert world.take() == []
    assert world.retry("a")
    assert world.settle(world.take_one(), Completed(b""))
    assert world.take_ids() == ["a"], "persistent as before"


@pytest.mark.parametrize("act", ["cancel", "discard"])
def test_between_two_rounds_it_can_be_taken_away(world: World, act: str) -> None:
    put(world, "a")
    assert world.settle(world.take_one(), Completed(b""))
    world.remove(act, "a")
    assert world.take() == []


@pytest.mark.needs(Feature.CANCEL)
@pytest.mark.parametrize("outcome", [Completed(b"r", 60_000), Completed(b"", 0), Retried(BOOM), Released()])
def test_cancelled_while_it_runs_it_does_not_come_again(world: World, outcome: Outcome) -> None:
    put(world, "a")
    lease = world.take_one()
    assert world.cancel("a", "enough")
    assert world.settle(lease, outcome)
    assert world.state("a") is State.CANCELLED
    assert world.take() == []


# One holder, and the next when it is dead.


def test_nobody_else_gets_it_while_its_holder_beats(world: World) -> None:
    put(world, "a")
    lease = world.take_one("w1")
    for _ in range(40):
        world.pass_time(LEASE_MS - 1_000)
        assert not world.beat("w1", [lease]).lost
        assert world.take(10, "w2") == []
        assert world.maintain().reclaimed == 0
    assert world.settle(lease, Completed(b""))


def test_it_is_taken_over_when_its_holder_is_dead(world: World) -> None:
    put(world, "a")
    dead = world.take_one("w1")
    world.pass_time(LEASE_MS + 50)
    assert world.take(10, "w2") == [], "suspected, not yet judged"
    world.pass_time(GRACE_MS + 50)
    heir = world.take_one("w2")
    assert heir.record.id == "a"
    assert not world.settle(dead, Completed(b""))
    assert world.beat("w1", [dead]).lost == {dead.ref}
    assert world.take(10, "w1") == []
    assert world.settle(heir, Completed(b""))


def test_a_crash_soon_after_its_start_counts(world: World) -> None:
    put(world, "a")
    for crashes in range(world.options.max_crashes):
        lease = world.take_one("victim")
        assert lease.crashes == crashes
        assert world.silence() == 1
    assert world.state("a") is State.BROKEN


def test_a_crash_after_a_long_time_is_the_first_one(world: World) -> None:
    put(world, "a")
    for _ in range(3 * world.options.max_crashes):
        lease = world.take_one("w1")
        beat_for(world, lease, STEADY_MS + LEASE_MS)
        assert world.silence() == 1
        assert world.view("a").crashes == 1


def test_without_it_a_crash_after_a_long_time_counts_as_ever(world: World) -> None:
    world.put("a")
    for crashes in (1, 2):
        beat_for(world, world.take_one("w1"), STEADY_MS + LEASE_MS)
        assert world.silence() == 1
        assert world.view("a").crashes == crashes


def test_it_is_held_for_as_long_as_it_likes(world: World) -> None:
    put(world, "a")
    lease = world.take_one()
    for _ in range(100):
        world.pass_time(LEASE_MS - 1_000)
        assert not world.beat("w", [lease]).lost


# With a lane, with a key, with a priority.


@pytest.mark.needs(Feature.LANES)
def test_in_a_lane_it_goes_to_the_end_of_it(world: World) -> None:
    put(world, "a", shape=Shape(lane="L", persistent=True))
    world.put_in("L", "b")
    assert world.settle(world.take_one(), Completed(b""))
    assert world.in_lane("L") == ["b", "a"]
    lease = world.take_one()
    assert lease.record.id == "b"
    world.finish(lease)
    assert world.take_ids() == ["a"]


@pytest.mark.needs(Feature.PRIORITIES)
def test_it_keeps_its_priority(world: World) -> None:
    put(world, "a", shape=Shape(priority=5, persistent=True))
    world.put("b")
    for _ in range(3):
        lease = world.take_one()
        assert lease.record.id == "a"
        assert world.settle(lease, Completed(b""))


@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_it_keeps_its_key_from_round_to_round(world: World) -> None:
    put(world, "a", shape=Shape(unique=UniqueRule("k"), persistent=True))
    for _ in range(3):
        assert world.settle(world.take_one(), Completed(b"r", 60_000))
        assert not world.is_free()
    assert world.settle(world.take_one(), Failed(BOOM))
    assert world.is_free()


@pytest.mark.needs(Feature.PROGRESS)
def test_who_waits_for_its_end_is_not_told_of_a_round(world: World) -> None:
    put(world, "a")
    with world.driver.subscribe(world.engine.results.result_channel("q", "a")) as messages:
        world.run(world.engine.results.result("q", "a"))
        assert world.settle(world.take_one(), Completed(b""))
        assert world.settle(world.take_one(), Failed(BOOM))
        assert messages.get(timeout_s=5) == b"failed"
