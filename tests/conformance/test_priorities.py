"""Priorities: higher first, in order among equals, and those below are not starved."""

from __future__ import annotations

import pytest

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.job import State
from tenure.core.outcome import Released, Retried, Unroutable
from tenure.core.shape import Shape
from tenure.engines.kit.config import PRIORITY_TURN, TURNS_MOST
from tenure.runtime.ports import ROUND_MOST
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.PRIORITIES)

LEVELS = (limits.MAX_PRIORITY, 7, 0, -7, limits.MIN_PRIORITY)


def one_by_one(world: World, count: int, limit: int = 1) -> list[str]:
    done: list[str] = []
    while len(done) < count and (leases := world.take(limit)):
        world.finish(*leases)
        done += [lease.record.id for lease in leases]
    return done


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_the_higher_runs_first(world: World, limit: int) -> None:
    for level in reversed(LEVELS):
        world.put_at(level, str(level))
    assert one_by_one(world, 9, limit) == list(map(str, LEVELS))


@pytest.mark.parametrize("level", LEVELS)
def test_equals_run_in_their_order(world: World, level: int) -> None:
    ids = [f"{n:02}" for n in range(25)]
    world.put_at(level, *ids[:10])
    world.put_at(level, *ids[10:])
    assert one_by_one(world, 25) == ids


def test_a_job_says_its_priority(world: World) -> None:
    world.put_at(-7, "a")
    assert world.view("a").shape == Shape(priority=-7)
    assert world.take_one().record.shape == Shape(priority=-7)


def test_waiting_jobs_are_listed_as_they_will_run(world: World) -> None:
    for level in reversed(LEVELS):
        world.put_at(level, f"{level}a", f"{level}b")
    expected = [f"{level}{n}" for level in LEVELS for n in "ab"]
    assert world.ids(State.READY) == expected
    pages = [world.run(world.engine.page("q", State.READY, offset, 3)) for offset in range(0, 10, 3)]
    assert [job.id for page in pages for job in page.jobs] == expected
    assert {page.total for page in pages} == {10}
    assert world.counts() == {"ready": 10}


def test_pages_leave_out_what_was_taken_away(world: World) -> None:
    for level in LEVELS:
        world.put_at(level, f"{level}a", f"{level}b", f"{level}c")
    for level in LEVELS:
        assert world.discard(f"{level}b")
    expected = [f"{level}{n}" for level in LEVELS for n in "ac"]
    assert world.ids(State.READY) == expected
    assert world.counts() == {"ready": 10}
    pages = [world.run(world.engine.page("q", State.READY, offset, 3)) for offset in range(0, 10, 3)]
    assert [job.id for page in pages for job in page.jobs] == expected


@pytest.mark.parametrize("level", [5, 0, -5])
@pytest.mark.parametrize("how", ["released", "silent", "left"])
def test_what_comes_back_is_first_of_its_level(world: World, level: int, how: str) -> None:
    world.put_at(level, "a", "b", "c")
    world.put_at(level - 1, "low")
    leases = world.take(2)
    if how == "released":
        world.settle_each(leases, Released(), Released())
    elif how == "silent":
        assert world.silence() == 2
    else:
        assert world.leave() == 2
    world.put_at(level + 1, "high")
    assert world.ids(State.READY) == ["high", "a", "b", "c", "low"]
    assert one_by_one(world, 9) == ["high", "a", "b", "c", "low"]


@pytest.mark.parametrize("level", [5, 0, -5])
@pytest.mark.parametrize("delay_ms", [0, 1_000])
def test_a_retry_keeps_its_level(world: World, level: int, delay_ms: int) -> None:
    world.put_at(level, "a", "b")
    world.put_at(level - 1, "low")
    assert world.settle(world.take_one(), Retried(BOOM, delay_ms))
    world.pass_time(1_100)
    world.maintain()
    assert one_by_one(world, 9) == ["b", "a", "low"]


@pytest.mark.parametrize("level", [5, -5])
@pytest.mark.needs(Feature.DELAY)
def test_a_delayed_job_comes_to_its_level(world: World, level: int) -> None:
    world.put_at(level, "late", delay_ms=1_000)
    world.put("plain")
    world.pass_time(1_100)
    world.maintain()
    assert one_by_one(world, 9) == (["late", "plain"] if level > 0 else ["plain", "late"])


@pytest.mark.parametrize("level", [5, -5])
@pytest.mark.needs(Feature.UNROUTABLE)
def test_what_was_parked_comes_back_to_its_level(world: World, level: int) -> None:
    world.put_at(level, "a", "b", task="t")
    world.settle_each(world.take(), Unroutable(), Unroutable())
    world.put_at(level, "c", task="t")
    world.put("plain")
    assert world.maintain(["t"]).unparked == 2
    assert one_by_one(world, 9) == (["a", "b", "c", "plain"] if level > 0 else ["plain", "a", "b", "c"])


