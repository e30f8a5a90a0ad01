"""Another program's data in the place of the list of a lane or of a priority: the queue stops until it is removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.errors import WrongState
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Completed, Failed, Released, Retried, Unroutable
from tenure.core.shape import Conflict, Shape, UniqueRule, Until
from tenure.core.values import replace
from tenure.engines.kit.config import HOLD_MS
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.world import BOOM, World

pytestmark = pytest.mark.garbage

SHAPES = {"lane:L": Shape(lane="L", lane_limit=10), "ready:5": Shape(priority=5)}


@pytest.fixture(params=SHAPES)
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def setup(world: World, shape: Shape) -> list[Lease]:
    """Jobs with this shape: failed, parked, and three that `w` holds, with a plain one before and behind them."""
    world.put("f", "u", task="t", shape=shape)
    world.settle_each(world.take(), Failed(BOOM), Unroutable())
    world.put("s", delay_ms=5_000, shape=shape)
    world.put("a")
    held = world.take()
    world.put("b1", "b2", "b3", shape=shape)
    held += world.take()
    world.put("c")
    held += world.take()
    assert [lease.record.id for lease in held] == ["a", "b1", "b2", "b3", "c"]
    return held


def settle(outcome: Any) -> Callable[[World, Shape, list[Lease]], Any]:
    return lambda world, shape, held: world.settle_each(
        held, *[Completed(b"r", 60_000), outcome, outcome, outcome, outcome]
    )


def enqueue(world: World, shape: Shape, held: list[Lease]) -> None:
    world.enqueue([NewJob("q", "n1", b""), NewJob("q", "n2", b"", shape=shape)])


def due(world: World, shape: Shape, held: list[Lease]) -> None:
    world.pass_time(5_100)
    world.maintain()


def die(world: World, shape: Shape, held: list[Lease]) -> None:
    world.pass_time(LEASE_MS + 50)
    world.maintain()
    world.pass_time(GRACE_MS + 50)
    world.maintain()


OPERATIONS: dict[str, Callable[[World, Shape, list[Lease]], Any]] = {
    "enqueue": enqueue,
    "retried": settle(Retried(BOOM)),
    "released": settle(Released()),
    "retry": lambda world, shape, held: world.retry("f"),
    "unpark": lambda world, shape, held: world.maintain(["t"]),
    "due": due,
    "leave": lambda world, shape, held: world.leave("w"),
    "leave, crashed": lambda world, shape, held: world.leave("w", True),
    "die": die,
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_refused_as_a_whole_until_the_data_is_gone(world: World, suffix: str, operation: str) -> None:
    held = setup(world, SHAPES[suffix])
    world.command("SET", world.key(suffix), "x")
    before = world.ids(State.SCHEDULED), world.ids(State.ACTIVE)
    with pytest.raises(WrongState):
        OPERATIONS[operation](world, SHAPES[suffix], held)
    assert (world.ids(State.SCHEDULED), world.ids(State.ACTIVE)) == before
    assert world.command("GET", world.key(suffix)) == b"x"
    world.command("DEL", world.key(suffix))
    OPERATIONS[operation](world, SHAPES[suffix], held)
    world.leave("w")
    world.pass_time(6_000)
    world.maintain(["t"])
    completed = {"a"} if operation in ("retried", "released") else set()
    assert {"s", "u", "a", "b1", "b2", "b3", "c"} <= completed | {*world.drain()}
    world.audit()


def take_on(world: World, took: set[str]) -> None:
    for n in range(100):
        took |= set(world.take_ids(7, f"w{n}"))


def test_a_claim_that_meets_the_data_loses_nothing(world: World) -> None:
    """It ends with the jobs that it has, or with the error if it has none."""
    for n in range(30):
        world.put_in(f"L{n}", f"l{n}")
        world.put_at(n % 10 - 5, f"p{n}")
    wanted = {f"{letter}{n}" for letter in "lp" for n in range(30)}
    spoilt = ("lane:L7", "ready:-5", "ready:4")
    for suffix in spoilt:
        world.command("RENAME", world.key(suffix), world.key("aside") + suffix)
        world.command("SET", world.key(suffix), "x")
    took: set[str] = set()
    for suffix in reversed(spoilt):
        with pytest.raises(WrongState):
            take_on(world, took)
        assert took < wanted
        world.command("RENAME", world.key("aside") + suffix, world.key(suffix))
    take_on(world, took)
    assert took == wanted
    world.audit()


@pytest.mark.parametrize("purge", [True, False], ids=["purge", "cancel"])
@pytest.mark.parametrize("suffix", ["ready:5", "ready", "lane:L", "lane:P", "ready:-5"])
def test_a_purge_that_meets_the_data_loses_nothing(world: World, suffix: str, purge: bool) -> None:
    """It ends the jobs of the lists before it. The others stay in their places."""
    world.put("a", "b")
    for name in ("L", "M", "P"):
        world.put_in(name, name)
    world.run(world.engine.lanes.park_lane("q", "P"))
    world.put_at(5, "high")
    world.put_at(-5, "low")
    world.command("RENAME", world.key(suffix), world.key("aside"))
    world.command("SET", world.key(suffix), "x")
    with pytest.raises(WrongState):
        world.run(world.engine.purge("q", State.READY) if purge else world.engine.cancel_all("q"))
    world.command("DEL", world.key(suffix))
    world.command("RENAME", world.key("aside"), world.key(suffix))
    world.pass_time(HOLD_MS + 50)
    world.maintain()
    world.audit()
    world.run(world.engine.purge("q", State.READY))
    assert world.ids(State.READY) == []
    world.audit()


def again(act: Callable[[World], Any]) -> Callable[[World, Lease], Any]:
    """Done to a job that waits for its retry."""

    def end(world: World, lease: Lease) -> None:
        assert world.settle(lease, Retried(BOOM, limits.HOUR))
        act(world)

    return end


def crash(world: World, lease: Lease) -> None:
    world.leave("w", True)
    for _ in range(world.engine.config.max_crashes - 1):
        assert world.take_ids() == ["p0"]
        world.leave("w", True)


ENDS: dict[str, Callable[[World, Lease], Any]] = {
    "completed": lambda world, lease: world.settle(lease, Completed(b"r", 60_000)),
    "completed, forgotten": lambda world, lease: world.settle(lease, Completed(b"", 0)),
    "failed": lambda world, lease: world.settle(lease, Failed(BOOM)),
    "cancelled": again(lambda world: world.cancel("p0")),
    "discarded": again(lambda world: world.discard("p0")),
    "a crash too many": crash,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_job_that_follows_an_end_is_not_left_behind(world: World, suffix: str, end: str) -> None:
    """The job that waits for the key cannot go into its list: it becomes due, and the next claim is refused."""
    unique = UniqueRule("k", Until.ENDED, Conflict.RERUN)
    world.put("p0", shape=Shape(unique=unique))
    lease = world.take_one()
    world.put("p1", shape=replace(SHAPES[suffix], unique=unique))
    world.command("SET", world.key(suffix), "x")
    ENDS[end](world, lease)
    assert world.ids(State.SCHEDULED) == ["p1"]
    with pytest.raises(WrongState):
        world.take()
    world.command("DEL", world.key(suffix))
    assert world.take_ids() == ["p1"]
    world.audit()
