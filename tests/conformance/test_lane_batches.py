"""Several jobs of one lane in one claim, for a handler that takes them together and in their order."""

from __future__ import annotations

import itertools
import random

import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.job import Lease
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.shape import LaneFailure, LaneState
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.LANES)


def batch(world: World, of_lane: int = 3, limit: int = 10) -> list[str]:
    return world.take_ids(limit, of_lane=of_lane)


def test_those_that_follow_each_other_come_in_one_claim_in_their_order(world: World) -> None:
    world.put_in("L", *"abcdefgh")
    assert batch(world) == list("abc")
    assert batch(world) == [], "the lane waits for all of them"
    assert (world.lane("L").state, world.lane("L").busy) == (LaneState.BUSY, 3)


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_a_claim_never_has_more_than_its_limit(world: World, limit: int) -> None:
    world.put_in("L", *"abcdefgh")
    assert batch(world, 4, limit) == list("abcdefgh"[: min(limit, 4)])


def test_each_lane_has_a_batch_of_its_own(world: World) -> None:
    for lane in "AB":
        world.put_in(lane, *(f"{lane}{n}" for n in range(5)))
    assert batch(world) == ["A0", "A1", "A2", "B0", "B1", "B2"]


def test_jobs_without_a_lane_are_no_batch_of_one(world: World) -> None:
    world.put(*"abcde")
    assert batch(world, 2, 10) == list("abcde")


def test_only_jobs_of_one_task_go_together(world: World) -> None:
    world.put_in("L", "a", "b", task="x")
    world.put_in("L", "c", task="y")
    world.put_in("L", "d", task="x")
    for ids in (["a", "b"], ["c"], ["d"]):
        leases = world.take(10, of_lane=5)
        assert [lease.record.id for lease in leases] == ids
        world.finish(*leases)


@pytest.mark.needs(Trait.SEPARATE_ENDS)
def test_the_lane_is_busy_until_all_are_settled(world: World) -> None:
    world.put_in("L", *"abcd")
    leases = world.take(10, of_lane=3)
    for lease in leases:
        assert batch(world) == []
        world.finish(lease)
    assert batch(world) == ["d"]


OTHERS: list[Outcome] = [Completed(b"r", 60_000), Completed(b"", 0), Failed(BOOM), Broken(BOOM), Cancelled("no")]


@pytest.mark.parametrize("other", OTHERS, ids=lambda outcome: type(outcome).__name__)
def test_only_those_that_failed_are_run_again_before_what_follows(world: World, other: Outcome) -> None:
    world.put_in("L", *"abcde")
    world.settle_each(world.take(10, of_lane=3), other, Retried(BOOM), other)
    assert batch(world) == ["b", "d", "e"]


BACK: dict[str, Outcome] = {
    "released": Released(),
    "retried": Retried(BOOM),
    "retried later": Retried(BOOM, 1_000),
    "unroutable": Unroutable(),
}


def come_back(world: World, leases: list[Lease], how: str, order: tuple[int, ...]) -> None:
    """One call each, in this order."""
    for n in order:
        assert world.settle(leases[n], BACK[how])
    world.pass_time(1_100)
    world.maintain(["t"])


@pytest.mark.needs(Trait.SEPARATE_ENDS)
@pytest.mark.parametrize("how", BACK)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_what_comes_back_one_by_one_keeps_its_order(world: World, how: str, order: tuple[int, ...]) -> None:
    world.put_in("L", *"abcd", task="t")
    come_back(world, world.take(10, of_lane=3), how, order)
    assert world.in_lane("L") == list("abcd")
    assert world.drain() == list("abcd")


@pytest.mark.parametrize("how", BACK)
def test_what_comes_back_in_one_call_keeps_its_order(world: World, how: str) -> None:
    world.put_in("L", *"abcd", task="t")
    leases = world.take(10, of_lane=3)
    assert all(world.run(world.engine.settle([(lease, BACK[how]) for lease in leases])))
    world.pass_time(1_100)
    world.maintain(["t"])
    assert world.in_lane("L") == list("abcd")
    assert world.drain() == list("abcd")


def test_the_batch_of_a_dead_worker_comes_back_in_its_order(world: World) -> None:
    world.put_in("L", *"abcd")
    world.take(10, "dead", of_lane=3)
    assert world.silence() == 3
    assert world.in_lane("L") == list("abcd")
    assert batch(world) == list("abc")
    assert world.leave() == 3
    assert world.in_lane("L") == list("abcd")


@pytest.mark.needs(Trait.SEPARATE_ENDS)
@pytest.mark.parametrize("delays", list(itertools.permutations((1_000, 2_000, 3_000))), ids=str)
def test_delays_of_their_own_do_not_change_their_order(world: World, delays: tuple[int, ...]) -> None:
    world.put_in("L", *"abcd")
    leases = world.take(10, of_lane=3)
    world.settle_each(leases, *(Retried(BOOM, delay) for delay in delays))
    for _ in range(3):
        assert batch(world) == [], "all that were taken together are waited for"
        world.pass_time(1_050)
    assert batch(world) == list("abc")