def test_a_retry_by_hand_keeps_the_level(world: World) -> None:
    world.put_at(5, "a", "b")
    world.put("plain")
    assert world.cancel("a")
    assert world.retry("a")
    assert one_by_one(world, 9) == ["b", "a", "plain"]


# Nobody starves.


@pytest.mark.parametrize("limit", [1, 3, 10, 25])
def test_one_of_so_many_claims_is_for_lower_levels(world: World, limit: int) -> None:
    turn = PRIORITY_TURN
    world.put_at(9, *(f"high{n}" for n in range(30 * turn)))
    world.put(*(f"plain{n}" for n in range(20)))
    rounds = 10 * turn // limit
    done = one_by_one(world, rounds * limit, limit)
    low = [id for id in done if id.startswith("plain")]
    assert low == [f"plain{n}" for n in range(len(low))]
    assert abs(len(low) - len(done) / turn) <= 1 + limit // turn


@pytest.mark.parametrize("kilobytes", [56, 60, 100])
def test_lower_levels_have_their_turn_also_when_a_claim_ends_for_its_bytes(world: World, kilobytes: int) -> None:
    turn = PRIORITY_TURN
    world.put_at(5, *(f"high{n}" for n in range(6 * turn)), payload=b"x" * kilobytes * 1_000)
    world.put(*(f"plain{n}" for n in range(20)))
    done = one_by_one(world, 5 * turn, 50)
    low = [id for id in done if id.startswith("plain")]
    assert abs(len(low) - len(done) / turn) <= 2


def test_a_claim_that_ends_for_its_turns_of_lanes_takes_nothing_of_lower_levels_for_it(world: World) -> None:
    count = TURNS_MOST * 2
    for n in range(count):
        world.put_in(f"lane{n}", f"l{n}")
    world.put_at(-5, *(f"low{n}" for n in range(300)))
    got = world.take(ROUND_MOST)
    low = [lease for lease in got if lease.record.id.startswith("low")]
    assert len(low) <= len(got) / PRIORITY_TURN + 1


def test_every_level_has_its_turn(world: World) -> None:
    world.put_at(50, *(f"high{n}" for n in range(300)))
    for level in (10, 0, -10):
        world.put_at(level, f"{level}a", f"{level}b")
    done = one_by_one(world, 7 * PRIORITY_TURN)
    assert {id for id in done if not id.startswith("high")} == {f"{level}{n}" for level in (10, 0, -10) for n in "ab"}


def test_the_lowest_runs_although_the_highest_keep_coming(world: World) -> None:
    world.put_at(-100, "low")
    world.put_at(0, "plain")
    done: list[str] = []
    for n in range(4 * PRIORITY_TURN):
        world.put_at(100, f"high{n}a", f"high{n}b")
        done += one_by_one(world, 1)
    assert {"low", "plain"} <= set(done)


@pytest.mark.needs(Feature.LANES)
def test_lanes_are_of_the_middle_level(world: World) -> None:
    world.put_in("L", "laned")
    world.put_at(-1, "low")
    world.put_at(1, "high")
    assert world.ids(State.READY) == ["high", "laned", "low"]
    assert one_by_one(world, 3) == ["high", "laned", "low"]


# What is taken away, and what is left.


@pytest.mark.parametrize("act", ["cancel", "discard"])
@pytest.mark.parametrize("level", [5, -5])
def test_what_is_taken_away_is_not_run(world: World, act: str, level: int) -> None:
    world.put_at(level, *"abc", own_id=True)
    world.remove(act, "a")
    world.remove(act, "c")
    assert world.counts()["ready"] == 1
    assert one_by_one(world, 9) == ["b"]


@pytest.mark.parametrize(("before", "after"), [(5, 0), (0, 5), (5, -5), (-5, 5), (-5, 0), (0, -5), (5, 5)])
def test_the_same_id_again_on_another_level(world: World, before: int, after: int) -> None:
    world.put_at(before, "first", "x", "old", own_id=True)
    assert world.discard("x")
    world.put_at(after, "new", "x", "last", own_id=True)
    assert world.counts() == {"ready": 5}
    old, new = ["first", "old"], ["new", "x", "last"]
    expected = old + new if before >= after else new + old
    assert world.ids(State.READY) == expected
    assert one_by_one(world, 9) == expected


def test_purge_empties_all_levels(world: World) -> None:
    for level in LEVELS:
        world.put_at(level, f"{level}a", f"{level}b")
    world.discard("7a")
    assert world.purge(State.READY) == 9
    assert world.counts() == {}
    assert world.left() <= {b"ghosts"}


def test_a_level_leaves_no_key_behind(world: World) -> None:
    for level in LEVELS:
        world.put_at(level, f"{level}a", f"{level}b", f"{level}c")
    for lease in world.take(5):
        world.settle(lease, Released())
    world.discard("7b")
    assert world.cancel("-7b")
    while world.drain():
        pass
    world.purge(State.CANCELLED)
    world.maintain()
    assert world.left() == set()
