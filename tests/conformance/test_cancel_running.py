"""Cancelling jobs that run: the ask is kept and told until the end, and nothing of it runs again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenure.core.engine import CancelAsked, Feature
from tenure.core.job import State
from tenure.core.outcome import (
    Broken,
    Cancelled,
    Completed,
    Crashed,
    Failed,
    Outcome,
    Released,
    Retried,
    Unroutable,
)
from tenure.core.shape import CancelAnswer, CancelCount, LaneFailure
from tenure.core.steps import Command, Invoke, Reply
from tests.support.stepping import Send, Session, send_with, step
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.CANCEL)

BACK: list[Outcome] = [Retried(BOOM), Retried(BOOM, 1_000), Released(), Unroutable()]


def act_after(act: Callable[[int], object]) -> Callable[[int, Command | Invoke, Send], Reply]:
    """Something that others do behind every call of an operation."""

    def reply_of(number: int, call: Command | Invoke, send: Send) -> Reply:
        reply = send(call)
        act(number)
        return reply

    return reply_of


def kind(value: object) -> str:
    return type(value).__name__


def test_the_answers(world: World) -> None:
    world.put("a", "b")
    lease = world.take_one()
    assert world.cancel("a") is CancelAnswer.REQUESTED
    assert world.cancel("b") is CancelAnswer.CANCELLED
    assert world.cancel("b") is CancelAnswer.NOTHING
    assert world.cancel("nobody") is CancelAnswer.NOTHING
    assert world.cancel("a") is CancelAnswer.REQUESTED, "asked again"
    world.finish(lease)
    assert world.cancel("a") is CancelAnswer.NOTHING


def test_the_ask_can_be_seen(world: World) -> None:
    world.put("a", "b")
    world.take()
    world.cancel("a", "the customer left\n")
    view = world.view("a")
    assert (view.state, view.cancelling) == (State.ACTIVE, "the customer left\n")
    assert world.view("b").cancelling is None
    world.cancel("b")
    assert world.view("b").cancelling == ""
    page = world.run(world.engine.page("q", State.ACTIVE)).jobs
    assert {job.id: job.cancelling for job in page} == {"a": "the customer left\n", "b": ""}


def test_every_beat_tells_it(world: World) -> None:
    world.put("a", "b")
    leases = world.take()
    assert world.beat("w", leases).cancelled == ()
    world.cancel("b", "why")
    for _ in range(3):
        assert world.beat("w", leases).cancelled == (CancelAsked(leases[1].ref, "why"),)
    assert world.beat("w", leases[:1]).cancelled == (), "only of those asked about"
    world.finish(leases[1])
    assert world.beat("w", leases[:1]).cancelled == ()


def test_the_beat_of_another_is_not_told(world: World) -> None:
    world.put("a", "b")
    a, b = world.take_one("w1"), world.take_one("w2")
    world.cancel("a")
    assert world.beat("w2", [b]).cancelled == ()
    assert len(world.beat("w1", [a]).cancelled) == 1


def test_its_worker_gets_a_message(world: World) -> None:
    world.put("a", "b")
    world.take_one("w1")
    world.take_one("w2")
    with (
        world.driver.subscribe(world.engine.signal_channel("w1")) as first,
        world.driver.subscribe(world.engine.signal_channel("w2")) as second,
    ):
        world.cancel("b")
        assert second.get(timeout_s=5) == b"q"
        world.cancel("a")
        assert first.get(timeout_s=5) == b"q"


# The outcome.


@pytest.mark.needs(Feature.RESULTS)
def test_what_completed_has_completed(world: World) -> None:
    world.put("a", "b")
    first, second = world.take()
    world.cancel("a")
    world.cancel("b")
    assert world.settle(first, Completed(b"r", 60_000))
    assert world.settle(second, Completed(b"", 0))
    assert world.view("a").result == b"r"
    assert world.counts() == {"completed": 1}
    assert world.totals().get("cancelled", 0) == 0


@pytest.mark.parametrize(("outcome", "state"), [(Failed(BOOM), State.FAILED), (Broken(BOOM), State.BROKEN)])
def test_what_failed_for_good_has_failed(world: World, outcome: Outcome, state: State) -> None:
    world.put("a")
    lease = world.take_one()
    world.cancel("a")
    assert world.settle(lease, outcome)
    assert world.state("a") is state


def test_the_worker_says_that_it_was_cancelled(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    world.cancel("a", "asked")
    assert world.settle(lease, Cancelled("done"))
    error = world.view("a").error
    assert error is not None
    assert (world.state("a"), error.type, error.message) == (State.CANCELLED, "Cancelled", "done")


@pytest.mark.parametrize("outcome", BACK, ids=kind)
def test_what_would_wait_again_ends_in_cancelled(world: World, outcome: Outcome) -> None:
    world.put("a", task="t")
    lease = world.take_one()
    world.cancel("a", "why")
    assert world.settle(lease, outcome)
    view = world.view("a")
    assert view.state is State.CANCELLED
    assert view.error is not None
    assert (view.error.type, view.error.message) == ("Cancelled", "why")
    world.pass_time(1_100)
    world.maintain(["t"])
    assert world.take() == []
    assert world.counts() == {"cancelled": 1}
    assert world.totals()["cancelled"] == 1


@pytest.mark.parametrize("how", ["silent", "left", "given up"])
def test_what_comes_back_from_its_worker_ends_in_cancelled(world: World, how: str) -> None:
    world.put("a", "b", timeout_ms=1_000)
    leases = world.take()
    world.cancel("a", "why")
    if how == "silent":
        world.silence()
    elif how == "left":
        world.leave()
    else:
        world.settle_each(leases, Crashed(), Crashed())
    assert (world.state("a"), world.state("b")) == (State.CANCELLED, State.READY)
    assert not any(world.settle(lease) for lease in leases)
    assert world.drain() == ["b"]


def test_a_suspect_ends_in_cancelled_too(world: World) -> None:
    world = world.with_options(alone_after_crashes=1, max_crashes=2)
    world.put("a")
    world.take_one("victim")
    world.silence()
    world.take_one("victim")
    world.cancel("a")
    world.silence()
    assert world.state("a") is State.CANCELLED


def test_the_ask_is_forgotten_with_the_end(world: World) -> None:
    world.put("a", own_id=True)
    lease = world.take_one()
    world.cancel("a")
    assert world.settle(lease, Retried(BOOM))
    assert world.retry("a")
    lease = world.take_one()
    assert world.view("a").cancelling is None
    assert world.beat("w", [lease]).cancelled == ()
    world.finish(lease)
    world.put("a", own_id=True)
    (lease,) = world.take()
    assert world.view("a").cancelling is None
    world.finish(lease)
    world.take()
    assert world.left() == set()


@pytest.mark.needs(Feature.LANES)
@pytest.mark.parametrize("policy", LaneFailure)
@pytest.mark.parametrize("how", ["retried", "released", "silent", "cancelled"])
def test_its_lane_goes_on(world: World, policy: LaneFailure, how: str) -> None:
    world.configure(lane_failure=policy)
    world.put_in("L", "a", "b")
    lease = world.take_one()
    world.cancel("a")
    assert world.take() == [], "it still runs"
    if how == "silent":
        world.silence()
    else:
        outcomes: dict[str, Outcome] = {
            "retried": Retried(BOOM, 5_000),
            "released": Released(),
            "cancelled": Cancelled(""),
        }
        assert world.settle(lease, outcomes[how])
    assert world.state("a") is State.CANCELLED
    assert world.drain() == ["b"]


# All of a queue, or of a lane.


def fill(world: World, *lanes: str | None) -> None:
    """In each lane, and (None) in none: a job that runs, ones that wait in every way, and one that has ended.

    The ids begin with the lane, or `plain`.
    """

    def put(lane: str | None, id: str, **options: Any) -> None:
        if lane is None:
            world.put(f"plain.{id}", **options)
        else:
            world.put_in(lane, f"{lane}.{id}", limit=9, **options)

    for lane in lanes:
        for id in ("done", "active", "retrying", "unroutable"):
            put(lane, id, task="t")
        by_id = {lease.record.id.partition(".")[2]: lease for lease in world.take(4)}
        world.finish(by_id["done"])
        assert world.settle(by_id["retrying"], Retried(BOOM, 60_000))
        assert world.settle(by_id["unroutable"], Unroutable())
    for lane in lanes:
        put(lane, "ready1")
        put(lane, "ready2")
        put(lane, "late", delay_ms=60_000)


@pytest.mark.needs(Feature.LANES, Feature.PRIORITIES)
def test_all_of_a_queue(world: World) -> None:
    fill(world, None, "L")
    world.put_at(5, "high")
    world.put_at(-5, "low")
    world.run(world.engine.lanes.park_lane("q", "M"))
    world.put_in("M", "m1", "m2")
    assert world.cancel_all(reason="all") == CancelCount(cancelled=14, requested=2)
    assert world.counts() == {"active": 2, "cancelled": 14}
    for id in ("plain.active", "L.active"):
        assert world.view(id).cancelling == "all"
    error = world.view("m1").error
    assert error is not None
    assert error.message == "all"
    assert world.leave() == 2
    assert world.counts() == {"cancelled": 16}
    assert world.cancel_all() == CancelCount()
    assert world.resume_lane("M")
    world.put_in("L", "new")
    assert world.drain() == ["new"]


@pytest.mark.needs(Feature.LANES)
def test_all_of_a_lane(world: World) -> None:
    fill(world, None, "L", "M")
    before = {id: world.state(id) for id in ("plain.ready1", "plain.late", "M.late", "M.unroutable", "M.ready2")}
    assert world.cancel_all("L", "that one") == CancelCount(cancelled=5, requested=1)
    assert {id: world.state(id) for id in before} == before
    assert world.view("L.active").cancelling == "that one"
    assert world.view("M.active").cancelling is None
    assert world.view("plain.active").cancelling is None
    assert world.in_lane("L") == []
    assert world.in_lane("M") == ["M.ready1", "M.ready2"]
    assert world.cancel_all("nobody") == CancelCount()


@pytest.mark.needs(Feature.DELAY)
def test_all_of_many(world: World) -> None:
    world.put(*(f"late{n}" for n in range(700)), delay_ms=60_000)
    world.put(*(f"j{n}" for n in range(1_300)))
    held = len(world.take(300, "w1")) + len(world.take(200, "w2"))
    assert world.cancel_all() == CancelCount(cancelled=2_000 - held, requested=held)
    assert world.counts() == {"active": held, "cancelled": 2_000 - held}


def test_all_of_a_queue_tells_every_worker(world: World) -> None:
    world.put("a", "b")
    world.take_one("w1")
    world.take_one("w2")
    with (
        world.driver.subscribe(world.engine.signal_channel("w1")) as first,
        world.driver.subscribe(world.engine.signal_channel("w2")) as second,
    ):
        world.cancel_all()
        assert first.get(timeout_s=5) == second.get(timeout_s=5) == b"q"


def test_what_was_taken_ahead_of_the_slots_is_asked_for_too(world: World) -> None:
    world.put(*"abc")
    world.run(world.engine.lease("w", ["q"], 3, slots=1))
    assert world.cancel_all() == CancelCount(0, 3)
    assert world.silence() == 3
    assert world.counts() == {"cancelled": 3}


def test_beats_between_its_calls_hide_no_worker_from_cancel_all(world: World) -> None:
    """A beat changes the order in which the leases of workers lapse."""
    workers = ["w1", "w2", "w3"]
    world.put("a", "b", "c")
    leases = {worker: world.take(1, worker) for worker in workers}

    def beat(number: int) -> None:
        world.beat(workers[number % len(workers)], leases[workers[number % len(workers)]])

    count = step(world.engine.cancel_all("q"), Session("s"), send_with(world.driver), act_after(beat))
    assert count == CancelCount(0, 3)
    assert all(world.view(id).cancelling == "" for id in "abc")


@pytest.mark.needs(Feature.LANES)
def test_scheduled_jobs_that_come_due_between_its_calls_hide_none_from_cancel_all(world: World) -> None:
    """Of many jobs only a few are of the lane; those before them leave while it looks."""
    world.put(*(f"s{n}" for n in range(1_200)), delay_ms=1_000)
    world.put_in("L", "late", delay_ms=2_000)

    def go_on(_: int) -> None:
        world.pass_time(300)
        world.take(300)

    count = step(world.engine.cancel_all("q", "L"), Session("s"), send_with(world.driver), act_after(go_on))
    assert count == CancelCount(1, 0)
    assert world.state("late") is State.CANCELLED


def test_a_job_that_is_handed_back_between_its_calls_is_cancelled_too(world: World) -> None:
    world.put("a", "b")
    world.take(1)

    def hand_back(number: int) -> None:
        world.leave("w" if number % 2 else "v")
        world.take(1, "v" if number % 2 else "w")

    count = step(world.engine.cancel_all("q"), Session("s"), send_with(world.driver), act_after(hand_back))
    world.leave("v")
    world.leave("w")
    assert count.cancelled + count.requested >= 1
    assert world.counts() == {"cancelled": 2}


@pytest.mark.needs(Feature.LANES)
def test_all_of_a_lane_however_many_others_crashed(world: World) -> None:
    """Those that took workers down wait in a list of their own."""
    world = world.with_options(alone_after_crashes=1)
    world.put(*(f"j{n}" for n in range(700)))
    world.put_in("L", "a")
    for worker in ("w1", "w2"):
        world.run(world.engine.lease(worker, ["q"], 400, slots=400))
        assert world.silence() > 0
    assert world.view("a").crashes == 1
    assert world.cancel_all("L") == CancelCount(1, 0)


def test_a_lower_limit_of_crashes_ends_no_job_that_is_handed_back(world: World) -> None:
    world = world.with_options(max_crashes=9, alone_after_crashes=9)
    world.put("a")
    for _ in range(3):
        world.take_one()
        assert world.silence() == 1
    world = world.with_options(max_crashes=2, alone_after_crashes=9)
    world.take_one()
    assert world.leave() == 1
    assert world.state("a") is State.READY
    world.take_one()
    assert world.silence() == 1
    assert world.state("a") is State.BROKEN
