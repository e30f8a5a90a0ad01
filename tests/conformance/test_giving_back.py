"""Many held jobs, when their worker dies or leaves: a call gives back a part, and all come back in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.job import Lease, State
from tenure.core.shape import Shape
from tenure.core.steps import Command, Invoke, Reply
from tenure.engines.kit.config import BACK_MOST
from tenure.runtime.ports import ROUND_MOST
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.stepping import Send, Session, send_with, step, stop_after
from tests.support.world import World

MANY = 2 * BACK_MOST + BACK_MOST // 2
"""More than two calls give back."""
CALLS_MOST = limits.MAX_HELD


def names(count: int, prefix: str = "j") -> list[str]:
    return [f"{prefix}{n:04}" for n in range(count)]


def hold(world: World, ids: Sequence[str], worker: str = "w", slots: int = 2, **options: Any) -> list[Lease]:
    """A worker holds these jobs, in this order."""
    world.put(*ids, **options)
    leases: list[Lease] = []
    while len(leases) < len(ids):
        most = min(ROUND_MOST, len(ids) - len(leases))
        lane = options.get("shape", Shape()).lane
        together = {"q": most} if lane else None
        leases += world.run(world.engine.lease(worker, ["q"], most, slots=slots, of_lane=together)).leases
    assert [lease.record.id for lease in leases] == list(ids)
    return leases


def ready(world: World) -> list[str]:
    """All that wait, in the order in which they run."""
    ids: list[str] = []
    while page := world.run(world.engine.page("q", State.READY, len(ids))).jobs:
        ids += [view.id for view in page]
    return ids


def die(world: World) -> None:
    """All who hold jobs are silent for so long that whoever comes by next gives them back."""
    world.pass_time(LEASE_MS + 50)
    assert world.maintain().reclaimed == 0
    world.pass_time(GRACE_MS + 50)


def maintain_all(world: World) -> list[int]:
    """Maintain as a worker does, which goes on while there is more. Answers how many came back with each call."""
    back = []
    for _ in range(CALLS_MOST):
        answer = world.maintain()
        back.append(answer.reclaimed)
        if not answer.more:
            return back
    raise AssertionError("there is no end to it")


@pytest.mark.needs(Feature.COUNTS)
def test_the_jobs_of_a_dead_worker_come_back_in_their_order_and_the_earliest_count_as_crashed(world: World) -> None:
    ids = names(MANY)
    hold(world, ids, slots=100)
    world.put("behind")
    die(world)
    assert sum(maintain_all(world)) == MANY
    assert ready(world) == [*ids, "behind"]
    crashes = [world.view(id).crashes for id in ids]
    assert crashes == [1] * 200 + [0] * (MANY - 200)
    world.audit()


def test_a_claim_gets_no_later_job_of_the_dead_before_an_earlier_one(world: World) -> None:
    ids = names(MANY)
    hold(world, ids)
    die(world)
    took: list[str] = []
    for _ in range(CALLS_MOST):
        answer = world.run(world.engine.lease("x", ["q"], 10))
        took += [lease.record.id for lease in answer.leases]
        if len(took) >= 30:
            break
        assert answer.leases or answer.next_ms == 0, "there is more to give back"
    assert took == ids[:30]


def test_the_jobs_of_several_dead_workers_come_back_in_one_order(world: World) -> None:
    ids = names(3 * 60)
    assert BACK_MOST < len(ids) < limits.TEND_LIMIT
    world.put(*ids)
    for n in range(0, len(ids), 10):
        world.take(10, f"d{n % 3}")
    die(world)
    assert sum(maintain_all(world)) == len(ids)
    assert ready(world) == ids
    world.audit()


def test_a_worker_that_comes_back_to_life_keeps_what_it_still_holds(world: World) -> None:
    leases = hold(world, names(MANY))
    die(world)
    first = world.maintain().reclaimed
    assert first > 0
    lost = world.beat("w", leases).lost
    assert lost == {lease.ref for lease in leases[MANY - first :]}
    kept = leases[: MANY - first]
    for n in range(0, len(kept), ROUND_MOST):
        world.finish(*kept[n : n + ROUND_MOST])
    assert ready(world) == names(MANY)[MANY - first :]
    world.audit()


@pytest.mark.needs(Feature.COUNTS)
@pytest.mark.parametrize("crashed", [False, True])
def test_leave_gives_all_back_in_their_order(world: World, crashed: bool) -> None:
    ids = names(MANY)
    hold(world, ids)
    world.put("behind")
    assert world.leave("w", crashed) == MANY
    assert ready(world) == [*ids, "behind"]
    assert [world.view(id).crashes for id in ids[:6]] == ([1] * 4 if crashed else [0] * 4) + [0, 0]
    world.audit()


def test_a_leave_whose_replies_are_lost_gives_all_back_once(world: World) -> None:
    """Every call arrives twice, as when its first reply never came."""
    ids = names(MANY)
    hold(world, ids)
    replies: list[Reply] = []

    def twice(number: int, call: Command | Invoke, send: Send) -> Reply:
        first, again = send(call), send(call)
        replies.append(first)
        assert isinstance(call, Invoke)
        assert again == first
        return again

    left = step(world.engine.leave("w", ["q"], crashed=True), Session("s"), send_with(world.driver), twice)
    assert left == MANY
    assert ready(world) == ids
    assert world.totals().get("crashed", 4) == 4
    world.audit()


@pytest.mark.needs(Feature.COUNTS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_who_dies_between_two_calls_of_a_leave_loses_nothing(world: World, k: int) -> None:
    ids = names(MANY)
    hold(world, ids)

    stop_after(k, world.engine.leave("w", ["q"]), world.driver)
    world.audit()
    world.pass_time(LEASE_MS + 50)
    maintain_all(world)
    world.pass_time(GRACE_MS + 50)
    maintain_all(world)
    assert ready(world) == ids
    assert sum(world.view(id).crashes for id in ids) in (0, 4)
    world.audit()


@pytest.mark.needs(Feature.LANE_POLICIES)
@pytest.mark.needs(Feature.LANES)
def test_the_jobs_of_a_lane_come_back_in_its_order(world: World) -> None:
    ids = names(MANY)
    hold(world, ids, shape=Shape(lane="l", lane_limit=limits.MAX_LANE_LIMIT))
    die(world)
    assert sum(maintain_all(world)) == MANY
    assert world.drain() == ids
    world.audit()


@pytest.mark.needs(Feature.LANE_POLICIES)
@pytest.mark.needs(Feature.LANES)
def test_the_jobs_of_many_lanes_come_back(world: World) -> None:
    lanes = {f"l{n}": names(5, f"l{n:02}-") for n in range(MANY // 5)}
    for lane, ids in lanes.items():
        world.put(*ids, shape=Shape(lane=lane, lane_limit=2))
    while world.take(ROUND_MOST):
        pass
    die(world)
    maintain_all(world)
    ran = world.drain()
    for ids in lanes.values():
        assert [id for id in ran if id in ids] == ids
    assert len(ran) == MANY // 5 * 5
    world.audit()


@pytest.mark.needs(Feature.CANCEL)
def test_of_many_that_were_to_be_cancelled_all_are_when_their_worker_dies(world: World) -> None:
    ids = names(MANY)
    hold(world, ids[: MANY // 2])
    assert world.cancel_all().requested == MANY // 2
    hold(world, ids[MANY // 2 :])
    die(world)
    maintain_all(world)
    assert world.counts() == {"cancelled": MANY // 2, "ready": MANY - MANY // 2}
    assert ready(world) == ids[MANY // 2 :]
    world.audit()
