"""What becomes of a lane when its head fails for good: skip, block, park; and lanes that are set aside by hand."""

from __future__ import annotations

import pytest

from tenure.core.engine import Alone, Feature
from tenure.core.job import Enqueued, State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Retried
from tenure.core.shape import Conflict, LaneFailure, LaneState, Until
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.LANE_POLICIES)

BAD_ENDS: dict[str, Outcome | None] = {"failed": Failed(BOOM), "broken": Broken(BOOM), "crashed": None}
LONG_MS = 400 * 86_400_000


def end(world: World, id: str, how: str = "failed") -> None:
    """The next job, which must be this one, ends for good."""
    outcome = BAD_ENDS[how]
    if outcome is None:
        for _ in range(world.options.max_crashes):
            assert world.take_ids(1, "victim") == [id]
            assert world.silence() == 1
    else:
        lease = world.take_one()
        assert lease.record.id == id
        assert world.settle(lease, outcome)
    assert world.state(id) is (State.FAILED if how == "failed" else State.BROKEN)


@pytest.mark.parametrize("how", BAD_ENDS)
def test_skip_lets_the_lane_go_on(world: World, how: str) -> None:
    world.put_in("L", "a", "b")
    end(world, "a", how)
    assert world.drain() == ["b"]
    assert world.lane("L").state is LaneState.IDLE


@pytest.mark.parametrize("how", BAD_ENDS)
def test_block_lets_the_lane_wait(world: World, how: str) -> None:
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_in("L", "a", "b")
    end(world, "a", how)
    world.put_in("M", "m")
    assert world.take_ids() == ["m"], "other lanes go on"
    view = world.lane("L")
    assert (view.state, view.waiting, view.busy, view.blocked_by) == (LaneState.BLOCKED, 1, 1, "a")
    assert world.lanes(LaneState.BLOCKED) == ["L"]
    assert "L" not in world.lanes(LaneState.BUSY)
    assert world.run(world.engine.queue("q")).blocked_lanes == 1
    world.put_in("L", "c")
    assert world.take() == []
    assert world.retry("a")
    assert (world.lane("L").state, world.lanes(LaneState.BLOCKED)) == (LaneState.READY, [])
    assert world.in_lane("L") == list("abc")
    world.leave()
    assert [id for id in world.drain() if id != "m"] == list("abc")


@pytest.mark.parametrize("how", BAD_ENDS)
@pytest.mark.parametrize("act", ["discard", "purge"])
def test_a_job_that_blocks_is_taken_away(world: World, how: str, act: str) -> None:
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_in("L", "a", "b")
    end(world, "a", how)
    world.remove(act, "a")
    assert world.drain() == ["b"]
    assert world.lane("L").state is LaneState.IDLE


@pytest.mark.parametrize("how", BAD_ENDS)
def test_what_blocks_a_lane_is_never_forgotten(world: World, how: str) -> None:
    world = world.with_options(failed_max=2, failed_ttl_ms=60_000)
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_in("L", "a", "b")
    end(world, "a", how)
    state = world.state("a")
    world.put(*(f"p{n}" for n in range(5)))
    outcome = Failed(BOOM) if how == "failed" else Broken(BOOM)
    world.settle_each(world.take(), *[outcome] * 5)
    assert world.state("a") is state
    assert world.counts()[str(state)] == 3, "it is not counted among those that are kept"
    world.pass_time(LONG_MS)
    world.maintain()
    assert world.take() == []
    assert world.state("a") is state
    assert world.ids(State(state or "")) == ["a"]
    assert world.retry("a")
    assert world.drain() == ["a", "b"]


def test_what_blocked_a_lane_is_forgotten_as_others_when_it_fails_again(world: World) -> None:
    world = world.with_options(failed_ttl_ms=60_000)
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_in("L", "a", "b")
    end(world, "a")
    world.configure(lane_failure=LaneFailure.SKIP)
    assert world.retry("a")
    end(world, "a")
    assert world.drain() == ["b"]
    world.pass_time(61_000)
    assert world.maintain().pruned == 1


