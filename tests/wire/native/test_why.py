"""Why a job does not run: for each reason its text, what keeps the job, and the command that mends it."""

from __future__ import annotations

import re
import shlex
import time
from typing import Any, Final

import click
import pytest

from tenure.cli import commands
from tenure.client.why import Case, explain, reasons_of, why_of
from tenure.core.engine import Alone
from tenure.core.errors import Unreachable
from tenure.core.job import JobView, NewJob, State
from tenure.core.outcome import Failed, Retried
from tenure.core.rates import LimitRule
from tenure.core.shape import Conflict, LaneFailure, Shape
from tenure.core.why import Culprit, JobFacts, Why, WhyCode
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.moving import CLOSED, CLOSED_BY
from tenure.engines.native.transfer import NativeTransfer
from tests.support.engines import LEASE_MS
from tests.support.stepping import stop_after
from tests.support.world import BOOM, World

ONE: Final = LimitRule("api", concurrency=1)
CLOCK: Final = r"\d\d:\d\d:\d\d UTC"


def announce(
    world: World,
    worker: str = "w",
    *,
    tasks: tuple[str, ...] | None = None,
    slots: int = 10,
    queues: tuple[str, ...] = ("q",),
    seen_s: float = 0,
    **facts: Any,
) -> None:
    seen_ms = round((time.time() - seen_s) * 1_000)
    view = WorkerView(worker, queues, "host", 1, seen_ms, seen_ms, slots, tasks=tasks, **facts)
    world.run(world.engine.announce(view))
    if seen_s:
        world.command("ZADD", f"{world.engine.shared()}:workers", seen_ms, worker)


def why(world: World, id: str) -> Why:
    found = world.run(why_of(world.engine, "q", id, time.time() * 1_000))
    assert found is not None
    return found


def check(found: Why, code: WhyCode, text: str, culprit: Culprit | None = None, command: str = "") -> Why:
    assert found.code is code, found
    assert re.fullmatch(text, found.text), found.text
    assert (found.culprit, found.command) == (culprit, command)
    if command:
        _, name, *words = shlex.split(command)
        parsed = commands.get_command(click.Context(commands), name)
        assert parsed is not None
        parsed.make_context(name, words)
    return found


def job(id: str) -> Culprit:
    return Culprit("job", id, "q")


@pytest.fixture
def world(world: World) -> World:
    """With a worker that has free slots and every task."""
    announce(world)
    return world


def test_an_unknown_job_has_no_reason(world: World) -> None:
    assert world.run(why_of(world.engine, "q", "nobody", 0)) is None


def test_scheduled(world: World) -> None:
    world.put("x", delay_ms=60_000)
    found = check(why(world, "x"), WhyCode.SCHEDULED, f"its time is {CLOCK}", None, "tenure reschedule q x --delay 0")
    assert found.until_ms == world.view("x").due_ms


def test_backoff(world: World) -> None:
    world.put("x")
    world.settle(world.take_one(), Retried(BOOM, 60_000))
    text = rf"attempt 1 failed \(Boom\): the next is at {CLOCK}"
    found = check(why(world, "x"), WhyCode.BACKOFF, text, None, "tenure reschedule q x --delay 0")
    assert (found.since_ms, found.until_ms) == (world.view("x").error.at_ms, world.view("x").due_ms)  # type: ignore[union-attr]


def test_after_unique(world: World) -> None:
    world.put_only("a")
    world.take_one()
    world.put_only("b", conflict=Conflict.RERUN)
    (waiting,) = world.ids(State.SCHEDULED)
    text = f"it runs after job a, which has its unique key and runs on worker w since {CLOCK}"
    check(why(world, waiting), WhyCode.AFTER_UNIQUE, text, job("a"))


def test_lane_limit_then_behind(world: World) -> None:
    world.put_in("L", "a", "b", "c")
    world.take_one()
    text = f"lane L runs 1 at a time: job a runs on worker w since {CLOCK}"
    found = check(why(world, "c"), WhyCode.LANE_LIMIT, text, job("a"))
    (behind,) = found.also
    check(behind, WhyCode.LANE_BEHIND, "1 job is before it in lane L; the first is b", job("b"))


