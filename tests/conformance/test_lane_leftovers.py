"""What is taken away from a lane leaves the lane going on, and no trace: cancel, discard, purge, ids used again."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.job import NewJob, State
from tenure.core.outcome import Failed, Retried, Unroutable
from tenure.core.shape import CancelCount, LaneFailure, LaneState, Shape
from tenure.runtime.ports import ROUND_MOST
from tests.support.stepping import stop_after
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.LANES)

ACTS = ["cancel", "discard"]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("gone", ["a", "b", "c"])
@pytest.mark.parametrize("limit", [1, 10])
def test_the_lane_goes_on_without_one_that_waited(world: World, act: str, gone: str, limit: int) -> None:
    world.put_in("L", *"abc")
    world.remove(act, gone)
    rest = [id for id in "abc" if id != gone]
    assert world.in_lane("L") == rest
    assert world.counts()["ready"] == 2
    done = []
    for _ in range(6):
        for lease in world.take(limit):
            done.append(lease.record.id)
            world.finish(lease)
    assert done == rest
    assert world.lane("L").state is LaneState.IDLE


@pytest.mark.parametrize("act", ACTS)
def test_all_that_waits_may_be_taken_away_while_the_head_runs(world: World, act: str) -> None:
    world.put_in("L", *"abc")
    lease = world.take_one()
    for id in "bc":
        world.remove(act, id)
    assert world.take() == []
    world.finish(lease)
    assert world.take() == []
    world.put_in("L", "d")
    assert world.take_ids() == ["d"]


@pytest.mark.parametrize("act", ["purge", "cancel"])
def test_many_lanes_are_emptied_though_another_has_stopped_half_way(world: World, act: str) -> None:
    """All their heads run, so that they have to be looked for."""
    lanes = [f"L{n}" for n in range(900)]
    for letter in "ab":
        world.enqueue([NewJob("q", f"{letter}-{lane}", b"", shape=Shape(lane=lane)) for lane in lanes])
        while world.take(ROUND_MOST):
            pass
    stop_after(4, world.engine.purge("q", State.READY), world.driver)
    left = world.counts()["ready"]
    assert 0 < left < 900
    assert (world.purge(State.READY) if act == "purge" else world.cancel_all().cancelled) == left
    assert world.counts()["active"] == 900
    world.audit()


@pytest.mark.needs(Trait.RETRY_DELAY)
@pytest.mark.parametrize("act", [*ACTS, "purge"])
def test_the_lane_goes_on_without_one_that_waits_for_its_retry(world: World, act: str) -> None:
    world.put_in("L", "a", "b")
    assert world.settle(world.take_one(), Retried(BOOM, 60_000))
    assert world.take() == []
    world.remove(act, "a")
    assert world.lane("L").busy == 0
    assert world.drain() == ["b"]
    world.pass_time(61_000)
    assert world.take() == []


@pytest.mark.parametrize("act", [*ACTS, "purge"])
@pytest.mark.needs(Feature.UNROUTABLE)
def test_the_lane_goes_on_without_one_that_nobody_knew(world: World, act: str) -> None:
    world.put_in("L", "a", "b", task="t")
    assert world.settle(world.take_one(), Unroutable())
    assert world.take() == []
    world.remove(act, "a")
    assert world.drain() == ["b"]
    assert world.maintain(["t"]).unparked == 0


@pytest.mark.parametrize("act", [*ACTS, "purge"])
def test_the_lane_goes_on_without_one_that_took_workers_down(world: World, act: str) -> None:
    world = world.with_options(alone_after_crashes=1, max_crashes=5)
    world.put_in("L", "a", "b")
    world.take_one("victim")
    assert world.silence() == 1
    assert world.state("a") is State.READY
    world.remove(act, "a")
    assert world.drain() == ([] if act == "purge" else ["b"])
    assert world.lane("L").state is LaneState.IDLE


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.needs(Feature.DELAY)
def test_one_that_was_delayed_is_taken_away_before_its_time(world: World, act: str) -> None:
    world.put_in("L", "late", delay_ms=1_000)
    world.put_in("L", "a")
    world.remove(act, "late")
    world.pass_time(1_100)
    assert world.drain() == ["a"]


def test_purging_what_is_ready_leaves_the_one_that_runs(world: World) -> None:
    world.put_in("L", *"abc")
    world.put_in("M", "m", "n")
    world.put("plain")
    lease = world.take_one()
    assert world.purge(State.READY) == 6 - 1
    assert world.counts() == {"active": 1}
    world.put_in("L", "d")
    assert world.take_ids() == (["d"] if lease.record.id != "a" else [])
    world.finish(lease)


def test_purging_reaches_lanes_whose_turn_it_is_not(world: World) -> None:
    for n in range(250):
        world.put_in(f"L{n}", f"{n}a", f"{n}b", f"{n}c")
    world.run(world.engine.lanes.park_lane("q", "L7"))
    held = len(world.take(100))
    assert world.purge(State.READY) == 750 - held
    assert world.counts() == {"active": held}
    assert world.resume_lane("L7")


def test_a_job_cancelled_and_retried_goes_to_the_end_of_its_lane(world: World) -> None:
    world.put_in("L", *"abc")
    for _ in range(2):
        assert world.cancel("a")
        assert world.retry("a")
    assert world.in_lane("L") == ["b", "c", "a"]
    assert world.drain() == ["b", "c", "a"]


@pytest.mark.needs(Feature.DELAY)
def test_a_retry_by_hand_of_one_that_waits_for_its_retry_keeps_its_place(world: World) -> None:
    world.put_in("L", "a", "b")
    assert world.settle(world.take_one(), Retried(BOOM, 60_000))
    assert world.retry("a")
    assert world.drain() == ["a", "b"]


@pytest.mark.parametrize("act", ACTS)
def test_very_many_that_were_taken_away_do_not_hide_those_behind_them(world: World, act: str) -> None:
    world.put_in("L", *(f"j{n}" for n in range(700)))
    world.put_in("M", "m1", "m2")
    for n in range(690):
        world.remove(act, f"j{n}")
    assert world.counts()["ready"] == 12
    assert world.in_lane("L") == [f"j{n}" for n in range(690, 700)]
    done: list[str] = []
    for _ in range(40):
        leases = world.take(1)
        world.finish(*leases)
        done += [lease.record.id for lease in leases]
    assert [id for id in done if id[0] == "j"] == [f"j{n}" for n in range(690, 700)]
    assert [id for id in done if id[0] == "m"] == ["m1", "m2"]


@pytest.mark.needs(Feature.CANCEL)
@pytest.mark.parametrize("place", ["parked", "blocked", "busy", "isolated"])
def test_a_lane_that_stands_still_can_be_emptied_at_once(world: World, place: str) -> None:
    world = world.with_options(alone_after_crashes=1, max_crashes=9)
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_in("L", *"abcd")
    world.put_in("M", "m")
    world.put("plain")
    lease = world.take_one()
    if lease.record.id == "plain":
        lease = world.take_one()
    assert lease.record.id == "a"
    if place == "parked":
        assert world.run(world.engine.lanes.park_lane("q", "L"))
    elif place == "blocked":
        assert world.settle(lease, Failed(BOOM))
    elif place == "isolated":
        world.silence()
        assert world.state("a") is State.READY
    count = world.cancel_all("L")
    assert count == CancelCount(4 if place == "isolated" else 3, int(place in ("parked", "busy")))
    world.leave()
    assert world.in_lane("L") == []
    assert sorted(world.drain()) == ["m", "plain"]
    assert world.counts() == ({"cancelled": 3, "failed": 1} if place == "blocked" else {"cancelled": 4})
    assert not world.discard("nobody")
    if place == "blocked":
        assert world.discard("a")
    if place == "parked":
        assert world.resume_lane("L")
    world.put_in("L", "e")
    assert world.drain() == ["e"]


# The same id again: the entry that stays behind in the list must not be taken for it, nor eat it.


LEVELS = pytest.mark.needs(Feature.PRIORITIES)
PLACES = {"same lane": Shape(lane="L"), "other lane": Shape(lane="M"), "no lane": Shape(), "level": Shape(priority=5)}
NAMES = [pytest.param(name, marks=LEVELS) if name == "level" else name for name in PLACES]


@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("then", NAMES)
@pytest.mark.parametrize("first", NAMES)
def test_the_same_id_again_runs_once_in_its_new_place(world: World, first: str, then: str, limit: int) -> None:
    def new(id: str, place: str, payload: bytes) -> None:
        assert world.put(id, shape=PLACES[place], own_id=True, payload=payload) == [True]

    new("x", first, b"old")
    new("y", first, b"p")
    assert world.discard("x")
    new("z", then, b"p")
    new("x", then, b"new")
    assert world.counts() == {"ready": 3}
    world.audit()
    ran = []
    for _ in range(8):
        for lease in world.take(limit):
            ran.append((lease.record.id, lease.record.payload))
            world.finish(lease)
    assert sorted(ran) == [("x", b"new"), ("y", b"p"), ("z", b"p")]
    assert ran.index(("z", b"p")) < ran.index(("x", b"new")), "it came after z"
    if first == then:
        assert [id for id, _ in ran] == ["y", "z", "x"]
    assert world.left() == set()


@pytest.mark.parametrize("then", NAMES)
def test_the_same_id_again_behind_one_that_runs(world: World, then: str) -> None:
    world.put_in("L", "head", "x", "y", own_id=True)
    head = world.take_one()
    assert world.discard("x")
    assert world.put("x", shape=PLACES[then], own_id=True) == [True]
    assert world.in_lane("L") == (["y", "x"] if then == "same lane" else ["y"])
    world.finish(head)
    done = world.drain()
    assert sorted(done) == ["x", "y"]
    if then == "same lane":
        assert done == ["y", "x"]


@pytest.mark.needs(Trait.SUSPECTS)
def test_the_same_id_again_while_a_suspect_is_held(world: World) -> None:
    """Suspects wait in a line of their own: what is left there of a discarded one is not taken for the new one."""
    world = world.with_options(alone_after_crashes=1, max_crashes=9)
    world.put("x", "s", own_id=True)
    world.take(2, "victim")
    assert world.silence() == 2
    suspect = world.take_one()
    assert suspect.record.id == "s"
    assert world.discard("x")
    world.put("x", own_id=True, payload=b"new")
    assert world.take_ids() == ["x"], "it has not crashed, so it need not wait"


# No key is left.


@pytest.mark.needs(Feature.LANE_POLICIES)
def test_an_idle_lane_leaves_no_key(world: World) -> None:
    world.put("plain")
    world.drain()
    assert world.left() == set()
    for n in range(300):
        world.put_in(f"L{n}", f"{n}a", f"{n}b", limit=1 + n % 3)
    leases = world.take(100)
    for n, lease in enumerate(leases):
        assert world.settle(lease, Retried(BOOM, 100 * (n % 3)))
    world.take(20, "dead")
    world.silence()
    while world.drain():
        pass
    assert world.left() == set()
    assert world.lanes(LaneState.READY) == world.lanes(LaneState.BUSY) == world.lanes(LaneState.PARKED) == []


@pytest.mark.needs(Feature.LANE_POLICIES)
@pytest.mark.parametrize("act", ["cancel", "discard"])
def test_a_lane_whose_jobs_were_all_taken_away_leaves_no_key(world: World, act: str) -> None:
    world.put_in("L", *"abc", limit=2)
    for id in "abc":
        world.remove(act, id)
    assert world.take() == []
    world.purge(State.CANCELLED)
    world.maintain()
    assert world.left() == set()
    assert world.lane("L").state is LaneState.IDLE