@pytest.mark.parametrize("policy", LaneFailure)
def test_a_cancelled_job_stops_no_lane(world: World, policy: LaneFailure) -> None:
    world.configure(lane_failure=policy)
    world.put_in("L", *"abcd")
    assert world.settle(world.take_one(), Cancelled("no"))
    assert world.cancel("b")
    assert world.settle(world.take_one(), Completed(b"r"))
    assert world.drain() == ["d"]
    assert world.lane("L").state is LaneState.IDLE


@pytest.mark.parametrize("policy", LaneFailure)
def test_jobs_without_a_lane_fail_as_ever(world: World, policy: LaneFailure) -> None:
    world.configure(lane_failure=policy)
    world.put("a", "b")
    world.settle_each(world.take(1), Failed(BOOM))
    assert world.drain() == ["b"]
    assert world.view("a").expires_ms == (world.view("a").ended_ms or 0) + world.options.failed_ttl_ms


# Parked lanes.


@pytest.mark.parametrize("how", BAD_ENDS)
def test_park_sets_the_lane_aside(world: World, how: str) -> None:
    world.configure(lane_failure=LaneFailure.PARK)
    world.put_in("L", "a", "b")
    end(world, "a", how)
    world.put_in("M", "m")
    world.put_in("L", "c")
    assert world.take_ids() == ["m"]
    view = world.lane("L")
    assert (view.state, view.waiting, view.busy, view.parked_by) == (LaneState.PARKED, 2, 0, "a")
    assert view.parked_ms == world.view("a").ended_ms
    assert world.lanes(LaneState.PARKED) == ["L"]
    assert world.run(world.engine.queue("q")).parked_lanes == 1
    assert world.in_lane("L") == ["b", "c"]
    assert world.counts()["ready"] == 2
    assert world.resume_lane("L")
    assert not world.resume_lane("L")
    assert world.run(world.engine.queue("q")).parked_lanes == 0
    assert world.drain() == ["b", "c"]


def test_what_parked_a_lane_is_kept_no_longer_than_others(world: World) -> None:
    world = world.with_options(failed_ttl_ms=60_000)
    world.configure(lane_failure=LaneFailure.PARK)
    world.put_in("L", "a", "b")
    end(world, "a")
    world.pass_time(61_000)
    world.maintain()
    assert world.job("a") is None
    assert world.take() == []
    assert world.resume_lane("L")
    assert world.drain() == ["b"]


def test_the_job_that_parked_its_lane_comes_first_when_it_is_retried(world: World) -> None:
    world.configure(lane_failure=LaneFailure.PARK)
    world.put_in("L", *"abc")
    end(world, "a")
    assert world.retry("a")
    assert world.in_lane("L") == list("abc")
    assert world.take() == [], "the lane is resumed by hand"
    assert world.resume_lane("L")
    assert world.drain() == list("abc")


def test_a_parked_lane_stays_so_when_the_job_that_parked_it_is_discarded(world: World) -> None:
    world.configure(lane_failure=LaneFailure.PARK)
    world.put_in("L", "a", "b")
    end(world, "a")
    assert world.discard("a")
    assert world.take() == []
    assert world.lanes(LaneState.PARKED) == ["L"]
    assert world.resume_lane("L")
    assert world.drain() == ["b"]


def test_a_lane_may_be_set_aside_by_hand(world: World) -> None:
    world.put_in("L", *"abc")
    lease = world.take_one()
    assert world.run(world.engine.lanes.park_lane("q", "L"))
    assert not world.run(world.engine.lanes.park_lane("q", "L"))
    view = world.lane("L")
    assert (view.state, view.waiting, view.busy, view.parked_by) == (LaneState.PARKED, 2, 1, None)
    world.finish(lease)
    assert world.take() == []
    assert world.resume_lane("L")
    assert world.drain() == ["b", "c"]


def test_a_lane_may_be_set_aside_before_it_has_jobs(world: World) -> None:
    assert world.run(world.engine.lanes.park_lane("q", "L"))
    world.put_in("L", "a")
    world.put("plain")
    assert world.take_ids() == ["plain"]
    assert world.resume_lane("L")
    assert world.take_ids() == ["a"]


