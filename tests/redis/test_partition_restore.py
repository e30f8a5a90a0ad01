"""A Redis that was restored or emptied decides what partitions a queue has; what lies outside of them is taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tenure.core.errors import Unreachable
from tenure.core.job import NewJob
from tenure.core.partitions import PartitionMap, place_of
from tenure.core.worker_view import WorkerView
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.redis.repartition import Change, map_of, other, parted, run_all
from tests.support.command import call
from tests.support.engines import NATIVE, list_again
from tests.support.native import audit
from tests.support.schedules import put, spec
from tests.support.stepping import stop_after, without
from tests.support.world import NAMESPACE, World


@pytest.fixture
def world(server: RedisServer) -> Iterator[World]:
    driver = SyncDriver(server.url)
    yield World(NATIVE, server, driver)
    driver.close()
    assert audit(server, NAMESPACE) == []


def snapshot(world: World) -> list[tuple[bytes, int, bytes]]:
    keys = world.command("KEYS", "*")
    return [(key, max(0, world.command("PTTL", key)), world.command("DUMP", key)) for key in keys]


def restore(world: World, found: list[tuple[bytes, int, bytes]]) -> None:
    world.command("FLUSHALL")
    for key, ttl_ms, data in found:
        world.command("RESTORE", key, ttl_ms, data)


def test_processes_that_know_a_later_change_follow_a_restored_redis(world: World) -> None:
    change = Change(world, 8)
    ids = [f"id-{n}" for n in range(80)]
    change.stale.put(*ids)
    saved = snapshot(world)
    run_all(change.stale)
    change.begin(3)
    change.end()
    producer, worker = other(world), other(world)
    producer.put("known")
    assert worker.take_ids() == ["known"]
    assert worker.engine.maps.known("q").number == 3
    restore(world, saved)

    producer.put_in("lane", "plain", "laned")
    worker.beat("w")
    assert sorted(run_all(worker)) == sorted([*ids, "plain", "laned"])
    assert map_of(producer) == map_of(other(world)) == PartitionMap(8, 1)
    assert other(world).counts() == {}


def test_processes_that_know_partitions_follow_an_emptied_redis(world: World) -> None:
    producer = parted(world, 8)
    worker = other(world)
    assert worker.take_ids() == ["first"]
    world.command("FLUSHALL")
    other(world).put("undeclared")
    ids = [f"id-{n}" for n in range(40)]
    producer.put(*ids)
    for n in range(8):
        producer.put_in(f"lane-{n}", f"laned-{n}")
    worker.beat("w")
    assert sorted(run_all(worker)) == sorted(["undeclared", *ids, *(f"laned-{n}" for n in range(8))])
    assert map_of(producer) == PartitionMap()


def test_a_producer_continues_while_the_node_with_the_list_of_queues_is_lost(world: World) -> None:
    lost, producer = [world.engine.shared()], other(world)
    producer.put("first")
    list_again(producer.engine, "q")
    producer.run(without(lost, producer.engine.enqueue([NewJob("q", "second", b"p")])))
    with pytest.raises(Unreachable):
        world.run(without(lost, other(world).engine.enqueue([NewJob("q", "third", b"p")])))
    assert other(world).counts() == {"ready": 2}


def test_a_worker_in_a_change_does_not_go_on_with_it_in_an_emptied_redis(world: World) -> None:
    change = Change(world, 4)
    change.stale.put("delayed", delay_ms=3_600_000)
    change.begin(8)
    change.one.maintain()
    world.command("FLUSHALL")
    other(world).put("new")
    change.one.maintain()
    assert map_of(other(world)) == PartitionMap()
    assert change.one.drain() == ["new"]


def test_a_map_that_is_lost_comes_back_from_the_partitions(world: World) -> None:
    producer = parted(world, 8)
    producer.put(*(f"id-{n}" for n in range(40)))
    world.command("DEL", f"{world.engine.shared()}:partitions")
    fresh = other(world)
    fresh.maintain()
    assert sorted(run_all(fresh)) == sorted(["first", *(f"id-{n}" for n in range(40))])
    assert map_of(other(world)) == PartitionMap(8, 1)


@pytest.mark.parametrize("dies_after", [None, 1, 4, 6, 9])
def test_jobs_outside_of_the_partitions_are_taken_back(world: World, dies_after: int | None) -> None:
    producer = parted(world, 8)
    ids = [f"id-{n}" for n in range(40)]
    producer.put(*ids)
    producer.put("later", delay_ms=3_600_000)
    world.command("DEL", f"{world.engine.shared()}:partitions")
    for partition in range(8):
        world.command("HDEL", world.key("settings", place_of("q", partition)), "map")
    worker = other(world, 8)
    worker.put("newer")
    worker.run(worker.engine.settings.configure("q", paused=True))
    outside = worker.run(worker.engine.partitions.partitions_outside("q"))
    assert set(outside) <= set(range(1, 8))
    assert outside
    if dies_after is not None:
        stop_after(dies_after, other(world, 8).engine.maintain(["q"], ["task"]), world.driver)
    worker.maintain()
    assert world.take() == []  # it is paused, in all partitions
    worker.run(worker.engine.settings.configure("q", paused=False))
    assert sorted(run_all(worker)) == sorted(["first", "newer", *ids])
    for _ in range(100):
        worker.maintain()
        if not map_of(worker).before:
            break
        world.command("DEL", world.key("mover_is"))
        for partition in range(8):
            world.command("HDEL", world.key("mover", place_of("q", partition)), "rest")
    assert map_of(worker).number == 1
    assert map_of(worker).before == 0
    assert worker.counts() == {"scheduled": 1}
    assert worker.run(worker.engine.partitions.partitions_outside("q")) == []


FIRST_USES: Final[dict[str, Callable[[World], object]]] = {
    "producer": lambda one: one.put("first"),
    "worker": lambda one: one.run(one.engine.announce(WorkerView("w", ("a", "q"), "host", 1, 1, 1, 1))),
    "claim": lambda one: one.take(1, "w", ["a", "q"]),
    "heartbeat": lambda one: one.beat("w", queues=("a", "q")),
    "maintenance": lambda one: one.maintain(),
    "settings": lambda one: one.run(one.engine.settings.configure("q", max_length=100)),
    "look": lambda one: one.counts(),
    "schedule": lambda one: put(one, spec(), 0),
}


@pytest.mark.parametrize("first", FIRST_USES)
def test_whoever_uses_a_queue_first_it_gets_the_partitions_of_the_code(world: World, first: str) -> None:
    FIRST_USES[first](other(world, 8))
    for use in FIRST_USES.values():
        use(other(world, 8))
    assert map_of(other(world)) == PartitionMap(8, 1)


def test_a_worker_that_lives_on_gives_an_emptied_redis_the_partitions_of_its_code(world: World) -> None:
    worker = other(world, 8)
    view = WorkerView("w", ("a", "q"), "host", 1, 1, 1, 1)
    worker.run(worker.engine.announce(view))
    world.command("FLUSHALL")
    worker.run(worker.engine.announce(view))
    other(world).put("first")
    assert map_of(other(world)) == PartitionMap(8, 1)
    assert worker.take_ids() == ["first"]


def test_check_tells_of_jobs_outside_of_the_partitions(world: World, tmp_path: Path) -> None:
    producer = parted(world, 8)
    producer.put(*(f"id-{n}" for n in range(40)))
    environment = {"TENURE_URL": world.server.url, "TENURE_NAMESPACE": NAMESPACE}
    assert "No jobs outside of the partitions of 1 queues." in call(["check"], tmp_path, environment).end().out
    world.command("HSET", f"{world.engine.shared()}:partitions", "q", "3:2:0")
    found = "Jobs lie in partitions that their queues do not have: q (3, 4, 5, 6, 7)"
    assert found in call(["check"], tmp_path, environment).end().out
    call(["configure", "q", "--partitions", "3"], tmp_path, environment).end()
    assert map_of(other(world)) == PartitionMap(3, 3, 8)
    assert sorted(run_all(producer)) == sorted(["first", *(f"id-{n}" for n in range(40))])