def test_lane_behind(world: World) -> None:
    world.put_in("L", "a", "b", "c")
    check(why(world, "c"), WhyCode.LANE_BEHIND, "2 jobs are before it in lane L; the first is a", job("a"))


def test_lane_blocked(world: World) -> None:
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_in("L", "a", "b")
    world.settle(world.take_one(), Failed(BOOM))
    text = "lane L is blocked by failed job a"
    check(why(world, "b"), WhyCode.LANE_BLOCKED, text, job("a"), "tenure retry q a")


@pytest.mark.parametrize(
    ("by", "text", "command"),
    [
        ("", "a user", "tenure resume q --lane 'L 1'"),
        ("a", "the failure of job a", "tenure resume q --lane 'L 1'"),
        (CLOSED_BY, "a move from another server", "tenure info q"),
    ],
)
def test_lane_parked(world: World, by: str, text: str, command: str) -> None:
    world.configure(lane_failure=LaneFailure.PARK)
    world.put_in("L 1", "a", "b")
    if by == "a":
        world.settle(world.take_one(), Failed(BOOM))
    elif by == CLOSED_BY:
        world.run(NativeTransfer(world.engine.native).set_lanes("q", {"L 1": CLOSED}))
    else:
        world.run(world.engine.lanes.park_lane("q", "L 1"))
    lane = Culprit("lane", "L 1", "q")
    found = check(why(world, "b"), WhyCode.LANE_PARKED, f"lane L 1 is parked by {text}", lane, command)
    assert found.since_ms is not None


def test_queue_paused(world: World) -> None:
    world.put("x")
    world.configure(paused=True)
    check(why(world, "x"), WhyCode.QUEUE_PAUSED, "the queue is paused", Culprit("queue", "q"), "tenure resume q")


def test_queue_cancelling(world: World) -> None:
    """The caller of `cancel_all` stops after its first call."""
    world.put(*(f"x{n}" for n in range(300)))
    assert not stop_after(1, world.engine.cancel_all("q"), world.driver)
    check(
        why(world, world.ids(State.READY)[-1]),
        WhyCode.QUEUE_CANCELLING,
        "jobs of the queue are being cancelled: none starts until then",
    )


def test_limit_full(world: World) -> None:
    world.put("a", "b", shape=Shape(limits=(ONE,)))
    world.take(1)
    world.take(1)
    text = "limit api is full: 1 of 1 places are taken, by job a"
    check(why(world, "b"), WhyCode.LIMIT_FULL, text, Culprit("limit", "api"), "tenure limits api")


def test_limit_rate(world: World) -> None:
    world.put("a", "b", shape=Shape(limits=(LimitRule("api", interval_us=60_000_000),)))
    world.take(10)
    text = f"limit api lets the next job start at {CLOCK}"
    found = check(why(world, "b"), WhyCode.LIMIT_RATE, text, Culprit("limit", "api"), "tenure limits api")
    assert found.until_ms is not None


def test_limit_resting(world: World) -> None:
    world.put("a", "b", shape=Shape(limits=(ONE,)))
    world.settle(world.take_one(), Retried(BOOM, 60_000, deferred=True, limit="api"))
    world.take(10)
    text = f"limit api rests until {CLOCK}"
    check(why(world, "b"), WhyCode.LIMIT_RESTING, text, Culprit("limit", "api"), "tenure limits api")


def test_share(world: World) -> None:
    world.put("a", shape=Shape(share="t1"))
    world.put("b", shape=Shape(share="t2"))
    check(why(world, "b"), WhyCode.SHARE, "share t2 has its turn after 1 other", Culprit("share", "t2"))


def test_priority_and_turn(world: World) -> None:
    world.put_at(5, "urgent", "urgent too")
    world.put("a", "b")
    found = check(why(world, "b"), WhyCode.PRIORITY, "2 jobs of higher priority come first")
    (turn,) = found.also
    check(turn, WhyCode.TURN, "1 job is before it")
    check(why(world, "urgent"), WhyCode.TURN, "it is the next one")


