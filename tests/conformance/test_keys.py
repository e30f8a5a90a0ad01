"""Keys that stay behind: none without an end in time."""

from __future__ import annotations

from tests.support.world import World


def test_the_counters_of_an_idle_queue_are_forgotten_in_the_end(world: World) -> None:
    world.put("a")
    world.drain()
    world.maintain()
    assert world.lasting() == set()
