"""What another program has written to one queue's records stops that queue, by its name, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tenure.core.errors import WrongState
from tenure.core.job import State
from tenure.core.shape import LaneState
from tenure.core.worker_view import WorkerView
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.repartition import map_of, other
from tests.support.command import call
from tests.support.engines import NATIVE
from tests.support.world import NAMESPACE, World

QUEUES: Final = ("bad", "good", "parted")
BOTH: Final = ("bad", "good")
MAPS: Final = ["99999999", "257", "-1", "0", "many", "4:2:99999999", "4:2", "9" * 5_000]
LENGTHS: Final = ["lots", "-5"]
CALLS: Final[dict[str, Callable[[World], object]]] = {
    "a look": lambda one: one.counts("bad"),
    "settings": lambda one: one.run(one.engine.settings_of("bad")),
    "an enqueue": lambda one: one.put("x", queue="bad"),
    "jobs": lambda one: one.run(one.engine.page("bad", State.READY)),
}


@pytest.fixture
def world(server: RedisServer) -> Iterator[World]:
    driver = SyncDriver(server.url)
    world = World(NATIVE, server, driver)
    world.engine.partitions.want_partitions("parted", 4)
    for queue in QUEUES:
        world.put(f"{queue} job", queue=queue)
    yield world
    driver.close()


def declared(world: World) -> World:
    """A process whose code gives one of the queues partitions."""
    there = other(world)
    there.engine.partitions.want_partitions("parted", 4)
    return there


def goes_on(world: World, call_key: str, field: str) -> None:
    """Check that workers serve the other queues, and that the bad one is named with its key."""
    worker = declared(world)
    leases = worker.take(5, "w", QUEUES)
    assert {"good job", "parted job"} <= {lease.record.id for lease in leases}
    worker.run(worker.engine.announce(WorkerView("w", QUEUES, "host", 1, 1, 1, 1)))
    assert not worker.beat("w", leases, QUEUES).lost
    for lease in leases:
        assert worker.settle(lease)
    worker.put("again", queue="good")
    assert worker.wait(list(QUEUES), 1_000) in QUEUES
    worker.run(worker.engine.leave("w", QUEUES))
    for name, made in CALLS.items():
        with pytest.raises(WrongState) as caught:
            made(other(world))
        assert call_key in str(caught.value), name
        assert field in str(caught.value), name


@pytest.mark.parametrize("text", MAPS, ids=lambda text: text[:12])
def test_a_map_of_partitions_that_is_none_stops_its_queue_only(world: World, text: str, tmp_path: Path) -> None:
    world.command("HSET", f"{world.engine.shared()}:partitions", "bad", text)
    goes_on(world, "{test}:partitions", "'bad'")
    environment = {"TENURE_URL": world.server.url, "TENURE_NAMESPACE": NAMESPACE}
    shown = call(["info"], tmp_path, environment).end(1)
    assert "good" in shown.out
    assert (
        "Queue 'bad' cannot be shown. Field 'bad' of the hash '{test}:partitions' must be a map of 1 to 256"
        in shown.err
    )
    assert "correct it with HSET." in shown.err
    assert "HDEL" not in shown.err, "without its map the queue would hide jobs"
    checked = call(["check"], tmp_path, environment).end()
    assert "Queue 'bad' could not be read: Field 'bad'" in checked.out
    assert "No jobs outside of the partitions of 2 queues." in checked.out


@pytest.mark.parametrize("text", LENGTHS)
def test_a_maximum_length_that_is_no_number_stops_its_queue_only(world: World, text: str) -> None:
    world.command("HSET", world.key("settings", "bad"), "max_length", text)
    goes_on(world, "{test:bad}:settings", "max_length")
    assert world.run(world.engine.settings.configure("bad", max_length=10)).max_length == 10


@pytest.mark.parametrize("text", ["xx", "3:99999999:0:0:0", "1:2", "-1:8:0:0:0"])
def test_a_note_of_a_map_that_is_none_is_written_again_or_named(world: World, text: str) -> None:
    worker = declared(World(world.entry, world.server, world.driver))
    worker.engine.partitions.want_partitions("new", 4)
    worker.put("first", queue="new")
    for queue in ("new", "good"):
        world.command("HSET", world.key("settings", queue), "map", text)
    worker.beat("w", queues=("new", "good"))
    worker.beat("w", queues=("new", "good"))
    worker.maintain()
    for n in range(8):
        worker.put_in(f"lane {n}", f"job {n}", queue="new")
    assert world.command("HGET", world.key("settings", "new"), "map") == b"1:4:0:0:0"
    assert other(world).counts("new") == {"ready": 9}
    [lease] = other(world).take(1, "w", ["good"])
    assert lease.record.id == "good job"


def test_a_name_that_no_queue_has_is_left_out_of_the_list(world: World, tmp_path: Path) -> None:
    names = ("x/notanumber", "a/3", "", ".", "no\nline")
    for name in names:
        world.command("ZADD", f"{world.engine.shared()}:queues", 9_999_999_999_999, name)
    environment = {"TENURE_URL": world.server.url, "TENURE_NAMESPACE": NAMESPACE}
    for words in (["info"], ["check"], ["schedules"], ["limits"]):
        call(words, tmp_path, environment).end()
    out = call(["info"], tmp_path, environment).end().out
    assert all(queue in out for queue in QUEUES)
    assert "notanumber" not in out


def test_a_parked_lane_that_another_program_has_written_is_named(world: World) -> None:
    world.command("HSET", world.key("parked", "bad"), "lane", "garbage here")
    with pytest.raises(WrongState, match=r"Field 'lane' of the hash '{test:bad}:parked' must be a time and an id"):
        world.run(world.engine.lanes.lane_page("bad", LaneState.PARKED))


def test_the_list_of_workers_is_shown_beside_a_queue_whose_map_is_none(world: World) -> None:
    world.run(world.engine.announce(WorkerView("w", ("bad", "x/y", "good"), "host", 1, 1, 1, 1)))
    world.command("HSET", f"{world.engine.shared()}:partitions", "bad", "-1")
    assert [one.id for one in other(world).run(world.engine.workers())] == ["w"]


def test_data_in_place_of_the_maps_is_named_and_stops_only_processes_that_have_not_read_them(
    world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    key: Any = f"{world.engine.shared()}:partitions"
    worker = declared(world)
    assert len(worker.take(5, "w", QUEUES)) == 3
    world.command("DEL", key)
    world.command("SET", key, "x")
    for made in CALLS.values():
        with pytest.raises(WrongState, match=r"The key '{test}:partitions' at"):
            made(other(world))
    fresh = other(world)
    leased = fresh.run(fresh.engine.lease("v", QUEUES, 5))
    assert [one.queue for one in leased.refused if "The key '{test}:partitions' at" in one.reason] == list(QUEUES)
    shown = call(["info"], tmp_path, {"TENURE_URL": world.server.url, "TENURE_NAMESPACE": NAMESPACE}).end(1)
    assert "Queues 'bad', 'good', 'parted' cannot be shown. The key '{test}:partitions' at" in shown.err

    known = worker.engine.maps._known
    known.update({queue: one._replace(until=0.0) for queue, one in known.items()})  # time passes
    for queue in QUEUES:
        world.put_in("lane", f"next {queue}", queue=queue)
    assert {lease.record.id for lease in worker.take(5, "w", QUEUES)} == {f"next {queue}" for queue in QUEUES}
    assert caplog.text.count("redis_refused what=partitions error=\"The key '{test}:partitions' at") == 1

    world.command("DEL", key)
    assert other(world).put("x", queue="good") == [True]
    other(world).put_in("lane", "last", queue="parted")
    assert other(world).run(world.engine.partitions.partition_count("parted")) == 4


def test_a_map_that_is_corrected_is_followed(world: World) -> None:
    key: Any = f"{world.engine.shared()}:partitions"
    world.command("HSET", key, "bad", "many")
    worker = other(world)
    with pytest.raises(WrongState):
        worker.take(1, "w", ["bad"])
    world.command("HDEL", key, "bad")
    assert {lease.record.id for lease in worker.take(2, "w", BOTH)} == {"bad job", "good job"}
    assert map_of(other(world)).version == 0