@pytest.mark.parametrize("how", ["left", "silent", "retried", "retried later"])
def test_what_comes_back_to_a_parked_lane_waits_at_its_head(world: World, how: str) -> None:
    world.put_in("L", "a", "b")
    lease = world.take_one()
    assert world.run(world.engine.lanes.park_lane("q", "L"))
    if how == "silent":
        world.silence()
    elif how == "left":
        world.leave()
    else:
        world.settle(lease, Retried(BOOM, 0 if how == "retried" else 1_000))
        world.pass_time(1_100)
    assert world.take() == []
    assert world.in_lane("L") == ["a", "b"]
    assert world.resume_lane("L")
    assert world.drain() == ["a", "b"]


def test_resuming_wakes(world: World) -> None:
    world.put_in("L", "a")
    world.run(world.engine.lanes.park_lane("q", "L"))
    assert world.take() == []
    assert world.wait(["q"], 20) is None
    world.resume_lane("L")
    assert world.wait(["q"], 5_000) == "q"


@pytest.mark.parametrize("act", ["cancel", "discard"])
def test_a_parked_lane_may_be_emptied(world: World, act: str) -> None:
    world.run(world.engine.lanes.park_lane("q", "L"))
    world.put_in("L", "a", "b")
    for id in "ab":
        world.remove(act, id)
    assert world.in_lane("L") == []
    world.put_in("L", "c")
    assert world.resume_lane("L")
    assert world.drain() == ["c"]


def test_many_parked_lanes_are_listed_page_by_page(world: World) -> None:
    names = [f"L{n:03}" for n in range(250)]
    for name in names:
        world.run(world.engine.lanes.park_lane("q", name))
    assert sorted(set(world.lanes(LaneState.PARKED, limit=20))) == names
    assert world.run(world.engine.queue("q")).parked_lanes == 250
    for name in names:
        assert world.resume_lane(name)
    assert world.left() == set()


# The policy is changed while lanes stand still.


def test_a_new_policy_is_for_failures_to_come(world: World) -> None:
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_in("A", "a1", "a2")
    end(world, "a1")
    world.configure(lane_failure=LaneFailure.PARK)
    world.put_in("B", "b1", "b2")
    end(world, "b1")
    world.configure(lane_failure=LaneFailure.SKIP)
    world.put_in("C", "c1", "c2")
    end(world, "c1")
    assert world.drain() == ["c2"]
    assert (world.lane("A").state, world.lane("B").state) == (LaneState.BLOCKED, LaneState.PARKED)
    assert world.discard("a1")
    assert world.resume_lane("B")
    assert sorted(world.drain()) == ["a2", "b2"]


def test_a_job_that_failed_before_does_not_block(world: World) -> None:
    world.put_in("L", *"abc")
    end(world, "a")
    world.configure(lane_failure=LaneFailure.BLOCK)
    assert world.drain() == ["b", "c"]
    assert world.retry("a")
    assert world.drain() == ["a"]


@pytest.mark.needs(Feature.UNIQUE_KEYS)
@pytest.mark.parametrize("how", BAD_ENDS)
def test_a_job_that_blocks_keeps_its_unique_key(world: World, how: str) -> None:
    """Else a job behind it could take the key: it could not be retried then, and the lane would stand still."""
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_only("a", lane="L")
    end(world, "a", how)
    assert world.put_only("b", lane="L") == Enqueued("a", False, Conflict.REJECT)
    assert world.put_only("b", lane="L", conflict=Conflict.EXISTING) == Enqueued("a", False, Conflict.EXISTING)
    world.put_in("L", "c")
    assert world.retry("a")
    assert world.drain() == ["a", "c"]
    assert world.is_free()


@pytest.mark.needs(Feature.UNIQUE_KEYS)
@pytest.mark.parametrize("act", ["discard", "purge", "retry"])
def test_what_follows_a_job_that_blocks_waits_for_the_end_of_that(world: World, act: str) -> None:
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_only("a", lane="L")
    lease = world.take_one()
    assert world.put_only("b", lane="L", conflict=Conflict.RERUN).created
    assert world.settle(lease, Failed(BOOM))
    assert world.take() == []
    if act == "retry":
        assert world.retry("a")
        assert world.drain() == ["a", "b"]
    else:
        world.remove(act, "a")
        assert world.drain() == ["b"]
    assert world.is_free()


