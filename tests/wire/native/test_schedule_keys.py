"""Another program's data in the place of a schedule's keys."""

from __future__ import annotations

import pytest

from tenure.core.errors import WrongState
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
        world.run(world.engine.schedules.tick("q", one))
    assert world.dump() == before