def test_turn_of_lanes(world: World) -> None:
    world.put_in("L", "a")
    world.put_in("M", "b")
    check(why(world, "b"), WhyCode.TURN, "1 lane has its turn before it")


def test_no_worker(world: World) -> None:
    announce(world, seen_s=20)
    world.put("x")
    text = f"no living worker serves the queue; w was last seen at {CLOCK}"
    assert check(why(world, "x"), WhyCode.NO_WORKER, text).since_ms is not None
    announce(world, queues=("other",))
    check(why(world, "x"), WhyCode.NO_WORKER, "no living worker serves the queue")


def test_no_task(world: World) -> None:
    announce(world, tasks=("send", "report"))
    world.put("x", task="pay")
    text = "no living worker of the queue has task pay: w has report, send"
    check(why(world, "x"), WhyCode.NO_TASK, text, Culprit("worker", "w"))


def test_quiet(world: World) -> None:
    announce(world, quiet=True)
    world.put("x")
    text = "worker w is quiet: it starts no jobs"
    check(why(world, "x"), WhyCode.QUIET, text, Culprit("worker", "w"), "tenure quiet w --undo")


def test_busy(world: World) -> None:
    announce(world, slots=2)
    world.put("a", "b", "c")
    world.take(2)
    text = f"all 2 slots of its worker are taken; job a has run longest, since {CLOCK}"
    check(why(world, "c"), WhyCode.BUSY, text, job("a"))


def test_busy_with_jobs_of_another_queue(world: World) -> None:
    announce(world, slots=2, queues=("q", "other"), active=2)
    world.put("x")
    check(why(world, "x"), WhyCode.BUSY, "all 2 slots of its worker are taken", Culprit("worker", "w"))


def test_busy_with_jobs_that_wait_for_results(world: World) -> None:
    announce(world, slots=2, awaiting=2)
    world.put("x")
    text = "jobs that wait for the results of other jobs hold all slots"
    check(why(world, "x"), WhyCode.BUSY, text, Culprit("worker", "w"))


def test_suspect(world: World) -> None:
    world.put("x", "y")
    for n in range(world.options.alone_after_crashes):
        world.take(500, f"dead{n}", alone=Alone.NO)
        world.leave(f"dead{n}", crashed=True)
    found = why(world, "x")
    text = r"it was running when \d workers died: .*"
    check(found, WhyCode.SUSPECT, text, job("x"))


def test_held(world: World) -> None:
    world.put("x")
    world.take_one()
    found = check(why(world, "x"), WhyCode.HELD, f"worker w holds it since {CLOCK}", Culprit("worker", "w"))
    assert (found.since_ms, found.also) == (world.view("x").started_ms, ())


def test_held_by_a_worker_with_a_blocked_loop(world: World) -> None:
    world.put("x")
    world.take_one()
    announce(world, seen_s=20)
    (blocked,) = why(world, "x").also
    text = "the event loop of worker w is blocked: a handler does not await"
    check(blocked, WhyCode.LOOP_BLOCKED, text, Culprit("worker", "w"))


def test_held_by_silent(world: World) -> None:
    world.put("x")
    world.take_one()
    world.pass_time(LEASE_MS + 50)
    text = "worker w holds it and sends no heartbeat: the job returns to the queue soon"
    found = check(why(world, "x"), WhyCode.HELD_BY_SILENT, text, Culprit("worker", "w"))
    assert found.until_ms is not None


def test_after_outage(world: World) -> None:
    world.put("x", "y")
    world.take_one()
    world.pass_time(LEASE_MS + 50)
    world.command("HSET", world.key("meta"), "amnesty", round(time.time() * 1_000) + 60_000)
    (outage,) = why(world, "x").also
    check(outage, WhyCode.AFTER_OUTAGE, f"Redis was away: no job of a silent worker returns before {CLOCK}")
    assert WhyCode.AFTER_OUTAGE not in {one.code for one in (why(world, "y"), *why(world, "y").also)}


