"""Lanes take turns with each other and with jobs that have none: nobody starves, and a claim costs the same."""

from __future__ import annotations

import pytest

from tenure.core import limits
from tenure.core.engine import Feature, Trait
from tenure.core.job import NewJob
from tenure.core.outcome import Released
from tenure.core.shape import Shape
from tenure.engines.kit.config import TURNS_MOST
from tests.support.world import World

pytestmark = pytest.mark.needs(Feature.LANES, Trait.UNLANED)


def served(world: World, limit: int, rounds: int) -> list[str]:
    """Claim and complete, and say what was claimed."""
    done: list[str] = []
    for _ in range(rounds):
        leases = world.take(limit)
        world.finish(*leases)
        done += [lease.record.id for lease in leases]
    return done


def fill_lanes(world: World, lanes: int, jobs: int) -> None:
    """`jobs` in each lane; an id is its lane, a dot and its number."""
    world.enqueue([NewJob("q", f"L{n}.{j}", b"", shape=Shape(lane=f"L{n}")) for n in range(lanes) for j in range(jobs)])


def test_one_lane_after_the_other(world: World) -> None:
    fill_lanes(world, 3, 3)
    assert served(world, 1, 9) == [f"L{n}.{j}" for j in range(3) for n in range(3)]


def test_lanes_that_let_several_run_take_turns_too(world: World) -> None:
    for lane in "AB":
        world.put_in(lane, *(f"{lane}{n}" for n in range(9)), limit=4)
    assert [world.take_one().record.id for _ in range(6)] == ["A0", "B0", "A1", "B1", "A2", "B2"]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_long_lane_does_not_hold_up_a_short_one(world: World, limit: int) -> None:
    world.put_in("long", *(f"long{n}" for n in range(50)))
    served(world, limit, 3)
    world.put_in("short", "short")
    assert "short" in served(world, 1, 2)


def test_a_lane_that_comes_back_does_not_hold_up_the_others(world: World) -> None:
    """A head that is released again and again, as by workers that are stopped, is not all that is ever run."""
    world.put_in("A", "a")
    world.put_in("B", "b")
    seen = set()
    for _ in range(4):
        for lease in world.take(2):
            seen.add(lease.record.id)
            assert world.settle(lease, Released())
    assert seen == {"a", "b"}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10])
def test_half_the_claims_are_for_lanes(world: World, limit: int) -> None:
    world.put(*(f"plain{n}" for n in range(100)))
    fill_lanes(world, 25, 4)
    rounds = 80 // limit
    done = served(world, limit, rounds)
    assert len(done) == rounds * limit
    for count in range(limit * 2, len(done) + 1, limit * 2):
        plain = sum(id.startswith("plain") for id in done[:count])
        assert abs(plain - count / 2) <= limit / 2, done[:count]


@pytest.mark.parametrize("limit", [1, 4])
def test_one_lane_and_many_plain_jobs(world: World, limit: int) -> None:
    world.put(*(f"plain{n}" for n in range(80)))
    fill_lanes(world, 1, 8)
    done = served(world, limit, 20)
    assert len(done) == 20 * limit, "what the lane cannot take is for the others"
    assert sum(id.startswith("L0") for id in done) == 8


@pytest.mark.parametrize("limit", [1, 2, 10])
@pytest.mark.parametrize("busy", ["plain", "lanes"])
def test_nobody_starves_while_the_others_keep_coming(world: World, limit: int, busy: str) -> None:
    if busy == "plain":
        fill_lanes(world, 1, 5)
    else:
        world.put(*(f"few{n}" for n in range(5)))
    done: list[str] = []
    for n in range(10):
        if busy == "plain":
            world.put(*(f"busy{n}.{j}" for j in range(2 * limit)))
        else:
            world.enqueue([NewJob("q", f"busy{n}.{j}", b"", shape=Shape(lane=f"M{j}")) for j in range(2 * limit)])
        done += served(world, limit, 1)
    few = [id for id in done if not id.startswith("busy")]
    assert few == ([f"L0.{n}" for n in range(5)] if busy == "plain" else [f"few{n}" for n in range(5)])


def test_without_lanes_the_plain_ones_get_all_and_the_other_way(world: World) -> None:
    world.put(*(f"p{n}" for n in range(20)))
    assert len(world.take(10)) == 10
    world.drain()
    fill_lanes(world, 20, 1)
    assert len(world.take(10)) == 10


def test_a_claim_costs_the_same_with_many_lanes(world: World) -> None:
    def cost(limit: int) -> int:
        return world.calls_of(world.engine.lease("w", ["q"], limit))

    fill_lanes(world, 10, 3)
    for _ in range(2):  # from the second on, the engine knows that the queue has lanes
        world.take(1)
    few = cost(1), cost(4)
    world.enqueue([NewJob("q", f"M{n}.{j}", b"", shape=Shape(lane=f"M{n}")) for n in range(5_000) for j in range(2)])
    assert (cost(1), cost(4)) == pytest.approx(few, abs=3)


def test_an_end_costs_the_same_with_many_lanes(world: World) -> None:
    fill_lanes(world, 5_000, 2)
    leases = world.take(3)
    many = [world.calls_of(world.engine.settle([(lease, Released())])) for lease in leases]
    assert max(many) < 70


def test_an_enqueue_costs_the_same_with_many_lanes(world: World) -> None:
    fill_lanes(world, 5_000, 1)
    for lane in ("L7", "new"):
        assert world.calls_of(world.engine.enqueue([NewJob("q", lane, b"", shape=Shape(lane=lane))])) < 60


def test_a_claim_of_very_many_lanes_forgets_none(world: World) -> None:
    fill_lanes(world, 1_200, 2)
    done: list[str] = []
    for _ in range(2_400 // TURNS_MOST + 1):
        done += served(world, 500, 1)
    assert len(done) == 2_400
    assert done.index("L0.1") > done.index("L1199.0"), "all come once before one comes twice"
    assert world.left() == set()


def test_lanes_that_are_busy_are_not_looked_through(world: World) -> None:
    fill_lanes(world, 500, 2)
    held = 0
    while taken := len(world.take(500)):
        held += taken
    assert held == 500
    world.put("plain")
    assert world.calls_of(world.engine.lease("other", ["q"], 1)) < 70


def test_one_claim_has_a_number_of_turns_and_the_next_goes_on(world: World) -> None:
    fill_lanes(world, 2 * TURNS_MOST + 10, 1)
    taken = [world.take_ids(limits.MAX_BATCH, f"w{n}") for n in range(3)]
    assert [len(ids) for ids in taken] == [TURNS_MOST, TURNS_MOST, 10]
    assert world.wait(["q"], 20) is None, "nothing is left to claim"


def test_lanes_get_their_turns_beside_more_plain_jobs_than_a_claim_takes(world: World) -> None:
    fill_lanes(world, 2 * TURNS_MOST, 1)
    world.put(*(f"p{n}" for n in range(limits.MAX_BATCH)))
    ids = world.take_ids(limits.MAX_BATCH)
    assert len(ids) == limits.MAX_BATCH
    assert sum(id.startswith("L") for id in ids) == TURNS_MOST
