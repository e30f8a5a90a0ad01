"""Corners of lanes and unique keys that only come about when several things meet."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.job import State
from tenure.core.outcome import Completed, Failed, Retried
from tenure.core.shape import Conflict, LaneFailure, Until
from tenure.core.steps import Command, Invoke, Reply
from tenure.engines.kit.config import PRIORITY_TURN
from tests.support.stepping import Send, Session, send_with, step
from tests.support.world import BOOM, World


@pytest.mark.needs(Trait.SUSPECTS, Trait.RETRY_DELAY, Feature.LANES)
def test_a_batch_ends_before_a_suspect(world: World) -> None:
    world = world.with_options(alone_after_crashes=1, max_crashes=9)
    world.put_in("L", "a", "b", "c")
    world.take(2, "victim", of_lane=2)
    assert world.silence() == 2
    assert world.settle(world.take_one("w1"), Retried(BOOM, 1_000))
    assert world.retry("a"), "its counts start again: it is no suspect any more"
    assert world.settle(world.take_one("w2"), Retried(BOOM, 1_000))
    world.pass_time(1_100)
    first = world.take(10, of_lane=3)
    assert [lease.record.id for lease in first] == ["a"]
    world.finish(*first)
    second = world.take(10, of_lane=3)
    assert [lease.record.id for lease in second] == ["b"]
    world.finish(*second)
    assert world.drain() == ["c"]


@pytest.mark.needs(Trait.SUSPECTS, Trait.SEPARATE_ENDS, Feature.LANES)
def test_what_crashed_comes_back_behind_what_came_back_before_it(world: World) -> None:
    world.put_in("L", "a", "b", "c", "d")
    done, again, _ = world.take(3, of_lane=3)
    world.settle_each([done, again], Completed(b"", 0), Retried(BOOM))
    assert world.silence() == 1
    assert world.in_lane("L") == ["b", "c", "d"]


@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_the_end_of_a_window_does_not_lose_who_waits_to_run_after(world: World) -> None:
    world.put_only("first", until=Until.WINDOW, window_ms=1_000)
    lease = world.take_one()
    assert world.put_only("after", conflict=Conflict.RERUN).created
    world.pass_time(2_000)
    world.beat("w", [lease])
    world.maintain()
    assert world.take() == []
    world.finish(lease)
    assert world.drain() == ["after"]
    assert world.is_free()


@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_a_window_that_begins_after_another_leaves_no_key(world: World) -> None:
    world.put_only("first")
    lease = world.take_one()
    assert world.put_only("after", until=Until.WINDOW, window_ms=1_000, conflict=Conflict.RERUN).created
    world.finish(lease)
    assert world.drain() == ["after"]
    world.pass_time(2_000)
    world.maintain()
    assert world.left() == set()


@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_a_purge_of_scheduled_jobs_takes_those_that_wait_to_run_after(world: World) -> None:
    world.put_only("first")
    lease = world.take_one()
    world.put_only("after", conflict=Conflict.RERUN)
    assert world.settle(lease, Retried(BOOM, 5_000))
    assert world.counts() == {"scheduled": 2}
    assert world.purge(State.SCHEDULED) == 2
    assert world.counts() == {}


@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_jobs_that_are_due_come_in_the_order_of_their_times_whatever_their_shape(world: World) -> None:
    world.put("a", delay_ms=1_000)
    world.put_only("b", delay_ms=2_000)
    world.put("c", delay_ms=3_000)
    world.pass_time(5_000)
    assert world.take_ids() == ["a", "b", "c"]


@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_jobs_come_back_in_the_order_of_their_claims_whatever_their_shape(world: World) -> None:
    world.put("a")
    world.put_only("b")
    world.put("c")
    assert world.take_ids() == ["a", "b", "c"]
    assert world.leave() == 3
    assert world.take_ids() == ["a", "b", "c"]


@pytest.mark.needs(Feature.LANES)
def test_lanes_that_a_batch_left_no_room_for_keep_their_turns(world: World) -> None:
    for lane in "ABCD":
        world.put_in(lane, *(f"{lane}{n}" for n in range(4)))
    for lane in "ABCD":
        assert world.take_ids(4, of_lane=4) == [f"{lane}{n}" for n in range(4)]
        world.audit()


@pytest.mark.parametrize("act", ["pause", "park"])
@pytest.mark.needs(Feature.PAUSE, Feature.LANES)
def test_a_copy_of_a_call_does_not_undo_what_somebody_else_did_since(world: World, act: str) -> None:
    world.put_in("L", "a")
    calls: list[Command | Invoke] = []

    def keep(number: int, call: Command | Invoke, send: Send) -> Reply:
        calls.append(call)
        return send(call)

    engine, send = world.engine, send_with(world.driver)
    there = engine.settings.configure("q", paused=True) if act == "pause" else engine.lanes.park_lane("q", "L")
    step(there, Session("s"), send, keep)
    assert world.take() == []
    if act == "pause":
        assert not world.configure(paused=False).paused
    else:
        assert world.resume_lane("L")
    send(calls[0])
    assert world.take_ids() == ["a"]


@pytest.mark.needs(Feature.LANE_POLICIES)
@pytest.mark.needs(Feature.LANES)
def test_a_lane_stays_parked_by_whom_it_was_first(world: World) -> None:
    world.configure(lane_failure=LaneFailure.PARK)
    world.put_in("L", "a", "b", "c", limit=2)
    first, second = world.take(2)
    for lease in (first, second):
        assert world.settle(lease, Failed(BOOM))
        assert world.lane("L").parked_by == "a"
    assert world.resume_lane("L")
    assert world.drain() == ["c"]


@pytest.mark.needs(Feature.PRIORITIES)
def test_every_lower_priority_has_its_turn(world: World) -> None:
    for level in (2, 1, -1):
        world.put_at(level, *(f"{level}/{n}" for n in range(60)))
    claims = [world.take_ids(1) for _ in range(4 * PRIORITY_TURN)]
    lower = [ids[0].partition("/")[0] for ids in claims if not ids[0].startswith("2/")]
    assert lower == ["1", "-1", "1", "-1"]