@pytest.mark.needs(Trait.SEPARATE_ENDS)
def test_one_that_waits_for_its_retry_and_one_that_comes_back_at_once(world: World) -> None:
    world.put_in("L", *"abcd")
    world.settle_each(world.take(10, of_lane=3), Retried(BOOM, 1_000), Retried(BOOM), Completed(b""))
    assert batch(world) == []
    world.pass_time(1_100)
    assert batch(world) == ["a", "b", "d"]


@pytest.mark.needs(Feature.LANE_POLICIES)
def test_a_lane_that_lets_several_run_has_no_more_of_them_held(world: World) -> None:
    world.put_in("L", *"abcdefgh", limit=4)
    assert len(batch(world, 3, limit=3)) == 3
    assert len(batch(world, 3)) == 1
    assert batch(world) == []


@pytest.mark.needs(Trait.SUSPECTS)
def test_a_suspect_is_in_no_batch(world: World) -> None:
    world = world.with_options(alone_after_crashes=1, max_crashes=9)
    world.put_in("L", *"abcd")
    world.take(1, "victim")
    assert world.silence() == 1
    leases = world.take(10, of_lane=3)
    assert [lease.record.id for lease in leases] == ["a"]
    assert batch(world) == []
    world.finish(*leases)
    assert batch(world) == list("bcd")


@pytest.mark.needs(Feature.LANE_POLICIES, Trait.SUSPECTS)
def test_a_suspect_behind_others_waits_for_their_end(world: World) -> None:
    world = world.with_options(alone_after_crashes=1, max_crashes=9)
    world.put_in("L", *"abc", limit=2)
    a = world.take_one("w1")
    assert world.take_ids(1, "victim") == ["b"]
    assert world.leave("victim", crashed=True) == 1
    assert world.settle(a, Released())
    world.put_in("L", "d", limit=1)
    (a,) = world.take(10, "w1", of_lane=3)
    assert a.record.id == "a"
    assert world.take_ids(10, "w2") == []
    world.finish(a)
    assert world.drain() == list("bcd")


@pytest.mark.needs(Feature.LANE_POLICIES)
@pytest.mark.parametrize("policy", [LaneFailure.BLOCK, LaneFailure.PARK])
def test_one_that_fails_for_good_stops_the_lane_for_what_follows(world: World, policy: LaneFailure) -> None:
    world.configure(lane_failure=policy)
    world.put_in("L", *"abcd")
    world.settle_each(world.take(10, of_lane=3), Completed(b"", 0), Failed(BOOM), Retried(BOOM))
    assert batch(world) == []
    assert world.retry("b")
    if policy is LaneFailure.PARK:
        assert batch(world) == []
        assert world.resume_lane("L")
    assert batch(world) == ["b", "c", "d"]


@pytest.mark.needs(Feature.LANE_POLICIES)
def test_a_head_that_is_retried_by_hand_comes_before_those_that_are_still_out(world: World) -> None:
    world.configure(lane_failure=LaneFailure.PARK)
    world.put_in("L", *"abcde")
    a, b, c = world.take(3, of_lane=3)
    assert world.settle(a, Failed(BOOM))
    assert world.retry("a")
    world.settle_each([b, c], Released(), Released())
    assert world.in_lane("L") == list("abcde")


def test_a_batch_that_crashed_often_still_runs_one_at_a_time_and_in_order(world: World) -> None:
    """Suspects wait apart, and each worker takes one of them: but of a lane only the next."""
    world.put_in("L", *"abcd", task="t")
    for worker in ("w1", "w2"):
        answer = world.run(world.engine.lease(worker, ["q"], 10, slots=10, of_lane={"q": 3}))
        assert [lease.record.id for lease in answer.leases] == list("abc")
        assert world.silence() == 3
    assert world.view("c").crashes == 2
    assert world.take_ids(10, "w3") == ["a"]
    assert world.take_ids(10, "w4") == world.take_ids(10, "w5") == []
    world.leave("w3")
    assert world.drain() == list("abcd")


def test_a_batch_that_is_retried_after_crashes_keeps_its_order(world: World) -> None:
    world = world.with_options(alone_after_crashes=1)
    world.put_in("L", *"abc", task="t")
    world.run(world.engine.lease("w1", ["q"], 10, slots=10, of_lane={"q": 3}))
    assert world.silence() == 3
    lease = world.take_one("w2")
    assert lease.record.id == "a"
    assert world.settle(lease, Retried(BOOM))
    assert world.take_ids(10, "w3") == ["a"]
    assert world.take_ids(10, "w4") == []
    world.leave("w3")
    assert world.drain() == list("abc")


@pytest.mark.needs(Trait.SEPARATE_ENDS)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("how", [Retried(BOOM), Released()])
def test_jobs_that_come_back_in_any_order_run_in_that_of_their_lane(world: World, how: Outcome, seed: int) -> None:
    ids = [f"j{n:02}" for n in range(40)]
    chance = random.Random(seed)
    world.put_in("L", *ids, task="t")
    leases = world.take(30, of_lane=30)
    assert [lease.record.id for lease in leases] == ids[:30]
    chance.shuffle(leases)
    while leases:
        some = [leases.pop() for _ in range(min(len(leases), chance.randint(1, 8)))]
        world.settle_each(some, *[how] * len(some))
    world.audit()
    assert world.drain() == ids
