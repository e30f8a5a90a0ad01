"""A queue whose number of partitions changes, as its producers and workers see it."""

from __future__ import annotations

from tenure.core.outcome import Completed, Outcome
from tenure.core.partitions import PartitionMap, place_of
from tests.support.world import World


def other(world: World, partitions: int = 0) -> World:
    """Another process."""
    there = World(world.entry, world.server, world.driver)
    if partitions:
        there.engine.partitions.want_partitions("q", partitions)
    return there


def parted(world: World, partitions: int) -> World:
    """A process that knows the first map of the queue."""
    there = other(world, partitions)
    there.put("first")
    return there


def map_of(world: World) -> PartitionMap:
    return world.run(world.engine.maps.ask("q"))


def run_all(world: World, outcome: Outcome | None = None) -> list[str]:
    """Run all jobs that are ready, or become so."""
    ran: list[str] = []
    while world.counts().get("ready"):
        for lease in world.take(7):
            assert world.settle(lease, outcome or Completed(b"", 0))
            ran.append(lease.record.id)
    return ran


class Change:
    """A queue whose number of partitions changes."""

    def __init__(self, world: World, before: int) -> None:
        self.world = world
        self.stale = other(world, before)
        self.stale.put("first")
        self.stale.finish(*self.stale.take())
        self.one = other(world)

    def begin(self, number: int) -> None:
        self.one.run(self.one.engine.partitions.repartition("q", number))
        assert self.map.number == number
        assert self.map.before

    @property
    def map(self) -> PartitionMap:
        return map_of(self.one)

    def end(self, rounds: int = 300) -> None:
        """Workers maintain the queue until the change is over."""
        for _ in range(rounds):
            self.one.maintain()
            if not self.map.before:
                return
            for place in range(self.map.places):
                self.world.command("HDEL", self.world.key("mover", place_of("q", place)), "rest")
            self.world.command("DEL", self.world.key("mover_is"))
        raise AssertionError([self.rest(place) for place in range(self.map.places)])

    def rest(self, place: int) -> object:
        return self.world.command("HGETALL", self.world.key("mover", place_of("q", place)))


CHANGES = [(1, 4), (4, 8), (8, 2), (3, 1)]
