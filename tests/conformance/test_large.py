"""Large records beside small ones: no call reads many of them, and nothing of what they take part in is different."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.engine import Feature
from tenure.core.job import ErrorInfo, NewJob, State
from tenure.core.outcome import Failed, Retried, Unroutable
from tenure.core.shape import Conflict, Shape, UniqueRule, Until
from tenure.core.steps import Command, Invoke, Reply, Steps
from tenure.engines.kit.config import BACK_MOST, CLAIM_BYTES, LARGE_BYTES, READ_BYTES
from tests.support.stepping import Send, Session, send_with, step
from tests.support.world import World

LARGE = b"x" * 100_000
MANY = 3 * READ_BYTES // len(LARGE)

pytestmark = pytest.mark.needs(Feature.PRIORITIES)


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{n:03}" for n in range(count)]


def put_large(world: World, count: int = MANY, **options: Any) -> list[str]:
    ids = names("large", count)
    world.put(*ids, payload=LARGE, **options)
    return ids


def calls_of(world: World, steps: Steps[Any]) -> int:
    """How many sweeps it takes."""
    calls = []

    def count(number: int, call: Command | Invoke, send: Send) -> Reply:
        if isinstance(call, Invoke) and call.script.name == "sweep":
            calls.append(number)
        return send(call)

    step(steps, Session("s"), send_with(world.driver), count)
    return len(calls)


@pytest.mark.parametrize("small", [9, 81])
def test_a_claim_stops_in_time_when_large_ones_follow_small_ones(world: World, small: int) -> None:
    world.put(*names("small", small))
    large = put_large(world, 20)
    answer = world.run(world.engine.lease("w", ["q"], 200))
    assert sum(len(lease.record.payload) for lease in answer.leases) < CLAIM_BYTES + len(LARGE) + 1_000
    assert answer.next_ms == 0, "there is more for who has room for it"
    took = [lease.record.id for lease in answer.leases]
    for _ in range(20):
        took += world.take_ids(200)
    assert took == [*names("small", small), *large]


@pytest.mark.parametrize("priority", [0, 5])
def test_a_claim_counts_the_errors_that_it_reads(world: World, priority: int) -> None:
    ids = names("j", 100)
    world.put(*ids, shape=Shape(priority=priority))
    error = ErrorInfo("Boom", "it broke", "t" * 20_000)
    world.settle_each(world.take(100), *[Retried(error)] * 100)
    answer = world.run(world.engine.lease("w", ["q"], 100))
    assert 1 < len(answer.leases) <= CLAIM_BYTES // 20_000 + 1
    assert answer.next_ms == 0


def test_small_ones_are_claimed_at_once_when_the_large_ones_are_gone(world: World) -> None:
    put_large(world)
    while leases := world.take(10):
        world.finish(*leases)
    world.maintain()
    world.put(*names("small", 100))
    assert world.take_ids(100) == names("small", 100)
    assert "large" not in world.totals()


@pytest.mark.parametrize("state", [State.READY, State.SCHEDULED, State.UNROUTABLE])
@pytest.mark.parametrize("act", ["purge", "cancel"])
def test_they_are_removed_a_few_a_call(world: World, state: State, act: str) -> None:
    put_large(world, delay_ms=60_000 if state is State.SCHEDULED else 0, task="t")
    if state is State.UNROUTABLE:
        while leases := world.take(100):
            world.settle_each(leases, *[Unroutable()] * len(leases))
    assert world.counts() == {state.value: MANY}
    steps = world.engine.purge("q", state) if act == "purge" else world.engine.cancel_all("q")
    assert calls_of(world, steps) > MANY * len(LARGE) // (READ_BYTES + len(LARGE))
    assert world.counts() == ({} if act == "purge" else {"cancelled": MANY})
    world.audit()


@pytest.mark.parametrize("shape", [Shape(priority=5), Shape(lane="L")], ids=["priority", "lane"])
def test_they_are_promoted_a_few_a_call_in_their_order(world: World, shape: Shape) -> None:
    ids = put_large(world, delay_ms=5_000, shape=shape)
    world.pass_time(5_100)
    first = world.maintain()
    assert 1 <= first.promoted < MANY
    assert first.more, "the worker goes on"
    while world.maintain().more:
        pass
    assert [
        view.id for view in world.run(world.engine.page("q", State.READY, 0, 100, "L" if shape.lane else None)).jobs
    ] == ids


def test_parked_ones_come_back_a_few_a_call_in_their_order(world: World) -> None:
    tasks = [f"t{n}" for n in range(5)]
    for task in tasks:
        world.enqueue([NewJob("q", id, LARGE if n == 0 else b"p", task=task) for n, id in enumerate(names(task, 60))])
    while leases := world.take(100):
        world.settle_each(leases, *[Unroutable()] * len(leases))
    first = world.maintain(tasks)
    assert 1 <= first.unparked <= BACK_MOST
    assert first.more, "the worker goes on"
    while world.maintain(tasks).more:
        pass
    assert world.counts() == {"ready": 300}
    took = [id for _ in range(20) for id in world.take_ids(100)]
    for task in tasks:
        assert [id for id in took if id.startswith(task)] == names(task, 60)


def test_a_job_that_is_put_back_with_a_large_payload_counts_as_one(world: World) -> None:
    world.put(*names("j", 20))
    world.settle_each(world.take(20), *[Failed(ErrorInfo("Boom", "", ""))] * 20)
    for id in names("j", 20):
        assert world.run(world.engine.retry("q", id, LARGE))
    assert len(world.take(20)) <= CLAIM_BYTES // len(LARGE) + 1


def test_records_that_are_just_not_large_count_too(world: World) -> None:
    world.put(*names("j", 500), payload=b"x" * (LARGE_BYTES - 100))
    answer = world.run(world.engine.lease("w", ["q"], 500))
    assert sum(len(lease.record.payload) for lease in answer.leases) <= CLAIM_BYTES


@pytest.mark.parametrize("act", ["purge", "cancel"])
def test_those_that_wait_for_another_to_end_are_removed_a_few_a_call(world: World, act: str) -> None:
    """They are in a hash, which has no order."""
    running, waiting = names("r", MANY), names("w", MANY)
    for ids in (running, waiting):
        rules = [UniqueRule(f"k{n}", Until.ENDED, Conflict.RERUN) for n in range(MANY)]
        shapes = [Shape(unique=rule) for rule in rules]
        world.enqueue([NewJob("q", id, LARGE, shape=shape) for id, shape in zip(ids, shapes, strict=True)])
        while world.take(100):
            pass
    assert world.counts() == {"active": MANY, "scheduled": MANY}
    if act == "purge":
        assert calls_of(world, world.engine.purge("q", State.SCHEDULED)) > MANY // 3
    else:
        assert world.cancel_all().cancelled == MANY
    assert "scheduled" not in world.counts()
    world.audit()
