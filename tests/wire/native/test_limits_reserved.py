"""A job with several limits starts also when other jobs keep each of them full."""

from __future__ import annotations

import time

import pytest

from tenure.core.job import Lease, NewJob
from tenure.core.rates import LimitRule
from tenure.core.shape import Shape
from tenure.engines.native.config import RESERVE_AFTER_MS
from tests.support.world import World

A, B = LimitRule("a", concurrency=1), LimitRule("b", concurrency=1)


def put(world: World, id: str, *limits: LimitRule, queue: str = "q") -> None:
    world.enqueue([NewJob(queue, id, b"p", shape=Shape(limits=limits))])


class Floods:
    """Jobs of each limit: one of them always holds its place, so both limits are never free at one moment."""

    def __init__(self, world: World, queue: str = "q", b: LimitRule = B) -> None:
        self.world, self.flood, self.number = world, queue, 0
        self.limits = {"a": A, "b": b}
        for _ in range(5):
            self.put("a")
            self.put("b")
        self.held: list[Lease] = []
        self.started: list[str] = []
        self.take()

    def put(self, kind: str) -> None:
        self.number += 1
        put(self.world, f"{kind}{self.number}", self.limits[kind], queue=self.flood)

    def take(self) -> None:
        """Start what may start, and let another job follow it."""
        queues = tuple(dict.fromkeys(("q", self.flood)))
        leases = [lease for _ in range(3) for lease in self.world.take(10, "w", queues)]
        self.held += leases
        for lease in leases:
            id = lease.record.id
            self.started.append(id)
            if id[1:].isdigit():
                self.put(id[0])

    def turn(self) -> None:
        """The job that has run for longest ends, and what may start does."""
        if self.held:
            self.world.finish(self.held.pop(0))
        self.take()

    def until(self, id: str, turns: int) -> None:
        for _ in range(turns):
            if id in self.started:
                return
            self.turn()
        raise AssertionError(f"{id} has not started; {self.started[-10:]} have")

    def has_waited(self) -> None:
        """Play on until a job that waits now may keep places free for itself, and has had a chance to."""
        end = time.monotonic() + 1.5 * RESERVE_AFTER_MS / 1000
        while time.monotonic() < end:
            self.turn()


@pytest.mark.parametrize("queue", ["q", "other"])
def test_behind_floods_of_each_of_its_limits(world: World, queue: str) -> None:
    floods = Floods(world, queue)
    put(world, "both", A, B)
    floods.has_waited()
    floods.until("both", 10)
    before = len(floods.started)
    for _ in range(6):
        floods.turn()
    assert len(floods.started) > before + 3, "the others go on"


def test_two_such_jobs_do_not_wait_for_each_other(world: World) -> None:
    floods = Floods(world)
    put(world, "ab", A, B)
    put(world, "ba", B, A)
    floods.has_waited()
    floods.until("ab", 200)
    floods.until("ba", 200)


def test_places_above_its_cost_stay_free_for_others(world: World) -> None:
    wide = LimitRule("b", concurrency=3)
    floods = Floods(world, b=wide)
    put(world, "both", A, wide)
    floods.has_waited()
    floods.until("both", 20)
    for _ in range(20):
        assert world.run(world.engine.limits.limit("b")).active >= 2
        floods.turn()


@pytest.mark.parametrize("end", ["cancel", "pause"])
def test_when_it_cannot_start_any_more_its_places_are_for_others(world: World, end: str) -> None:
    floods = Floods(world, "other")
    put(world, "both", A, B)
    while not world.command("HLEN", "{test}:reserved"):
        floods.turn()
    if end == "cancel":
        world.run(world.engine.cancel("q", "both"))
    else:
        world.run(world.engine.settings.configure("q", paused=True))
    before = len(floods.started)
    while len(floods.started) <= before + 4:
        floods.turn()
    assert "both" not in floods.started


def test_other_data_in_the_queue_of_the_reservation_stops_nobody(world: World) -> None:
    floods = Floods(world, "other")
    put(world, "both", A, B)
    while not world.command("HLEN", "{test}:reserved"):
        floods.turn()
    until, cost, queue, lane = world.command("HGET", "{test}:reserved", "a").decode().split(" ")
    world.command("SET", "{test:foreign}:meta", "text")
    for limit in ("a", "b"):
        world.command("HSET", "{test}:reserved", limit, f"{until} {cost} {{test:foreign}} {lane}")
    assert queue == "{test:q}"
    before = len(floods.started)
    while len(floods.started) <= before + 4:
        floods.turn()
    world.command("DEL", "{test:foreign}:meta")
