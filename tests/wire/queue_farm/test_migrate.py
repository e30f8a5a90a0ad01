"""Moving jobs to lanes of the native protocol: nothing is lost or doubled, and each lane keeps its order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from tenure.core.errors import QueueFull
from tenure.core.job import State
from tenure.core.outcome import Completed
from tenure.core.shape import Shape
from tenure.core.steps import Command, Invoke, Reply
from tenure.engines.kit.config import HOLD_MS
from tenure.engines.kit.moving import Moved
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.moves import move
from tests.support.stepping import Crashed, Send, Session, attempt, send_with, step
from tests.support.world import World
from tests.wire.queue_farm.player import BASE, Original

NATIVE = PartitionedEngine("shop")
PAGES_MOST = 100


@pytest.fixture
def driver(server: RedisServer) -> Iterator[SyncDriver]:
    """With the rights to both protocols."""
    driver = SyncDriver(server.url, patience_ms=20_000, reply_timeout_ms=20_000)
    yield driver
    driver.close()


def page(world: World) -> Moved:
    return world.run(move(world.engine, "q", NATIVE, "images"))


def migrate(world: World) -> int:
    moved = 0
    for _ in range(PAGES_MOST):
        found = page(world)
        if not found.looked:
            return moved
        moved += found.count
    raise AssertionError("there is no end to it")


def drained(world: World) -> dict[str, list[str]]:
    """The jobs by lane, in the order in which they ran; with the keys removed."""
    lanes: dict[str, list[str]] = {}
    while leases := world.run(NATIVE.lease("n", ["images"], 100)).leases:
        assert all(world.run(NATIVE.settle([(lease, Completed(b"", 0)) for lease in leases])))
        for lease in leases:
            lanes.setdefault(lease.record.shape.lane or "", []).append(lease.record.id)
    for name in world.command("KEYS", "*shop*"):
        world.command("DEL", name)
    return lanes


def test_lanes_move_in_their_order_and_those_with_active_jobs_stay(world: World) -> None:
    lanes = {f"l{n}": [f"{n}-{i}" for i in range(7)] for n in range(60)}
    for i in range(7):
        for lane, ids in lanes.items():
            world.put_in(lane, ids[i], own_id=True)
    world.put_in("held", "h1", "h2")
    world.run(world.engine.lanes.park_lane("q", "l0"))
    world.take(61)
    world.run(world.engine.leave("w", ["q"]))
    world.run(world.engine.lanes.resume_lane("q", "l0"))
    theirs = Original(world)
    theirs.take("held")
    assert migrate(world) == 7 * 60
    assert drained(world) == lanes
    assert world.counts() == {"ready": 1, "active": 1}
    world.pass_time(HOLD_MS + 100)
    theirs.finish("held")
    assert world.take_ids() == ["h2"]
    assert world.counts() == {"active": 1}
    assert not world.command("KEYS", f"{BASE}:job:0-*")


def test_a_job_moves_as_it_is(world: World) -> None:
    world.put_in("L", "a", task="t", payload=b'[["x"],{}]', timeout_ms=1_000, retries=7, own_id=True)
    id = Original(world).push("L", '{"n": 1}', attempts=4, timeout=500)
    assert migrate(world) == 2
    (first,) = world.run(NATIVE.lease("n", ["images"], 5)).leases
    record = first.record
    assert (record.id, record.task, record.payload, record.timeout_ms, record.retries, record.shape) == (
        "a",
        "t",
        b'[["x"],{}]',
        1_000,
        7,
        Shape(lane="L"),
    )
    view = world.run(NATIVE.job("images", id))
    assert view is not None
    assert (view.payload, view.timeout_ms) == (b'{"n": 1}', None), "the timeout of an original limits no run"
    assert drained(world) == {}


def test_what_has_finished_does_not_move_and_the_lane_without_a_name_stays(world: World) -> None:
    theirs = Original(world, keeps=True)
    done, id = theirs.push("L"), theirs.push("L")
    theirs.take("L")
    theirs.finish("L")
    theirs.fail("L")  # late: the job waits again
    nameless = theirs.push("")
    assert migrate(world) == 1
    assert drained(world) == {"L": [id]}
    assert not world.command("EXISTS", f"{BASE}:job:{done}")
    assert world.command("LRANGE", f"{BASE}:queue:", 0, -1) == [nameless.encode()]
    world.pass_time(HOLD_MS + 100)
    assert world.take_ids() == [nameless]


def test_a_full_target_returns_all_to_their_places(world: World) -> None:
    world.put_in("L", *"abcde", own_id=True)
    world.command("HSET", f"{BASE}:job:c", "attempts", 2, "tenure:crashes", 1)
    world.run(NATIVE.configure("images", max_length=3))
    with pytest.raises(QueueFull):
        page(world)
    assert world.in_lane("L") == list("abcde")
    assert world.command("HGET", f"{BASE}:job:c", "attempts") == b"2"
    assert world.take_ids(of_lane=5) == list("abcde")
    world.leave()
    drained(world)


def test_an_id_that_is_taken_stays(world: World) -> None:
    world.put_in("L", *"abc", own_id=True)
    assert page(world).count == 3
    world.put_in("L", "b", "d", own_id=True)
    moved = page(world)
    assert (moved.count, moved.refused) == (1, ("b",))
    assert drained(world) == {"L": ["a", "b", "c", "d"]}
    assert world.ids(State.READY) == ["b"]


@pytest.mark.parametrize("executed", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_move_that_was_interrupted_continues(world: World, k: int, executed: bool) -> None:
    lanes = {lane: [f"{lane}{n}" for n in range(4)] for lane in "AB"}
    for lane, ids in lanes.items():
        world.put_in(lane, *ids, own_id=True)

    def crash(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number < k:
            return send(call)
        if executed:
            attempt(send, call)
        raise Crashed

    with suppress(Crashed):
        step(move(world.engine, "q", NATIVE, "images"), Session("s"), send_with(world.driver), crash)
    if k == 2:
        world.put_in("A", "late", own_id=True)
        assert world.take_ids() == [], "the lane waits for its jobs that are on their way"
        lanes["A"].append("late")
    migrate(world)
    assert drained(world) == lanes
    assert world.counts() == {}
