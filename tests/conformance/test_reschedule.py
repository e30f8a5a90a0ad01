"""Jobs that wait get another time or priority; they keep the rest, and their place where their lane waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument
from tenure.core.job import State
from tenure.core.outcome import Retried
from tenure.core.rates import LimitRule
from tenure.core.shape import Conflict, Shape
from tenure.core.steps import Command, Invoke, Reply
from tests.conformance.test_cancel_running import act_after
from tests.conformance.test_inspect import fill, states
from tests.support.stepping import Send, Session, send_with, step
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.DELAY, Feature.PRIORITIES)

WAITING = {State.READY, State.SCHEDULED, State.UNROUTABLE}
HOUR = 3_600_000


def reschedule(world: World, id: str, **change: Any) -> bool:
    done: bool = world.run(world.engine.delays.reschedule("q", id, **change))
    world.audit()
    return done


@pytest.mark.parametrize("state", states())
def test_a_job_that_waits_is_due_at_its_new_time(world: World, state: State) -> None:
    id = fill(world, state, 2)[0]
    before = world.dump()
    can = state in WAITING
    assert reschedule(world, id, delay_ms=HOUR) is can
    if not can:
        assert world.dump() == before
        return
    assert world.view(id).state is State.SCHEDULED
    counts = world.counts()
    assert sum(counts.values()) == 2
    world.pass_time(HOUR - 1_000)
    assert id not in world.take_ids()
    world.pass_time(2_000)
    assert world.take_ids() == [id]


@pytest.mark.parametrize("state", states(WAITING))
def test_a_time_that_is_over_means_now(world: World, state: State) -> None:
    ids = fill(world, state, 2)
    assert reschedule(world, ids[1], run_at_ms=1)
    found = world.take_ids()
    assert ids[1] in found
    assert found == (ids if state is State.READY else [ids[1]])


def test_an_earlier_time_wakes_a_worker(world: World) -> None:
    world.put("a", delay_ms=HOUR)
    assert world.lease().leases == ()
    assert reschedule(world, "a", delay_ms=0)
    assert world.wait(["q"], 60_000) == "q"
    assert world.take_ids() == ["a"]


def test_there_and_back_leaves_the_order_of_the_others(world: World) -> None:
    world.put("a", "b", "c")
    for _ in range(3):
        assert reschedule(world, "b", delay_ms=HOUR)
        assert reschedule(world, "b", delay_ms=0)
        world.maintain()
    assert world.take_ids() == ["a", "c", "b"]
    assert world.counts() == {"active": 3}


@pytest.mark.parametrize("delayed", [False, True])
def test_another_priority(world: World, delayed: bool) -> None:
    world.put("a", "b")
    world.put("c", delay_ms=HOUR if delayed else 0)
    world.put_at(5, "d")
    assert reschedule(world, "c", priority=7)
    assert world.view("c").shape.priority == 7
    assert world.view("c").state is (State.SCHEDULED if delayed else State.READY)
    assert reschedule(world, "d", priority=0)
    assert world.view("d").shape.priority == 0
    world.pass_time(HOUR + 1_000)
    world.maintain()
    assert world.take_ids() == ["c", "a", "b", "d"]


def test_a_time_and_a_priority_together(world: World) -> None:
    world.put("a", task="t", timeout_ms=5_000, retries=2, payload=b"more\nlines")
    before = world.view("a")
    assert reschedule(world, "a", delay_ms=HOUR, priority=-3)
    view = world.view("a")
    assert (view.state, view.shape.priority, view.payload) == (State.SCHEDULED, -3, b"more\nlines")
    assert (view.task, view.timeout_ms, view.enqueued_ms) == ("t", before.timeout_ms, before.enqueued_ms)
    assert (view.shape.lane, world.counts()) == (None, {"scheduled": 1})
    world.pass_time(HOUR + 1_000)
    (lease,) = world.take()
    assert lease.record.retries == 2


@pytest.mark.parametrize(
    "shape",
    [Shape(lane="l"), Shape(limits=(LimitRule("gpu", concurrency=1),)), Shape(share="a")],
    ids=["lane", "limits", "share"],
)
def test_what_runs_in_its_order_has_no_priority(world: World, shape: Shape) -> None:
    world.put("a", shape=shape)
    before = world.dump()
    with pytest.raises(InvalidArgument, match="priority must be 0 for a job with a lane, limits or a share, got 5"):
        reschedule(world, "a", priority=5, delay_ms=HOUR)
    assert world.dump() == before
    assert reschedule(world, "a", priority=0, delay_ms=HOUR)
    assert world.view("a").shape == shape
    world.pass_time(HOUR + 1_000)
    assert world.take_ids() == ["a"]


@pytest.mark.needs(Feature.LANES)
def test_a_ready_job_of_a_lane_lets_those_behind_it_pass(world: World) -> None:
    world.put_in("l", "a", "b", "c")
    assert reschedule(world, "a", delay_ms=HOUR)
    world.finish(*world.take())
    world.pass_time(HOUR + 1_000)
    assert [world.take_ids(), world.take_ids()] == [["c"], []]


@pytest.mark.needs(Feature.LANES, Feature.RETRIES)
def test_a_lane_waits_for_its_job_between_two_attempts(world: World) -> None:
    world.put_in("l", "a", "b")
    world.settle(world.take_one(), Retried(BOOM, 60_000))
    assert reschedule(world, "a", delay_ms=HOUR)
    world.pass_time(120_000)
    assert world.take_ids() == []
    assert reschedule(world, "a", delay_ms=0)
    (lease,) = world.take()
    assert (lease.record.id, lease.failures) == ("a", 1)


@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_a_unique_key_stays_and_a_rerun_waits_for_the_other_job(world: World) -> None:
    world.put_only("a")
    assert reschedule(world, "a", delay_ms=HOUR)
    assert world.put_only("b").conflict is Conflict.REJECT
    assert reschedule(world, "a", delay_ms=0)
    assert world.take_ids() == ["a"]
    assert world.put_only("c", conflict=Conflict.RERUN).created
    assert not reschedule(world, "c", delay_ms=0)


def test_a_call_that_is_sent_again_changes_nothing_more(world: World) -> None:
    world.put("a")

    def twice(number: int, call: Command | Invoke, send: Send) -> Reply:
        reply = send(call)
        world.remove("discard", "a")
        world.put("a")
        assert send(call) == reply
        return reply

    steps = world.engine.delays.reschedule("q", "a", delay_ms=HOUR)
    assert step(steps, Session("s"), send_with(world.driver), twice)
    assert world.view("a").state is State.READY


@pytest.mark.parametrize("lane", [None, "l"])
@pytest.mark.parametrize("calls", range(1, 6))
def test_a_cancel_of_many_misses_no_job_that_is_rescheduled_meanwhile(
    world: World, lane: str | None, calls: int
) -> None:
    world.put_in("l", "a", "b")

    def postpone(number: int) -> None:
        for id in "ab" if number == calls else "":
            world.run(world.engine.delays.reschedule("q", id, delay_ms=HOUR))

    steps = world.engine.cancel_all("q", lane)
    assert step(steps, Session("s"), send_with(world.driver), act_after(postpone)).cancelled == 2
    assert world.counts() == {"cancelled": 2}
    assert not reschedule(world, "a", delay_ms=0)


def test_an_unknown_job(world: World) -> None:
    assert not reschedule(world, "unknown", delay_ms=0)
