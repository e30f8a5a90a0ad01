"""Jobs that are due at the same moment become ready in the order of their enqueue, whatever their ids are."""

from __future__ import annotations

import time
from random import Random

import pytest

from tenure.core import limits
from tenure.core.engine import Feature, Trait
from tenure.core.job import NewJob, State
from tenure.core.outcome import Retried
from tenure.core.shape import PLAIN, Shape, UniqueRule, Until
from tests.support.world import BOOM, World

SHAPES = {"no shape": PLAIN, "a lane": Shape(lane="L"), "a priority": Shape(priority=5)}
IDS = [f"{Random(number).random():.12f}" for number in range(3 * limits.TEND_LIMIT)]
"""In no order; of more jobs than one call makes ready."""


def drain(world: World) -> list[str]:
    done: list[str] = []
    while leases := world.take(50):
        done += [lease.record.id for lease in leases]
        world.finish(*leases)
    return done


@pytest.mark.needs(Feature.DELAY, Feature.LANES, Feature.PRIORITIES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("together", [True, False])
def test_delayed_to_the_same_moment(world: World, shape: str, together: bool) -> None:
    at = int(time.time() * 1000) + 60_000
    jobs = [NewJob("q", id, b"", run_at_ms=at, shape=SHAPES[shape]) for id in IDS]
    if together:
        world.enqueue(jobs)
    else:
        for job in jobs:
            world.enqueue([job])
    world.pass_time(61_000)
    assert drain(world) == IDS


@pytest.mark.needs(Feature.DELAY, Feature.UNIQUE_KEYS)
def test_with_and_without_a_unique_key(world: World) -> None:
    at = int(time.time() * 1000) + 60_000
    shapes = [Shape(unique=UniqueRule(id, Until.ENDED)) if n % 2 else PLAIN for n, id in enumerate(IDS[:20])]
    world.enqueue([NewJob("q", id, b"", run_at_ms=at, shape=shape) for id, shape in zip(IDS, shapes, strict=False)])
    world.pass_time(61_000)
    assert drain(world) == IDS[:20]


@pytest.mark.needs(Feature.DELAY, Feature.LANES)
def test_what_is_due_first_comes_first(world: World) -> None:
    for n, id in enumerate(IDS[:20]):
        world.put_in("L", id, delay_ms=60_000 - 1_000 * n)
    world.pass_time(61_000)
    assert drain(world) == IDS[19::-1]


def retried_together(world: World, shapes: list[Shape]) -> list[str]:
    """They fail at one moment, in another order than that of their enqueue."""
    ids = IDS[: len(shapes)]
    world.enqueue([NewJob("q", id, b"", shape=shape) for id, shape in zip(ids, shapes, strict=True)])
    leases = world.take(len(ids))
    assert len(leases) == len(ids)
    Random(1).shuffle(leases)
    world.settle_each(leases, *[Retried(BOOM, 60_000) for _ in leases])
    world.pass_time(61_000)
    return ids


@pytest.mark.needs(Trait.RETRY_DELAY)
def test_retried_at_the_same_moment(world: World) -> None:
    assert retried_together(world, [PLAIN] * 50) == drain(world)


@pytest.mark.needs(Feature.LANE_POLICIES)
@pytest.mark.needs(Feature.LANES)
def test_retried_at_the_same_moment_in_a_lane_that_runs_several(world: World) -> None:
    assert retried_together(world, [Shape(lane="L", lane_limit=50)] * 50) == drain(world)


@pytest.mark.needs(Feature.DELAY)
def test_a_delayed_job_keeps_its_place_among_those_that_are_taken_away(world: World) -> None:
    at = int(time.time() * 1000) + 60_000
    world.enqueue([NewJob("q", id, b"", run_at_ms=at) for id in IDS[:9]])
    assert world.view(IDS[0]).due_ms == at
    assert world.cancel(IDS[1])
    assert world.discard(IDS[2])
    assert world.retry(IDS[3])
    assert [job.id for job in world.run(world.engine.page("q", State.SCHEDULED)).jobs] == [IDS[0], *IDS[4:9]]
    world.audit()
    world.pass_time(61_000)
    assert drain(world) == [IDS[3], IDS[0], *IDS[4:9]]
