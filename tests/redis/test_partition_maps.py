"""The map of a queue's partitions: who has an old one is refused, and follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import pytest

from tenure.core.errors import QueueFull, ReplyError, Unreachable
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed
from tenure.core.partitions import PartitionMap, home_of, place_of
from tenure.core.shape import LaneFailure, QueueSettings, Shape
from tenure.core.steps import Command, Invoke, Reply
from tenure.core.waiting import Lead, Wake
from tenure.engines.kit.scripts import load
from tenure.engines.native.keys import encoded
from tenure.engines.native.partitions.maps import KnownMap
from tenure.engines.native.scripts import WORDS
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.repartition import map_of, other, parted, run_all
from tests.support.engines import NATIVE
from tests.support.native import audit
from tests.support.stepping import Send, Session, send_with, step, stop_after, without
from tests.support.world import NAMESPACE, World


@pytest.fixture
def world(server: RedisServer) -> Iterator[World]:
    driver = SyncDriver(server.url)
    yield World(NATIVE, server, driver)
    driver.close()
    assert audit(server, NAMESPACE) == []


def test_a_process_with_an_old_map_is_refused_and_follows(world: World) -> None:
    stale, changer = parted(world, 4), other(world)
    world.run(changer.engine.maps.install("q", PartitionMap(4, version=2)))
    calls = {
        "a plain job": lambda: stale.put("plain"),
        "a job of a lane": lambda: stale.put_in("lane", "laned"),
        "an id of its own": lambda: stale.put("mine", own_id=True),
        "a retry": lambda: stale.retry("nothing"),
        "a lane that is parked": lambda: stale.run(stale.engine.lanes.park_lane("q", "parked")),
        "a purge": lambda: stale.purge(State.FAILED),
        "a lookup": lambda: stale.job("nothing"),
    }
    for name, call in calls.items():
        stale.engine.maps._known["q"] = KnownMap(PartitionMap(4, 1), float("inf"))
        call()
        assert stale.engine.maps.known("q") == PartitionMap(4, 2), name
    assert world.counts() == {"ready": 4}


def test_a_process_that_knows_of_no_partitions_is_refused_where_it_matters(world: World) -> None:
    stale = other(world)
    stale.put("first")
    world.run(other(world).engine.maps.install("q", PartitionMap(1, version=2)))
    laned = [NewJob("q", "x", b"p", shape=Shape(lane="a"))]
    with pytest.raises(ReplyError, match="TNMAP"):
        world.run(stale.engine.native.add_to("q", laned, [0], {}, stale.engine.native.add))
    stale.put("plain")
    assert stale.engine.maps.known("q").version == 0
    stale.put_in("lane", "laned")
    assert stale.engine.maps.known("q").version == 2


def test_a_worker_learns_of_a_new_map_by_its_heartbeat(world: World) -> None:
    worker = parted(world, 2)
    world.run(other(world).engine.maps.install("q", PartitionMap(2, version=2)))
    for _ in range(3):
        worker.beat("w")
    worker.take()
    assert worker.engine.maps.known("q").version == 2


def test_an_idle_worker_learns_of_a_new_map_by_its_maintenance(world: World) -> None:
    worker = other(world)
    worker.put("first")
    worker.finish(*worker.take())
    one = other(world)
    one.run(one.engine.partitions.repartition("q", 4))
    assert isinstance(worker.engine.wait("w", ["q"], 100), Lead)
    worker.maintain()
    worker.take()
    assert isinstance(worker.engine.wait("w", ["q"], 100), Wake)
    assert worker.engine.maps.known("q").places == 4


@pytest.mark.parametrize("calls", range(6))
def test_a_change_whose_process_has_died_is_completed_by_those_that_meet_it(world: World, calls: int) -> None:
    stale = parted(world, 4)
    stop_after(calls, other(world).engine.maps.install("q", PartitionMap(4, version=2)), world.driver)
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
    stop_after(1, one.install("q", PartitionMap(2, 2)), world.driver)
    assert world.run(two.install("q", PartitionMap(1, 2))) == PartitionMap(2, 2)


@pytest.mark.parametrize("key", ["plain", "lane ü", "100% a/b:c"])
def test_lua_and_python_agree_where_a_job_belongs(world: World, key: str) -> None:
    script = load("tenure.engines.native", WORDS, ["move"])["move"].text
    head = script[: script.index("local move, only")]
    text = head + "local found = {}; for n = 1, #ARGV do found[n] = homes.of(ARGV[n], '') end; return found"
    for number in (1, 2, 7, 256):
        prefix = world.engine.prefix("q")
        world.command("HSET", f"{prefix}:settings", "map", f"1:{number}:0:0:0")
        keys = [f"{key} {n}" for n in range(100)]
        found = world.command("EVAL", text, 1, prefix, *keys)
        assert found == [home_of(one, number) for one in keys]
    decoded = head + "return {homes.of_lane(ARGV[1]), homes.of_key(ARGV[1])}"
    found = world.command("EVAL", decoded, 1, prefix, encoded(key))
    assert found == [home_of(f"lane {key}", 256), home_of(f"key {key}", 256)]


def test_of_two_changes_with_one_version_only_its_own_end_ends_one(world: World) -> None:
    """One process gives up the announcement of a change while another one makes the change."""
    parted(world, 1)
    one, two = other(world).engine.maps, other(world).engine.maps
    world.run(one.install("q", PartitionMap(1, 1, before=1)))
    late = two.install("q", PartitionMap(1, 2))
    world.run(one.install("q", PartitionMap(8, 2, before=1)))
    assert world.run(late) == PartitionMap(8, 2, before=1)
    assert world.run(two.write("q", PartitionMap(1, 2))) == PartitionMap(8, 2, before=1)
    assert map_of(other(world)) == PartitionMap(8, 2, before=1)


def test_settings_come_with_the_first_note_of_a_map_and_no_later_copy_takes_newer_ones_back(world: World) -> None:
    parted(world, 1)
    one = other(world)
    one.run(one.engine.settings.configure("q", paused=True, max_length=100))
    late = other(world).engine.maps.install("q", PartitionMap(4, 2, before=1, max_length=100))
    stop_after(2, late, world.driver)
    one.run(one.engine.maps.install("q", PartitionMap(4, 2, before=1, max_length=100)))
    assert [one.command("HGET", one.key("settings", place_of("q", n)), "paused") for n in range(4)] == [b"1"] * 4
    one.run(one.engine.settings.configure("q", paused=False, max_length=0))
    one.run(other(world).engine.maps.install("q", PartitionMap(4, 2, before=1, max_length=100)))
    for partition in range(4):
        found = one.command("HMGET", one.key("settings", place_of("q", partition)), "paused", "max_length")
        assert found == [None, None], partition


def test_a_change_that_a_lost_node_could_not_note_is_not_begun(world: World) -> None:
    parted(world, 1)
    one = other(world)
    with pytest.raises(Unreachable):
        one.run(without([one.engine.prefix("q/3")], one.engine.partitions.repartition("q", 4)))
    assert one.command("HGET", one.key("settings"), "map") is None
    assert map_of(other(world)) == PartitionMap(1, 0)


def test_a_partition_that_comes_back_has_no_share_of_an_earlier_maximum_length(world: World) -> None:
    maps, engine = other(world).engine.maps, other(world).engine
    parted(world, 1)
    world.run(maps.install("q", PartitionMap(4, 2, before=1, max_length=8)))
    for map in (PartitionMap(4, 2), PartitionMap(2, 3, before=4, max_length=8), PartitionMap(2, 3)):
        world.run(maps.install("q", map))
    world.run(engine.settings.configure("q", max_length=0))
    world.run(maps.install("q", PartitionMap(4, 4, before=2)))
    found = [world.command("HGET", world.key("settings", place_of("q", n)), "max_length") for n in range(4)]
    assert found == [None] * 4


def test_a_worker_continues_by_the_map_that_it_knows_while_a_lost_node_cannot_note_the_new_one(world: World) -> None:
    worker = parted(world, 2)
    stop_after(1, other(world).engine.maps.install("q", PartitionMap(4, 2, before=2)), world.driver)
    lost = [world.engine.prefix("q/3")]
    world.run(without(lost, worker.engine.heartbeat("w", ["q"], [])))
    leased = world.run(without(lost, worker.engine.lease("w", ["q"], 1)))
    assert [lease.record.id for lease in leased.leases] == ["first"]
    assert world.run(without(lost, worker.engine.settle([(leased.leases[0], Completed(b"", 0))]))) == [True]
    with pytest.raises(Unreachable):
        worker.run(without(lost, worker.engine.enqueue([NewJob("q", "x", b"p", shape=Shape(lane="a"))])))


DECLARED: Final[dict[str, tuple[int, Callable[[World], object]]]] = {
    "before the settings": (4, lambda one: None),
    "by a producer, after the settings": (0, lambda one: one.put("first")),
    "by a look, after the settings": (0, lambda one: one.counts()),
    "by an operator, after the settings": (0, lambda one: one.run(one.engine.partitions.repartition("q", 4))),
}


@pytest.mark.parametrize("declared", DECLARED)
def test_settings_from_before_the_first_use_hold_in_all_partitions(world: World, declared: str) -> None:
    partitions, use = DECLARED[declared]
    early = other(world, partitions)
    wanted = QueueSettings(10, LaneFailure.BLOCK, paused=True)
    early.run(early.engine.settings.configure("q", max_length=10, lane_failure=LaneFailure.BLOCK, paused=True))
    use(other(world, 4))
    late = other(world, 4)
    assert late.run(late.engine.settings_of("q")) == wanted
    for number in range(40):
        with suppress(QueueFull):
            late.put(f"job {number}")
    assert late.counts()["ready"] == 10
    assert late.take(40) == []
    assert late.run(late.engine.settings_of("q")) == wanted
    late.run(late.engine.settings.configure("q", paused=False))
    assert len(run_all(late)) == 10


def test_a_process_that_lives_on_sets_all_partitions_of_an_emptied_redis(world: World) -> None:
    producer = parted(world, 4)
    world.command("FLUSHALL")
    producer.run(producer.engine.settings.configure("q", max_length=10, paused=True))
    assert other(world).run(other(world).engine.settings_of("q")) == QueueSettings(10, paused=True)


@pytest.mark.parametrize("calls", range(8))
def test_settings_hold_although_the_process_dies_that_gives_a_queue_its_first_map(world: World, calls: int) -> None:
    early = other(world)
    early.run(early.engine.settings.configure("q", max_length=10, paused=True))
    stop_after(calls, other(world, 4).engine.maps.ask("q"), world.driver)
    late = other(world, 4)
    for number in range(40):
        with suppress(QueueFull):
            late.put(f"job {number}")
    assert late.run(late.engine.settings_of("q")) == QueueSettings(10, paused=True)
    assert late.counts()["ready"] == 10


@pytest.mark.parametrize("at", range(1, 8))
def test_settings_that_a_late_note_takes_back_are_set_again(world: World, at: int) -> None:
    """One process gives a queue its first map while another one, which knows the map, resumes the queue."""
    early = other(world)
    early.run(early.engine.settings.configure("q", paused=True))
    first, late = other(world), other(world)
    world.run(first.engine.maps._stored("q", 4))

    def fate(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number == at:
            late.run(late.engine.settings.configure("q", paused=False))
        return send(call)

    step(first.engine.maps.install("q", PartitionMap(4, 1)), Session("first"), send_with(world.driver), fate)
    paused = [world.command("HGET", world.key("settings", place_of("q", n)), "paused") for n in range(4)]
    assert paused == [None] * 4


def test_a_maximum_length_below_the_number_of_partitions_is_a_maximum_in_each(world: World) -> None:
    early = other(world)
    early.run(early.engine.settings.configure("q", max_length=2))
    late = other(world, 4)
    assert late.run(late.engine.settings_of("q")).max_length == 4


def test_a_queue_with_settings_that_a_producer_without_partitions_uses_first_keeps_one(world: World) -> None:
    early = other(world)
    early.run(early.engine.settings.configure("q", paused=True))
    assert early.run(early.engine.queues()) == ["q"]
    other(world).put("first")
    other(world, 4).put("second")
    assert map_of(other(world, 4)) == PartitionMap()
    assert other(world, 4).take() == []
