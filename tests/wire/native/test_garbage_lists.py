"""Another program's data in the place of the list of one lane, or of one priority."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from leasehold.core import limits
from leasehold.core.errors import WrongState
from leasehold.core.job import Lease, NewJob, State
from leasehold.core.outcome import Completed, Failed, Outcome, Released, Retried, Unroutable
from leasehold.core.shape import Conflict, Shape, UniqueRule, Until
from leasehold.engines.native.config import PUT_OFF_MS
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


OPERATIONS: dict[str, Callable[[World, Shape, list[Lease]], Any]] = {
    "enqueue": enqueue,
    "retried": settle(Retried(BOOM)),
    "retry": lambda world, shape, held: world.retry("f"),
    "unpark": lambda world, shape, held: world.maintain(["t"]),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_is_half_done(world: World, suffix: str, operation: str) -> None:
    held = setup(world, SHAPES[suffix])
    world.command("SET", world.key(suffix), "x")
    before = world.entry.timeless(world.dump())
    with pytest.raises(WrongState):
        OPERATIONS[operation](world, SHAPES[suffix], held)
    assert world.entry.timeless(world.dump()) == before
    world.command("DEL", world.key(suffix))
    OPERATIONS[operation](world, SHAPES[suffix], held)
    world.audit()


def die(world: World, shape: Shape, held: list[Lease]) -> None:
    world.pass_time(LEASE_MS + 50)
    world.maintain()
    world.pass_time(GRACE_MS + 50)
    world.maintain()


WAYS_BACK: dict[str, Callable[[World, Shape, list[Lease]], Any]] = {
    "released": lambda world, shape, held: world.settle_each(held, *[Released()] * 5),
    "leave": lambda world, shape, held: world.leave("w"),
    "leave, crashed": lambda world, shape, held: world.leave("w", True),
    "die": die,
}


@pytest.mark.parametrize("way", WAYS_BACK)
def test_what_is_given_back_is_put_off_and_the_others_go_back(world: World, suffix: str, way: str) -> None:
    held = setup(world, SHAPES[suffix])
    world.command("SET", world.key(suffix), "x")
    WAYS_BACK[way](world, SHAPES[suffix], held)
    assert world.ids(State.SCHEDULED) == ["b1", "b2", "b3"]
    world.command("DEL", world.key(suffix))
    world.audit()
    ends = [*world.take_ids(), *world.take_ids()]  # of those that have crashed one is held at a time
    assert ends[0] == "a"
    world.pass_time(PUT_OFF_MS + 100)
    world.leave("w")
    counts = {id: world.view(id).crashes for id in ("a", "b1", "b2", "b3", "c")}
    assert set(counts.values()) == ({1} if way in ("die", "leave, crashed") else {0})
    assert sorted(world.drain("q")) == ["a", "b1", "b2", "b3", "c"]
    world.audit()


def test_one_that_is_to_be_cancelled_is_put_off_first(world: World, suffix: str) -> None:
    held = setup(world, SHAPES[suffix])
    world.cancel("b2")
    world.command("SET", world.key(suffix), "x")
    world.leave("w")
    assert world.ids(State.SCHEDULED) == ["b1", "b2", "b3"]
    world.command("DEL", world.key(suffix))
    world.pass_time(PUT_OFF_MS + 100)
    leases = world.take(20)
    assert len(leases) == len(held)
    assert [asked.ref.id for asked in world.beat("w", leases).cancelled] == ["b2"]


def test_a_dead_workers_jobs_keep_nobody_from_the_others(world: World, suffix: str) -> None:
    setup(world, SHAPES[suffix])
    world.put("n1", "n2")
    world.command("SET", world.key(suffix), "x")
    world.pass_time(LEASE_MS + 50)
    world.maintain()
    world.pass_time(GRACE_MS + 50)
    assert {"n1", "n2"} <= {id for _ in range(3) for id in world.take_ids(10, "other")}


def test_what_is_due_is_put_into_line_once(world: World, suffix: str) -> None:
    """What can be is, at once. The others are put off, and who finds nothing else is told."""
    world.put("s1", "s2", delay_ms=5_000, shape=SHAPES[suffix])
    world.put("later", delay_ms=5_000)
    world.pass_time(5_100)
    world.command("SET", world.key(suffix), "x")
    assert world.maintain().promoted == 1
    assert world.counts() == {"scheduled": 2, "ready": 1}
    world.pass_time(PUT_OFF_MS + 100)
    assert world.take_ids() == ["later"]
    world.pass_time(PUT_OFF_MS + 100)
    with pytest.raises(WrongState):
        world.take_ids()
    world.command("DEL", world.key(suffix))
    assert world.take_ids() == []
    world.pass_time(PUT_OFF_MS + 100)
    assert sorted(world.take_ids()) == ["s1", "s2"]
    world.audit()


def test_many_that_are_put_off_keep_nobody(world: World, suffix: str) -> None:
    world.put(*[f"s{n}" for n in range(300)], delay_ms=5_000, shape=SHAPES[suffix])
    world.put("last", delay_ms=5_050)
    world.pass_time(5_100)
    world.command("SET", world.key(suffix), "x")
    for _ in range(3):
        world.maintain()
    assert world.take_ids() == ["last"]


def test_the_others_are_claimed_all_the_same(world: World) -> None:
    for n in range(30):
        world.put_in(f"L{n}", f"l{n}")
        world.put_at(n % 10 - 5, f"p{n}")
    wanted = {f"{letter}{n}" for letter in "lp" for n in range(30)}
    spoilt = {"lane:L7": {"l7"}, "ready:-5": {"p0", "p10", "p20"}, "ready:4": {"p9", "p19", "p29"}}
    for suffix in spoilt:
        world.command("RENAME", world.key(suffix), world.key("aside") + suffix)
        world.command("SET", world.key(suffix), "x")
    took: set[str] = set()
    for n in range(100):
        try:
            took |= set(world.take_ids(7, f"w{n}"))
        except WrongState:
            break
    else:
        raise AssertionError("nobody is told")
    assert took == wanted.difference(*spoilt.values())
    for suffix in spoilt:
        world.command("RENAME", world.key("aside") + suffix, world.key(suffix))
    assert set(world.take_ids(100)) == wanted - took
    world.audit()


@pytest.mark.parametrize("outcome", [Completed(b"r", 60_000), Failed(BOOM), Retried(BOOM, 60_000)])
def test_the_end_of_a_job_does_not_ask_for_the_list_of_its_priority(world: World, outcome: Outcome) -> None:
    world.put_at(5, "a")
    lease = world.take_one()
    world.command("SET", world.key("ready:5"), "x")
    assert world.settle(lease, outcome)


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
def test_who_follows_an_end_is_not_left_behind(world: World, suffix: str, end: str) -> None:
    """The one that waits for the key would go into a list that is another program's: it is put off, and not lost."""
    unique = UniqueRule("k", Until.ENDED, Conflict.RERUN)
    world.put("p0", shape=Shape(unique=unique))
    lease = world.take_one()
    world.put("p1", shape=replace(SHAPES[suffix], unique=unique))
    world.command("SET", world.key(suffix), "x")
    ENDS[end](world, lease)
    assert world.ids(State.SCHEDULED) == ["p1"]
    world.command("DEL", world.key(suffix))
    world.pass_time(PUT_OFF_MS + 100)
    assert world.take_ids() == ["p1"]
    world.audit()