def test_of_several_that_block_the_next_is_shown_when_one_goes(world: World) -> None:
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_in("L", *"abcde", limit=3)
    world.settle_each(world.take(2), Failed(BOOM), Failed(BOOM))
    assert world.take_ids() == ["c"], "one place is left"
    view = world.lane("L")
    assert (view.state, view.busy, view.blocked_by) == (LaneState.BLOCKED, 3, "a")
    world.remove("discard", "a")
    assert world.lane("L").blocked_by == "b"
    assert world.take_ids() == ["d"]
    assert world.retry("b")
    view = world.lane("L")
    assert (view.state, view.waiting, view.blocked_by) == (LaneState.READY, 2, None)


@pytest.mark.needs(Feature.UNIQUE_KEYS)
@pytest.mark.parametrize("until", [Until.STARTED, Until.WINDOW])
def test_a_job_that_blocks_runs_again_also_when_one_behind_it_has_its_key(world: World, until: Until) -> None:
    """Its own key was over when it started, or in time."""
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_only("a", until=until, window_ms=1_000, lane="L")
    lease = world.take_one()
    world.pass_time(1_001)
    assert world.put_only("b", until=until, window_ms=60_000, lane="L").created
    assert world.settle(lease, Failed(BOOM))
    assert world.take() == []
    assert world.retry("a")
    assert world.put_only("c", until=until, window_ms=60_000, lane="L") == Enqueued("b", False, Conflict.REJECT)
    assert world.drain() == ["a", "b"]


@pytest.mark.parametrize("crashed", [False, True])
def test_nothing_of_a_parked_lane_is_claimed_also_after_crashes(world: World, crashed: bool) -> None:
    """A job that crashed often waits apart from its lane."""
    world = world.with_options(alone_after_crashes=1)
    world.put("suspect")
    world.put_in("L", "a", "b")
    world.take(2, "dead")
    assert world.silence() == 2
    held = world.take(10, "w1") if crashed else []
    assert not crashed or world.take(10, "w1", alone=Alone.NO) == []  # it runs a job alone
    assert world.run(world.engine.lanes.park_lane("q", "L"))
    held += world.take(10, "w2")
    assert [lease.record.id for lease in held] == ["suspect"]
    world.finish(*held)
    assert world.take_ids(10, "w3") == []
    assert world.resume_lane("L")
    assert world.take_ids(10, "w4") == ["a"]


def test_a_lane_is_not_parked_by_a_job_that_is_gone(world: World) -> None:
    world.configure(lane_failure=LaneFailure.PARK)
    world.put_in("L", "a", "b")
    end(world, "a")
    assert world.lane("L").parked_by == "a"
    assert world.discard("a")
    view = world.lane("L")
    assert (view.state, view.parked_by) == (LaneState.PARKED, None)
    assert view.parked_ms is not None


def test_a_lane_of_several_that_has_lost_a_place_is_blocked_though_it_goes_on(world: World) -> None:
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_in("L", "a", limit=2)
    end(world, "a", "failed")
    view = world.lane("L")
    assert (view.state, view.waiting, view.busy, view.blocked_by) == (LaneState.BLOCKED, 0, 1, "a")
    world.put_in("L", "b", "c", limit=2)
    assert world.take_ids() == ["b"]
    assert world.lane("L").state is LaneState.BLOCKED
    assert world.lanes(LaneState.BLOCKED) == ["L"]
    assert world.lanes(LaneState.BUSY) == world.lanes(LaneState.READY) == []
    assert world.discard("a")
    assert (world.lane("L").state, world.lanes(LaneState.READY)) == (LaneState.READY, ["L"])
    assert world.lanes(LaneState.BLOCKED) == []


def test_a_lane_of_several_is_busy_while_one_job_of_it_is_held_and_none_waits(world: World) -> None:
    world.put_in("L", "a", limit=3)
    (lease,) = world.take()
    assert (world.lane("L").state, world.lanes(LaneState.BUSY)) == (LaneState.BUSY, ["L"])
    world.finish(lease)
    assert world.lane("L").state is LaneState.IDLE
