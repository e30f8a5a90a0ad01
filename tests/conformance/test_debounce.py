"""Debounce: of many that come within a time only the last runs, and not later than some multiple of it."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.job import Enqueued, NewJob, State
from tenure.core.shape import Conflict, Shape, UniqueRule, Until
from tenure.engines.kit.config import POSTPONE_MOST
from tests.support.world import World

pytestmark = pytest.mark.needs(Feature.UNIQUE_KEYS, Feature.DELAY)

WAIT_MS = 10_000


def put(world: World, id: str, wait_ms: int = WAIT_MS) -> Enqueued:
    """As `Debounce` does it."""
    return world.put_only(
        id, "k", Until.STARTED, Conflict.POSTPONE, wait_ms=wait_ms, delay_ms=wait_ms, payload=id.encode()
    )


def due_in(world: World, id: str) -> int:
    """Milliseconds from now."""
    seconds, micros = world.command("TIME")
    due_ms = world.view(id).due_ms
    assert due_ms is not None
    return due_ms - (int(seconds) * 1_000 + int(micros) // 1_000)


def test_the_last_payload_runs_once(world: World) -> None:
    assert put(world, "a") == Enqueued("a", True)
    for id in "bcd":
        assert put(world, id) == Enqueued("a", False, Conflict.POSTPONE)
    assert world.counts() == {"scheduled": 1}
    assert world.take() == []
    world.pass_time(WAIT_MS + 100)
    (lease,) = world.take()
    assert (lease.record.id, lease.record.payload) == ("a", b"d")
    world.finish(lease)
    assert world.left() == set()


def test_each_lets_it_wait_anew(world: World) -> None:
    put(world, "a")
    for id in "bcd":
        world.pass_time(WAIT_MS - 2_000)
        assert world.take() == []
        assert due_in(world, "a") <= 2_000
        assert put(world, id).id == "a"
        assert WAIT_MS - 2_000 < due_in(world, "a") <= WAIT_MS
    world.pass_time(WAIT_MS + 100)
    assert world.take_ids() == ["a"]


def test_after_it_was_started_the_next_is_another(world: World) -> None:
    put(world, "a")
    world.pass_time(WAIT_MS + 100)
    assert world.take_ids() == ["a"]
    assert put(world, "b") == Enqueued("b", True)
    assert WAIT_MS - 2_000 < due_in(world, "b") <= WAIT_MS


def test_one_that_is_ready_gets_the_payload_and_keeps_its_place(world: World) -> None:
    put(world, "a")
    world.pass_time(WAIT_MS + 100)
    world.maintain()
    assert world.state("a") is State.READY
    assert put(world, "b") == Enqueued("a", False, Conflict.POSTPONE)
    (lease,) = world.take()
    assert (lease.record.id, lease.record.payload) == ("a", b"b")


def test_it_is_due_in_the_end_however_many_come(world: World) -> None:
    wait_ms = 40
    put(world, "first", wait_ms)
    begun = world.view("first").enqueued_ms
    assert begun is not None
    seen: list[int] = []

    def come_and_look() -> list[str]:
        put(world, "more", wait_ms)
        left = due_in(world, "first") if world.state("first") is State.SCHEDULED else 0
        if left > 0:
            seen.append(world.view("first").due_ms or 0)
        return world.take_ids()

    assert world.until(come_and_look) == ["first"]
    assert max(seen) <= begun + POSTPONE_MOST * wait_ms
    assert seen == sorted(seen)
    assert seen[-1] > begun + wait_ms


def test_it_is_not_put_off_past_the_most(world: World) -> None:
    put(world, "a")
    for n in range(2 * POSTPONE_MOST):
        world.pass_time(WAIT_MS // 2)
        if world.take():
            break
        assert put(world, f"b{n}").id == "a"
    else:
        raise AssertionError("it was put off for ever")
    assert n >= 2 * (POSTPONE_MOST - 1)


def test_in_one_call(world: World) -> None:
    shape = Shape(unique=UniqueRule("k", Until.STARTED, Conflict.POSTPONE, wait_ms=WAIT_MS))
    jobs = [NewJob("q", f"j{n}", b"%d" % n, delay_ms=WAIT_MS, shape=shape) for n in range(600)]
    answers = world.enqueue(jobs)
    assert answers[0] == Enqueued("j0", True)
    assert set(answers[1:]) == {Enqueued("j0", False, Conflict.POSTPONE)}
    assert world.view("j0").payload == b"599"


def test_one_that_is_taken_away_is_forgotten(world: World) -> None:
    put(world, "a")
    assert world.cancel("a")
    assert put(world, "b").created
    assert world.discard("b")
    assert put(world, "c").created
    world.pass_time(WAIT_MS + 100)
    assert world.take_ids() == ["c"]


def test_throttle_lets_one_through_in_a_time(world: World) -> None:
    def throttled(id: str) -> Enqueued:
        return world.put_only(id, "k", Until.WINDOW, Conflict.EXISTING, window_ms=WAIT_MS)

    assert throttled("a").created
    assert world.drain() == ["a"]
    assert throttled("b") == Enqueued("a", False, Conflict.EXISTING)
    world.pass_time(WAIT_MS + 100)
    assert throttled("c").created
    assert world.drain() == ["c"]
