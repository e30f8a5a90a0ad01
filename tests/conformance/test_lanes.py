"""Lanes: one job at a time in the order of enqueue, whatever becomes of the one that runs."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Completed, Crashed, Failed, Released, Retried, Unroutable
from tenure.core.shape import LaneState, Shape
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.LANES)

DAY = 86_400_000


def test_one_at_a_time_in_their_order(world: World) -> None:
    world.put_in("L", "a", "b")
    world.put_in("L", "c")
    for id in "abc":
        (lease,) = world.take(10)
        assert lease.record.id == id
        assert world.take(10, "other") == []
        world.finish(lease)
    assert world.take() == []
    assert world.counts() == {}


def test_lanes_run_beside_each_other(world: World) -> None:
    world.put_in("A", "a1", "a2")
    world.put_in("B", "b1", "b2")
    assert world.take_ids() == ["a1", "b1"]
    assert world.counts() == {"active": 2, "ready": 2}


@pytest.mark.needs(Feature.LANE_POLICIES)
def test_a_job_says_its_lane(world: World) -> None:
    world.put_in("user:42 {é}\n", "a", limit=3)
    shape = Shape(lane="user:42 {é}\n", lane_limit=3)
    assert world.view("a").shape == shape
    lease = world.take_one()
    assert lease.record.shape == shape
    assert world.view("a").shape == shape
    world.settle(lease, Completed(b"", 60_000))
    assert world.view("a").shape == shape
    world.purge(State.COMPLETED)


def test_the_same_lane_of_another_queue_is_another(world: World) -> None:
    world.put_in("L", "a")
    world.put_in("L", "b", queue="r")
    assert world.take_ids(10, queues=("q", "r")) == ["a", "b"]


def test_in_bulk_every_lane_keeps_its_order(world: World) -> None:
    lanes = ["A", "B", None, "C"]
    jobs = [NewJob("q", f"{n:04}", b"", shape=Shape(lane=lanes[n % 4])) for n in range(1_200)]
    assert all(answer.created for answer in world.enqueue(jobs))
    assert world.counts() == {"ready": 1_200}
    done = world.drain()
    for n in range(4):
        assert [id for id in done if int(id) % 4 == n] == [job.id for job in jobs[n::4]]
    assert len(done) == 1_200


@pytest.mark.needs(Trait.UNLANED)
def test_what_is_in_a_lane_can_be_looked_at(world: World) -> None:
    world.put_in("L", *"abcd")
    world.put("plain")
    assert world.in_lane("L") == list("abcd")
    assert world.ids(State.READY) == ["plain", "a"], "of a lane, only the next is among the ready ones"
    view = world.lane("L")
    assert (view.name, view.state, view.waiting, view.busy, view.limit) == ("L", LaneState.READY, 4, 0, 1)
    world.put_in("M", "m")
    assert world.lanes(LaneState.READY) == ["L", "M"]
    world.take(3)
    assert world.lanes(LaneState.READY) == []
    assert sorted(world.lanes(LaneState.BUSY)) == ["L", "M"]
    assert world.in_lane("L") == list("bcd")
    view = world.lane("L")
    assert (view.state, view.waiting, view.busy) == (LaneState.BUSY, 3, 1)
    page = world.run(world.engine.page("q", State.READY, 1, 1, lane="L"))
    assert ([job.id for job in page.jobs], page.total) == (["c"], 3)
    assert world.lane("nobody").state is LaneState.IDLE


def test_many_lanes_are_listed_page_by_page(world: World) -> None:
    names = [f"L{n:03}" for n in range(250)]
    for name in names:
        world.put_in(name, f"{name}a", f"{name}b")
    assert world.lanes(LaneState.READY, limit=40) == names
    held = 0
    while taken := len(world.take(250)):
        held += taken
    assert held == 250, "a claim may answer less than it could, but no lane is forgotten"
    assert sorted(set(world.lanes(LaneState.BUSY, limit=40))) == names


# The lane waits for the one that is out of line.


@pytest.mark.needs(Trait.RETRY_DELAY)
@pytest.mark.parametrize("delay_ms", [0, 1_000, DAY])
def test_a_retry_keeps_its_place(world: World, delay_ms: int) -> None:
    world.put_in("L", "a", "b")
    for failures in (1, 2):
        assert world.settle(world.take_one(), Retried(BOOM, delay_ms))
        if delay_ms:
            assert world.take() == []
            assert world.lane("L").state is LaneState.BUSY
            world.pass_time(delay_ms + 50)
        assert world.view("a").failures == failures
    world.finish(*world.take())
    assert world.drain() == ["b"]


@pytest.mark.parametrize("how", ["released", "silent", "left", "given up", "by hand"])
def test_who_comes_back_is_the_next_of_its_lane(world: World, how: str) -> None:
    world.put_in("L", *"abc", timeout_ms=1_000)
    (lease,) = world.take(1, lease_ms=5_000 if how == "by hand" else None)
    come_back(world, lease, how)
    assert world.in_lane("L") == list("abc")
    assert world.take_ids(10, "other") == ["a"]
    assert world.take() == []
    assert not world.settle(lease), "whoever lost it cannot end it"
    assert world.take() == [], "nor free its lane"
    world.leave("other")
    assert world.drain() == list("abc")


def come_back(world: World, lease: Lease, how: str) -> None:
    if how == "released":
        assert world.settle(lease, Released())
    elif how in ("silent", "by hand"):
        assert world.silence() == 1
    elif how == "left":
        assert world.leave() == 1
    else:
        assert world.settle(lease, Crashed())
        assert world.view("a").crashes == 1


@pytest.mark.needs(Feature.EXTEND)
def test_a_lease_that_was_extended_still_knows_its_lane(world: World) -> None:
    world.put_in("L", "a", "b")
    lease = world.take_one()
    assert world.run(world.engine.extend(lease, 60_000))
    assert world.take() == []
    assert world.silence() == 1
    assert world.in_lane("L") == ["a", "b"]
    lease = world.take_one()
    assert world.run(world.engine.extend(lease, 60_000))
    world.finish(lease)
    assert world.drain() == ["b"]


def test_a_zombie_cannot_free_the_lane(world: World) -> None:
    world.put_in("L", *"ab")
    zombie = world.take_one("zombie")
    assert world.silence() == 1
    lease = world.take_one("heir")
    for outcome in (Completed(b"z", 60_000), Retried(BOOM, 5_000), Failed(BOOM), Released(), Unroutable()):
        assert not world.settle(zombie, outcome)
        assert world.take() == []
    world.finish(lease)
    assert world.take_ids() == ["b"]


def test_the_heads_of_many_lanes_come_back_each_to_its_own(world: World) -> None:
    lanes = [f"L{n}" for n in range(20)]
    for lane in lanes:
        world.put_in(lane, *(f"{lane}.{n}" for n in range(3)))
    assert len(world.take(50, "dead")) == 20
    assert world.silence() == 20
    done = world.drain()
    for lane in lanes:
        assert [id for id in done if id.startswith(f"{lane}.")] == [f"{lane}.{n}" for n in range(3)]


@pytest.mark.needs(Feature.UNROUTABLE)
def test_a_job_that_nobody_knows_holds_its_lane_and_comes_back_first(world: World) -> None:
    world.put_in("L", "a", task="new")
    world.put_in("L", "b", "c", task="old")
    assert world.settle(world.take_one(), Unroutable())
    assert world.take() == []
    assert (world.lane("L").state, world.lane("L").busy) == (LaneState.BUSY, 1)
    assert world.maintain(["old"]).unparked == 0
    assert world.maintain(["new"]).unparked == 1
    assert world.in_lane("L") == list("abc")
    assert world.drain() == list("abc")


def test_one_that_took_two_workers_down_holds_its_lane(world: World) -> None:
    world = world.with_options(alone_after_crashes=2, max_crashes=5)
    world.put_in("L", "a", "b")
    for _ in range(2):
        assert world.take_ids(10, "victim") == ["a"]
        assert world.silence() == 1
    assert world.view("a").crashes == 2
    lease = world.take_one()
    assert lease.record.id == "a"
    assert world.take() == []
    assert world.settle(lease, Retried(BOOM))
    lease = world.take_one()
    assert lease.record.id == "a"
    assert world.settle(lease, Released())
    assert world.drain() == ["a", "b"]


# Delayed jobs.


@pytest.mark.needs(Feature.DELAY)
def test_a_delayed_job_takes_its_place_when_it_is_due(world: World) -> None:
    world.put_in("L", "late", delay_ms=5_000)
    world.put_in("L", "a", "b")
    lease = world.take_one()
    assert lease.record.id == "a", "it does not hold the lane before its time"
    world.pass_time(5_100)
    world.beat("w", [lease])
    world.put_in("L", "c")
    assert world.in_lane("L") == ["b", "late", "c"]
    world.finish(lease)
    assert world.drain() == ["b", "late", "c"]


@pytest.mark.needs(Feature.DELAY)
def test_a_delayed_job_that_is_due_waits_for_the_one_that_runs(world: World) -> None:
    world.put_in("L", "a")
    world.put_in("L", "late", delay_ms=1_000)
    lease = world.take_one()
    world.pass_time(1_100)
    world.maintain()
    assert world.take() == []
    world.finish(lease)
    assert world.drain() == ["late"]


# More than one at a time.


@pytest.mark.needs(Feature.LANE_POLICIES)
def test_a_lane_may_let_several_run(world: World) -> None:
    world.put_in("L", *"abcde", limit=3)
    leases = world.take(10)
    assert len(leases) == 3
    assert world.take() == []
    assert world.lane("L").limit == 3
    world.finish(leases[1])
    assert len(world.take(10, "other")) == 1
    assert world.take() == []
    assert world.settle(leases[0], Retried(BOOM, 60_000))
    assert world.take() == [], "one that waits for its retry counts"


@pytest.mark.needs(Feature.LANE_POLICIES)
def test_what_the_latest_job_brings_is_how_many_may_run(world: World) -> None:
    world.put_in("L", *"abc")
    (first,) = world.take()
    world.put_in("L", "d", limit=3)
    more = world.take()
    assert len(more) == 2
    world.put_in("L", "e")
    world.finish(first)
    assert world.take() == []
    world.finish(more[0])
    assert world.take() == [], "one still runs"
    world.finish(more[1])
    assert len(world.take()) == 1
    assert world.take() == []


@pytest.mark.needs(Feature.LANE_POLICIES)
def test_a_lane_with_a_limit_is_drained_by_several_claims(world: World) -> None:
    ids = [f"j{n:02}" for n in range(30)]
    world.put_in("L", *ids, limit=4)
    done: list[str] = []
    while leases := [lease for worker in ("w1", "w2") for lease in world.take(2, worker)]:
        assert len(leases) <= 4
        for lease in leases:
            world.finish(lease)
            done.append(lease.record.id)
    assert sorted(done) == ids
    assert world.left() == set()
