"""Ticks that one call makes do what as many calls do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

import pytest
from msgspec.structs import replace as replaced

from tenure.core.engine import Feature
from tenure.core.schedules.schedule import CatchUp, Overlap, ScheduleSpec, StoredSchedule, Tick
from tenure.core.shape import Conflict, Shape, UniqueRule
from tests.support.schedules import STEP, digest_of, now_of, spec, tick_of
from tests.support.world import World

pytestmark = pytest.mark.needs(Feature.SCHEDULES)

CONFLICTS: Final = (Conflict.REJECT, Conflict.EXISTING, Conflict.REPLACE, Conflict.RERUN)


def some_spec(draw: random.Random, name: str, overlaps: Sequence[Overlap]) -> ScheduleSpec:
    """A schedule with any options. One that cancels shares its key with no other."""
    overlap = draw.choice(overlaps)
    key = f"k:{name}" if overlap is Overlap.CANCEL else f"k:{draw.randrange(3)}"
    shapes = (
        Shape(),
        Shape(lane=f"l{draw.randrange(2)}", lane_limit=2),
        Shape(priority=draw.randrange(1, 3)),
        Shape(unique=UniqueRule(key, conflict=draw.choice(CONFLICTS))),
    )
    return spec(name, shape=draw.choice(shapes), overlap=overlap, catch_up=CatchUp.ALL, payload=name.encode())


def stored_in(world: World, queue: str, name: str) -> StoredSchedule:
    _, found = world.run(world.engine.schedules.schedule(queue, name))
    assert found is not None
    return found


def answers_of(world: World, queue: str, ticks: list[Tick]) -> list[str]:
    return [getattr(one, "value", type(one).__name__) for one in world.run(world.engine.schedules.tick(queue, ticks))]


def seen(world: World, queue: str, names: list[str]) -> dict[str, Any]:
    """What there is, without the moments and the name of the queue."""
    states = [stored_in(world, queue, name).state for name in names]
    return {
        "states": [(one.planned_ms, one.runs, one.skipped, one.missed, one.last_id) for one in states],
        "counts": world.counts(queue),
        "order": [lease.record.id for lease in world.take(100, "last", (queue,), of_lane=9)],
    }


@pytest.mark.parametrize("seed", range(12))
def test_one_call_does_what_as_many_calls_do(world: World, seed: int) -> None:
    draw = random.Random(seed)
    begin, names = now_of(world) - 10 * STEP, [f"s{n}" for n in range(12)]
    # One call counts a job that it cancels until its end.
    most, overlaps = (0, list(Overlap)) if seed % 2 else (draw.randrange(6, 14), [Overlap.ALLOW, Overlap.SKIP])
    specs, held = [some_spec(draw, name, overlaps) for name in names], draw.randrange(6)
    found = []
    for queue, together in (("q", len(names)), ("p", 1)):
        for one in specs:
            mine = replaced(one, queue=queue)
            assert world.run(world.engine.schedules.put_schedule(mine, digest_of(mine), "", begin, begin))
        if most:
            world.run(world.engine.settings.configure(queue, max_length=most))
        answers = []
        for round_ in range(3):
            ticks = [tick_of(stored_in(world, queue, name), now_of(world), f"{name}-{round_}") for name in names]
            for first in range(0, len(ticks), together):
                answers += answers_of(world, queue, ticks[first : first + together])
            if not round_:
                world.take(held, "w", (queue,))
        found.append({"answers": answers, **seen(world, queue, names)})
    assert found[0] == found[1]
    world.audit()
