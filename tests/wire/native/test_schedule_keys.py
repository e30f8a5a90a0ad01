"""Another program's data in the place of a schedule's keys."""

from __future__ import annotations

import pytest

from tenure.core.errors import WrongState
from tenure.core.schedules.schedule import Ticked
from tenure.core.shape import Shape
from tests.support.schedules import now_of, put, spec, stored, tick_of
from tests.support.world import World


@pytest.mark.garbage
@pytest.mark.parametrize("key", ["schedules", "ticks", "due", "ready", "jobs"])
def test_foreign_data_stops_a_tick_before_it_changes_anything(world: World, key: str) -> None:
    put(world, spec(), now_of(world) - 1_000)
    one = tick_of(stored(world), now_of(world), "a")
    world.command("DEL", world.key(key))
    world.command("SET", world.key(key), "foreign")
    before = world.dump()
    with pytest.raises(WrongState):
        world.run(world.engine.schedules.tick("q", [one]))
    assert world.dump() == before


@pytest.mark.garbage
def test_foreign_data_in_the_lane_of_one_job_does_not_stop_the_ticks_of_others(world: World) -> None:
    now = now_of(world) - 1_000
    for name in ("good", "spoilt"):
        put(world, spec(name, shape=Shape(lane=name)), now)
    world.command("SET", world.key("lane:spoilt"), "foreign")
    before = stored(world, "spoilt").state
    ticks = [tick_of(stored(world, name), now_of(world), name) for name in ("spoilt", "good")]
    refused, made = world.run(world.engine.schedules.tick("q", ticks))
    assert isinstance(refused, WrongState)
    assert made is Ticked.ENQUEUED
    assert stored(world, "spoilt").state == before
    assert world.in_lane("good") == ["good"]
    with pytest.raises(WrongState, match="WRONGTYPE"):
        world.run(world.engine.schedules.tick("q", ticks[:1]))
