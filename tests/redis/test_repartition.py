"""The number of partitions of a queue changes while producers and workers use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leasehold.core.errors import ReplyError
from leasehold.core.job import NewJob
from leasehold.core.partitions import PartitionMap, place_of
from leasehold.core.shape import Shape
from leasehold.redis.sync import SyncDriver
from leasehold.testing.server import RedisServer
from tests.support.engines import NATIVE
from tests.support.stepping import stop_after
from tests.support.world import World


@pytest.fixture
def world(server: RedisServer) -> Iterator[World]:
    driver = SyncDriver(server.url)
    yield World(NATIVE, server, driver)
    driver.close()


def other(world: World, partitions: int = 1) -> World:
    """Another process."""
    there = World(world.entry, world.server, world.driver)
    there.engine.want_partitions("q", partitions)
    return there


def parted(world: World, partitions: int) -> World:
    """A process that knows the first map of the queue."""
    there = other(world, partitions)
    there.put("first")
    return there


def map_of(world: World) -> PartitionMap:
    return world.run(world.engine.maps.ask("q"))


def test_a_process_with_an_old_map_is_refused_and_follows(world: World) -> None:
    stale, changer = parted(world, 4), other(world)
    world.run(changer.engine.maps.complete("q", PartitionMap(4, version=2)))
    calls = {
        "a plain job": lambda: stale.put("plain"),
        "a job of a lane": lambda: stale.put_in("lane", "laned"),
        "an id of its own": lambda: stale.put("mine", own_id=True),
        "a retry": lambda: stale.retry("nothing"),
    }
    for name, call in calls.items():
        stale.engine.maps._known["q"] = (PartitionMap(4, 1), float("inf"))
        call()
        assert stale.engine.maps._known["q"][0] == PartitionMap(4, 2), name
    assert world.counts() == {"ready": 4}


def test_a_process_that_knows_of_no_partitions_is_refused_where_it_matters(world: World) -> None:
    stale = other(world)
    stale.put("first")
    world.run(other(world).engine.maps.complete("q", PartitionMap(1, version=2)))
    laned = [NewJob("q", "x", b"p", shape=Shape(lane="a"))]
    with pytest.raises(ReplyError, match="LHMAP"):
        world.run(stale.engine._add_to("q", laned, [0], {}, stale.engine._add))
    stale.put("plain")
    assert stale.engine.maps._known["q"][0].version == 0
    stale.put_in("lane", "laned")
    assert stale.engine.maps._known["q"][0].version == 2


def test_a_worker_learns_of_a_new_map_by_its_heartbeat(world: World) -> None:
    worker = parted(world, 2)
    world.run(other(world).engine.maps.complete("q", PartitionMap(2, version=2)))
    for _ in range(3):
        worker.beat("w")
    worker.take()
    assert worker.engine.maps._known["q"][0].version == 2


@pytest.mark.parametrize("calls", range(6))
def test_a_change_whose_process_has_died_is_completed_by_those_that_meet_it(world: World, calls: int) -> None:
    stale = parted(world, 4)
    stop_after(calls, other(world).engine.maps.complete("q", PartitionMap(4, version=2)), world.driver)
    for number in range(20):
        stale.put_in(f"lane {number}", f"job {number}")
    changed = calls > 0
    assert map_of(other(world)) == PartitionMap(4, 1 + changed)
    if changed:
        noted = [world.command("HGET", world.key("settings", place_of("q", n)), "map") for n in range(4)]
        assert noted == [f"2:4:0:{n}:0".encode() for n in range(4)]
    assert world.counts() == {"ready": 21}


def test_of_two_changes_at_one_time_one_wins(world: World) -> None:
    parted(world, 2)
    one, two = other(world).engine.maps, other(world).engine.maps
    stop_after(1, one.complete("q", PartitionMap(2, 2)), world.driver)
    assert world.run(two.complete("q", PartitionMap(1, 2))) == PartitionMap(2, 2)
