"""Jobs on their way between queues, by the keys that have them."""

from __future__ import annotations

from tenure.core.job import NewJob
from tenure.core.outcome import Completed
from tests.support.world import World

HOUR_US = 3_600_000_000


def test_numbers_grow_although_the_clock_was_set_back(world: World) -> None:
    """The other queue ignores what has no higher number than the last that it took."""
    world.put("a")
    lease = world.take_one()
    world.command("HSET", world.key("meta"), "sent", int(world.command("TIME")[0]) * 1_000_000 + HOUR_US)
    jobs = tuple(NewJob("other", id, b"p") for id in ("b", "c"))
    assert world.settle(lease, Completed(b"", 0, jobs))
    assert world.take_ids(queues=("other",)) == ["b", "c"]
