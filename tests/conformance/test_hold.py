"""Between the calls of one `cancel_all`, `cancel_lane` or `purge`, none of the jobs that it is to remove starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.job import Lease, State
from tenure.core.outcome import Retried
from tenure.core.shape import CancelCount
from tenure.engines.kit.config import HOLD_MS
from tests.conformance.test_cancel_running import act_after
from tests.support.stepping import Session, send_with, step, stop_after
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.LANES, Trait.RETRY_DELAY)

LANES = [f"L{n}" for n in range(150)]
"""More than one call cancels."""


def fill(world: World) -> None:
    """In each lane two jobs wait behind one that waits for its retry."""
    for lane in LANES:
        world.put_in(lane, f"{lane}.head", f"{lane}.1", f"{lane}.2")
    for _ in range(2):
        leases = world.take(100)
        world.settle_each(leases, *[Retried(BOOM, 60_000) for _ in leases])
    assert world.counts() == {"scheduled": len(LANES), "ready": 2 * len(LANES)}


def claim_between(world: World, claimed: list[str]) -> Callable[[int], object]:
    """An idle worker looks after each call."""
    return lambda _: claimed.extend(world.take_ids(100, "idle"))


def heads_of(world: World) -> None:
    world.put_in("L", "head", "next", "last")
    world.settle(world.take_one(), Retried(BOOM, 60_000))


@pytest.mark.parametrize("lane", [None, "L0"])
def test_no_job_starts_while_those_that_wait_are_cancelled(world: World, lane: str | None) -> None:
    fill(world)
    claimed: list[str] = []
    steps = world.engine.cancel_all("q", lane)
    count = step(steps, Session("s"), send_with(world.driver), act_after(claim_between(world, claimed)))
    assert claimed == []
    assert count == CancelCount(3 * len(LANES) if lane is None else 3, 0)
    assert world.take() == []
    assert world.counts().get("ready", 0) == (0 if lane is None else 2 * (len(LANES) - 1))


@pytest.mark.parametrize("lane", [None, "L"])
def test_jobs_enqueued_meanwhile_are_cancelled_or_run_and_none_is_lost(world: World, lane: str | None) -> None:
    heads_of(world)
    added: list[str] = []

    def enqueue(number: int) -> None:
        world.put_in("L", f"new{number}")
        world.put(f"free{number}")
        added.extend((f"new{number}", f"free{number}"))

    step(world.engine.cancel_all("q", lane), Session("s"), send_with(world.driver), act_after(enqueue))
    assert [world.state(id) for id in ("head", "next", "last")] == [State.CANCELLED] * 3
    ran = world.drain()
    assert all((id in ran) != (world.state(id) is State.CANCELLED) for id in added)
    assert [id for id in ran if id.startswith("new")] == [id for id in added if id in ran and id.startswith("new")]


def test_plain_jobs_are_held_too(world: World) -> None:
    world.put("before")
    assert world.drain() == ["before"]
    stop_after(1, world.engine.cancel_all("q"), world.driver)
    world.put("a")
    assert world.take() == []
    world.pass_time(HOLD_MS + 50)
    world.maintain()
    assert world.drain() == ["a"]


@pytest.mark.parametrize("lane", [None, "L"])
@pytest.mark.parametrize("calls", [1, 3, 6])
def test_a_caller_that_dies_stops_nothing_for_long(world: World, lane: str | None, calls: int) -> None:
    world.put_in("L", "a")
    stop_after(calls, world.engine.cancel_all("q", lane), world.driver)
    world.put_in("L", "b")
    assert world.take() == []
    world.pass_time(HOLD_MS + 50)
    world.maintain()
    assert world.drain() in (["a", "b"], ["b"])


def test_a_clock_that_is_set_back_makes_no_hold_longer(world: World) -> None:
    stop_after(1, world.engine.cancel_all("q", "L"), world.driver)
    stop_after(1, world.engine.cancel_all("q"), world.driver)
    world.pass_time(-3_600_000)
    world.put_in("L", "a")
    world.maintain()
    assert world.drain() == ["a"]


@pytest.mark.parametrize("lane", [None, "L"])
def test_a_caller_that_was_stopped_for_long_looks_again(world: World, lane: str | None) -> None:
    """Its hold was over: what was claimed meanwhile is asked for, what waits again is cancelled."""
    world.put_in("L", "a", "b", "c", limit=3)
    taken: list[Lease] = []

    def sleep(number: int) -> None:
        if number == 4:
            world.pass_time(HOLD_MS + 50)
            world.maintain()
            taken.extend(world.take(2))

    step(world.engine.cancel_all("q", lane), Session("s"), send_with(world.driver), act_after(sleep))
    assert len(taken) == 2
    assert all(world.view(lease.record.id).cancelling is not None for lease in taken)
    world.leave()
    assert world.counts() == {"cancelled": 3}


def test_two_callers_at_one_time(world: World) -> None:
    fill(world)
    claimed: list[str] = []

    def other(number: int) -> None:
        if number == 5:
            world.cancel_all()
        claimed.extend(world.take_ids(100, "idle"))

    step(world.engine.cancel_all("q"), Session("s"), send_with(world.driver), act_after(other))
    assert claimed == []
    assert world.counts() == {"cancelled": 3 * len(LANES)}


def test_other_lanes_go_on_while_one_is_cancelled(world: World) -> None:
    heads_of(world)
    world.put_in("M", *(f"m{n}" for n in range(3)))
    claimed: list[str] = []

    def work(_: int) -> None:
        leases = world.take(10, "idle")
        claimed.extend(lease.record.id for lease in leases)
        world.finish(*leases)

    step(world.engine.cancel_all("q", "L"), Session("s"), send_with(world.driver), act_after(work))
    assert claimed == ["m0", "m1", "m2"]


def test_a_parked_lane_stays_parked(world: World) -> None:
    heads_of(world)
    assert world.run(world.engine.lanes.park_lane("q", "L"))
    assert world.cancel_all("L") == CancelCount(3, 0)
    world.put_in("L", "new")
    assert world.take() == []
    assert world.resume_lane("L")
    assert world.drain() == ["new"]


def test_an_idle_worker_is_woken_when_the_hold_ends(world: World) -> None:
    def look(number: int) -> None:
        if number == 2:  # 0 asks for the queue's partitions
            world.put("a")
            assert world.take() == []

    step(world.engine.purge("q", State.SCHEDULED), Session("s"), send_with(world.driver), act_after(look))
    assert world.wait(["q"], 1_000) == "q"
    assert world.take_ids() == ["a"]
