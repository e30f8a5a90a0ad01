"""Redis at its memory limit: nothing new comes in, and all that lets work end goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.core.engine import Feature
from tenure.core.errors import QueueFull
from tenure.core.job import NewJob, State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.steps import Command, Invoke, Reply
from tenure.core.worker_view import WorkerView
from tests.support.stepping import Send, Session, send_with, step
from tests.support.world import BOOM, World


@pytest.fixture
def full(world: World) -> Iterator[World]:
    """A world with work under way, on a server that takes no more memory."""
    world.put("ready1", "ready2", "ready3", task="t")
    world.put("failed")
    leases = world.take(4)
    outcomes: list[Outcome] = [Released(), Released(), Released(), Failed(BOOM)]
    assert all(world.run(world.engine.settle(list(zip(leases, outcomes, strict=True)))))
    world.command("CONFIG", "SET", "maxmemory", 1)
    yield world
    world.command("CONFIG", "SET", "maxmemory", 0)


def test_enqueue_is_refused_and_leaves_nothing(full: World) -> None:
    before = full.dump()
    for jobs in (
        [NewJob("q", "new", b"x")],
        [NewJob("q", f"n{n}", b"x") for n in range(1_200)],
        [NewJob("new", "n", b"")],
    ):
        with pytest.raises(QueueFull):
            full.enqueue(jobs)
    assert full.dump() == before


@pytest.mark.needs(Feature.DELAY)
def test_a_delayed_enqueue_is_refused_and_leaves_nothing(full: World) -> None:
    before = full.dump()
    with pytest.raises(QueueFull):
        full.put("new", delay_ms=5_000)
    assert full.dump() == before


@pytest.mark.needs(Feature.DELAY)
def test_delayed_jobs_come_when_they_are_due(world: World) -> None:
    world.put("late", "now", delay_ms=60_000)
    world.command("CONFIG", "SET", "maxmemory", 1)
    try:
        assert world.counts() == {"scheduled": 2}
        assert world.retry("now")
        world.pass_time(60_000)
        assert world.maintain().promoted == 1
    finally:
        world.command("CONFIG", "SET", "maxmemory", 0)
    assert world.drain() == ["now", "late"]


@pytest.mark.parametrize(
    "outcome",
    [
        Completed(b"r", 60_000),
        Completed(b"", 0),
        Retried(BOOM),
        Retried(BOOM, 5_000),
        Failed(BOOM),
        Broken(BOOM),
        Released(),
        Unroutable(),
        Cancelled(""),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_work_goes_on(full: World, outcome: Outcome) -> None:
    leases = full.take(2)
    assert [lease.record.id for lease in leases] == ["ready1", "ready2"]
    assert not full.beat("w", leases).lost
    assert full.run(full.engine.extend(leases[0], 5_000))
    assert full.settle(leases[0], outcome)
    assert full.run(full.engine.leave("w", ["q"])) == 1


def test_housekeeping_goes_on(full: World) -> None:
    full.take(1, "dead")
    assert full.silence() == 1
    full.run(full.engine.announce(WorkerView("w", ("q",), "h", 1, 1, 1, 1)))
    assert full.counts() == {"ready": 3, "failed": 1}


@pytest.mark.needs(Feature.UNROUTABLE)
def test_parked_jobs_come_back(full: World) -> None:
    full.settle(full.take_one(), Unroutable())
    assert full.maintain(["t"]).unparked == 1


def test_acting_goes_on(full: World) -> None:
    assert full.run(full.engine.retry("q", "failed"))
    assert full.run(full.engine.cancel("q", "ready1"))
    assert full.run(full.engine.discard("q", "ready2"))
    assert full.run(full.engine.purge("q", State.READY)) == 2


def test_looking_goes_on(full: World) -> None:
    assert full.state("ready1") is State.READY
    assert full.counts() == {"ready": 3, "failed": 1}


@pytest.mark.needs(Feature.RESULTS)
def test_asking_for_a_result_goes_on(full: World) -> None:
    view = full.run(full.engine.results.result("q", "ready1"))
    assert view
    assert view.state is State.READY


def test_a_full_redis_can_be_drained(full: World) -> None:
    assert full.drain() == ["ready1", "ready2", "ready3"]


def test_a_refusal_in_the_middle_of_many_calls_says_how_many_were_enqueued(world: World) -> None:
    jobs = [NewJob("q", f"j{n}", b"x") for n in range(1_200)]

    def fill_up(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number == 3:
            world.command("CONFIG", "SET", "maxmemory", 1)
        return send(call)

    try:
        with pytest.raises(QueueFull, match="500 had been enqueued"):
            step(world.engine.enqueue(jobs), Session("s"), send_with(world.driver), fill_up)
    finally:
        world.command("CONFIG", "SET", "maxmemory", 0)
    assert world.counts() == {"ready": 500}
