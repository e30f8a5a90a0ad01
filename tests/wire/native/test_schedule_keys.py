"""Another program's data in the place of a schedule's keys."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.errors import WrongState
from tenure.core.schedules.schedule import CatchUp, Overlap, Ticked
from tenure.core.shape import Shape
from tests.support.schedules import STEP, make, now_of, put, spec, stored, tick, tick_of
from tests.support.world import World


@pytest.mark.garbage
@pytest.mark.parametrize("key", ["schedules", "ticks", "due", "ready", "jobs"])
def test_foreign_data_stops_a_tick_before_it_changes_anything(world: World, key: str) -> None:
    put(world, spec(), now_of(world) - 1_000)
    one = tick_of(stored(world), now_of(world), "a")
    world.command("DEL", world.key(key))
    world.command("SET", world.key(key), "foreign")
    before = world.dump()
    (refused,) = world.run(world.engine.schedules.tick("q", [one]))
    assert isinstance(refused, WrongState)
    assert world.dump() == before


@pytest.mark.garbage
@pytest.mark.parametrize(
    ("key", "options"),
    [("lane:spoilt", {"shape": Shape(lane="spoilt")}), ("unroutable:spoilt", {"overlap": Overlap.CANCEL})],
)
def test_foreign_data_at_a_key_of_one_schedule_stops_only_its_tick(
    world: World, key: str, options: dict[str, Any]
) -> None:
    now = now_of(world) - 5 * STEP
    for name in ("first", "spoilt", "last"):
        put(world, spec(name, task=name, catch_up=CatchUp.ALL, **(options if name == "spoilt" else {})), now)
    tick(world, "job", "spoilt")
    world.settle(world.take_one()) if "shape" in options else None
    world.command("SET", world.key(key), "foreign")
    before = stored(world, "spoilt").state
    ticks = [tick_of(stored(world, name), now_of(world), name) for name in ("first", "spoilt", "last")]
    first, spoilt, last = world.run(world.engine.schedules.tick("q", ticks))
    assert (first, last) == (Ticked.ENQUEUED, Ticked.ENQUEUED)
    assert isinstance(spoilt, WrongState)
    assert world.key(key) in str(spoilt)
    assert stored(world, "spoilt").state == before
    world.command("DEL", world.key(key))
    assert make(world, ticks[1]) is Ticked.ENQUEUED
    assert world.drain() == ["first", "last", "spoilt"]