def test_unreachable(world: World) -> None:
    def facts(queue: str, id: str) -> object:
        raise Unreachable("Node 3 cannot be reached.")

    world.put("x")
    world.engine.facts = facts
    check(why(world, "x"), WhyCode.UNREACHABLE, r"Node 3 cannot be reached\.", Culprit("queue", "q"))


def test_newer_layout(world: World) -> None:
    world.put("x")
    world.set_layout(99)
    text = r"a newer release has written to the queue \(layout 99\): older workers claim nothing"
    check(why(world, "x"), WhyCode.NEWER_LAYOUT, text, Culprit("queue", "q"))


@pytest.mark.parametrize("how", ["memory", "replica"])
def test_redis_refuses(world: World, how: str) -> None:
    world.put("x")
    if how == "memory":
        world.command("CONFIG", "SET", "maxmemory", 1)
    else:
        world.command("REPLICAOF", "127.0.0.1", 1)
    try:
        found = why(world, "x")
    finally:
        world.command("CONFIG", "SET", "maxmemory", 0)
        world.command("REPLICAOF", "NO", "ONE")
    check(found, WhyCode.REDIS_REFUSES, r"Redis refuses writes: (OOM|READONLY) [^@]+", None, "tenure check")


def test_moving(world: World) -> None:
    world.put("x")
    transfer = NativeTransfer(world.engine.native)
    page = world.run(transfer.export("q", "there"))
    text = "it is on its way to another server or partition"
    check(why(world, "x"), WhyCode.MOVING, text, Culprit("queue", "q"), "tenure info q")
    world.run(transfer.end_export("q", page, None))


def test_unknown() -> None:
    """Of a format of other programs, their workers and the place of a job are not known."""
    view = JobView("x", "q", State.READY)
    check(explain(Case(view, JobFacts(view=view), None, 0.0)), WhyCode.UNKNOWN, "no reason is known")


def test_ended(world: World) -> None:
    world.put("x")
    world.settle(world.take(1)[0], Failed(BOOM))
    check(why(world, "x"), WhyCode.ENDED, "it has ended: failed", None, "tenure retry q x")


def test_the_reasons_of_a_queue_are_counted(world: World) -> None:
    world.put("a", "b", "c", shape=Shape(limits=(ONE,)))
    world.take(1)
    world.take(1)
    world.put_in("L", "d", "e")
    world.put("f", delay_ms=60_000)
    count = world.run(reasons_of(world.engine, "q", time.time() * 1_000))
    reasons = {WhyCode.LIMIT_FULL: 2, WhyCode.TURN: 1, WhyCode.LANE_BEHIND: 1, WhyCode.SCHEDULED: 1}
    assert (count.reasons, count.jobs, count.is_whole) == (reasons, 5, True)


def test_at_most_1_000_jobs_are_counted(world: World) -> None:
    world.enqueue([NewJob("q", f"x{n}", b"") for n in range(1_100)])
    count = world.run(reasons_of(world.engine, "q", time.time() * 1_000))
    assert (count.reasons, count.is_whole) == ({WhyCode.TURN: 1_000}, False)


def test_two_calls_explain_a_job(world: World) -> None:
    world.put_in("L", *(f"x{n}" for n in range(100)))
    assert not stop_after(1, why_of(world.engine, "q", "x99", 0), world.driver)
    assert stop_after(2, why_of(world.engine, "q", "x99", 0), world.driver)


def test_a_command_for_a_name_with_a_dash(world: World) -> None:
    world.put("-x", delay_ms=60_000)
    command = "tenure reschedule --delay 0 -- q -x"
    check(why(world, "-x"), WhyCode.SCHEDULED, f"its time is {CLOCK}", command=command)


def test_a_time_on_another_day_has_its_date(world: World) -> None:
    world.put("x", delay_ms=3 * 86_400_000)
    text = r"its time is \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    check(why(world, "x"), WhyCode.SCHEDULED, text, command="tenure reschedule q x --delay 0")
