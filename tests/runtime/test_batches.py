"""Handlers of batches: how they are filled, answered for, and what happens to single jobs in them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.engine import CancelAsked
from tenure.core.errors import InvalidArgument
from tenure.core.outcome import Cancelled, Completed, Failed, Released, Retried
from tenure.core.shape import Shape
from tenure.core.signals import Retry
from tenure.core.task import BatchRule, TaskSpec
from tenure.runtime.jobs.job import Job
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import Rig, task


def batches(
    function: Callable[..., Any], size: int, linger_ms: int = 0, one_lane: bool = False, **more: Any
) -> TaskSpec:
    if isinstance(function, Gate):
        more["is_async"] = True
    return task(function, name=None, decode=None, batch=BatchRule(size, linger_ms, one_lane), **more)


class Gate:
    """A batch handler that says which jobs it got and waits to be let go."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[list[Job]] = asyncio.Queue()
        self.open = asyncio.Event()
        self.cancelled = 0
        self.answer: Any = None

    async def __call__(self, jobs: list[Job]) -> Any:
        self.begun.put_nowait(jobs)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.answer


def ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


def ref_of(rig: Rig, id: str):
    return next(ref for ref in rig.engine.held if ref.id == id)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_full_batches_in_order_each_in_one_slot(kind):
    # nothing is handed back, as on a machine that stands still
    got: list[list[str]] = []

    def in_thread(jobs: list[Job]) -> None:
        got.append(ids(jobs))

    async def on_loop(jobs: list[Job]) -> None:
        got.append(ids(jobs))

    names = [f"{number:04}" for number in range(1_000)]
    spec = batches(on_loop if kind == "async" else in_thread, 50)
    async with Rig(spec, concurrency=1, burst=True, limits={"stuck_ms": limits.MINUTE}) as rig:
        rig.engine.add(*names, task=None)
        assert await rig.ended() is ExitStatus.OK
    assert [name for jobs in got for name in jobs] == names
    assert max(map(len, got)) == 50
    assert sum(len(jobs) == 50 for jobs in got) > 5, "many are full, also where the machine is busy"
    done = [one for one in rig.engine.settled if one.outcome == Completed(b"None")]
    assert [one.lease.record.id for one in done] == names


async def test_the_worker_announces_how_many_jobs_one_slot_runs():
    async with Rig(batches(Gate(), 50)) as rig:
        await rig.engine.until(lambda: bool(rig.engine.announced))
        assert rig.engine.announced[-1].batches == {"q": 50}


async def test_it_waits_for_others_and_then_starts_as_it_is():
    gate = Gate()
    gate.open.set()
    async with Rig(batches(gate, 3, linger_ms=1_000), concurrency=1) as rig:
        began = time.monotonic()
        rig.engine.add("a", task=None)
        await rig.engine.until(lambda: bool(rig.engine.held))
        rig.engine.add("b", task=None)
        assert ids(await gate.begun.get()) == ["a", "b"]
        assert time.monotonic() - began >= 0.99
        await rig.ends("a", "b")


async def test_a_full_batch_starts_without_waiting_for_others():
    gate = Gate()
    gate.open.set()
    async with Rig(batches(gate, 3, linger_ms=600_000), concurrency=1) as rig:
        rig.engine.add("c", task=None)
        await rig.engine.until(lambda: bool(rig.engine.held))
        rig.engine.add("d", "e", task=None)
        assert ids(await gate.begun.get()) == ["c", "d", "e"]
        await rig.ends("c", "d", "e")


async def test_jobs_that_wait_for_their_batch_are_not_stuck():
    """One slot is busy with a long batch, and others gather behind it."""
    gate = Gate()
    async with Rig(batches(gate, 2, linger_ms=600), concurrency=1) as rig:
        rig.engine.add("a", "b", task=None)
        await gate.begun.get()
        await asyncio.sleep(0.3)
        assert not rig.engine.settled
        gate.open.set()
        await rig.ends("a", "b")


async def test_lanes_do_not_mix_with_one_lane():
    got: list[list[str]] = []

    async def handler(jobs: list[Job]) -> None:
        assert len({job.lane for job in jobs}) == 1
        got.append(ids(jobs))

    async with Rig(batches(handler, 10, one_lane=True), concurrency=4) as rig:
        for number in range(3):
            for lane in ("x", "y"):
                rig.engine.add(f"{lane}{number}", task=None, shape=Shape(lane=lane))
        await rig.ends("x0", "x1", "x2", "y0", "y1", "y2")
        assert {"q": 10} in rig.engine.of_lanes
    assert sorted(got) == [["x0", "x1", "x2"], ["y0", "y1", "y2"]]


async def test_each_job_has_its_own_answer():
    async def handler(jobs: list[Job]) -> list[Any]:
        return [1, Retry("busy", delay=60), ValueError("x")]

    async with Rig(batches(handler, 3, retries=0)) as rig:
        rig.engine.add("a", "b", "c", task=None)
        a, b, c = await rig.ends("a", "b", "c")
    assert a == Completed(b"1")
    assert isinstance(b, Failed)
    assert isinstance(c, Failed)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_early_answers_are_settled_at_once_and_an_error_counts_for_the_rest(kind):
    release, arelease = threading.Event(), asyncio.Event()
    refusals: list[str] = []

    def answer(jobs: list[Job]) -> None:
        jobs[0].complete({"sent": 1})
        jobs[1].retry(60, "busy")
        jobs[2].fail("no")
        for again in (jobs[0].complete, jobs[0].retry, jobs[0].fail):
            with pytest.raises(InvalidArgument, match="already has an outcome"):
                again()
        with pytest.raises(InvalidArgument):
            jobs[3].retry(-1)
        refusals.append("all")

    def in_thread(jobs: list[Job]) -> None:
        answer(jobs)
        release.wait()
        raise ValueError("the rest")

    async def on_loop(jobs: list[Job]) -> None:
        answer(jobs)
        await arelease.wait()
        raise ValueError("the rest")

    async with Rig(batches(on_loop if kind == "async" else in_thread, 5, retries=1)) as rig:
        rig.engine.add("a", "b", "c", "d", "e", task=None)
        a, b, c = await rig.ends("a", "b", "c")
        assert a == Completed(b"{'sent': 1}")
        assert isinstance(b, Retried)
        assert b.delay_ms == 60_000
        assert isinstance(c, Failed)
        assert {ref.id for ref in rig.engine.held} == {"d", "e"}
        release.set()
        arelease.set()
        assert [type(end) for end in await rig.ends("d", "e")] == [Retried, Retried]
    assert refusals
    assert not rig.engine.refused


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_answers_of_the_last_moment_are_not_settled_twice(kind):
    def in_thread(jobs: list[Job]) -> list[int]:
        for job in jobs:
            job.complete(job.id)
        return [0] * len(jobs)

    async def on_loop(jobs: list[Job]) -> list[int]:
        return in_thread(jobs)

    names = [str(number) for number in range(500)]
    async with Rig(batches(on_loop if kind == "async" else in_thread, 7), concurrency=3, burst=True) as rig:
        rig.engine.add(*names, task=None)
        assert await rig.ended() is ExitStatus.OK
    for name in names:
        assert [one for one in rig.engine.outcomes(name) if one != Released()] == [Completed(repr(name).encode())]
    assert not rig.engine.refused


async def test_answers_are_for_batches_only():
    async def handler(job: Job) -> None:
        for answer in (job.complete, job.retry, job.fail):
            with pytest.raises(InvalidArgument, match="batches"):
                answer()

    async with Rig(task(handler, name=None, decode=None, retries=0), burst=True) as rig:
        rig.engine.add("a", task=None)
        await rig.ended()
    assert rig.engine.outcomes("a") == [Completed(b"None")]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_batch_ends_at_the_earliest_deadline_of_what_is_not_answered(kind):
    release, arelease = threading.Event(), asyncio.Event()

    def begin(jobs: list[Job]) -> None:
        jobs[0].complete()
        assert jobs[2].remaining is not None
        assert jobs[2].remaining < 0.5

    def in_thread(jobs: list[Job]) -> None:
        begin(jobs)
        release.wait()

    async def on_loop(jobs: list[Job]) -> None:
        begin(jobs)
        await arelease.wait()

    async with Rig(batches(on_loop if kind == "async" else in_thread, 3, retries=0)) as rig:
        rig.engine.add("answered", task=None, timeout_ms=100)
        rig.engine.add("short", task=None, timeout_ms=400)
        rig.engine.add("long", task=None, timeout_ms=600_000)
        began = time.monotonic()
        _, *late = await rig.ends("answered", "short", "long")
        assert time.monotonic() - began >= 0.35
        release.set()
    for outcome in late:
        assert isinstance(outcome, Failed)
        assert outcome.error.type == "Timeout"


async def test_more_time_for_each_is_more_time_for_the_batch():
    async def handler(jobs: list[Job]) -> None:
        for job in jobs:
            assert await job.aextend(60)
        await asyncio.sleep(0.4)

    async with Rig(batches(handler, 2, retries=0), burst=True) as rig:
        rig.engine.add("a", "b", task=None, timeout_ms=200)
        await rig.ended()
    assert rig.engine.outcomes("a") == rig.engine.outcomes("b") == [Completed(b"None")]


async def test_one_that_is_lost_or_cancelled_is_marked_and_the_batch_goes_on():
    gate = Gate()
    gate.answer = [1, ValueError(), 3]
    async with Rig(batches(gate, 3)) as rig:
        rig.engine.add("lost", "cancelled", "other", task=None)
        jobs = await gate.begun.get()
        asked = CancelAsked(ref_of(rig, "cancelled"), "asked")
        rig.keeper.beat(lost=[rig.engine.lose("lost")], cancelled=[asked])
        await rig.keeper.heard(1)
        assert [job.lost for job in jobs] == [True, False, False]
        assert [job.cancelled for job in jobs] == [False, True, False]
        assert gate.cancelled == 0
        gate.open.set()
        assert await rig.ends("cancelled", "other") == [Cancelled("asked"), Completed(b"3")]
    assert not rig.engine.refused


async def test_when_all_are_lost_or_cancelled_the_handler_is_cancelled():
    gate = Gate()
    async with Rig(batches(gate, 3)) as rig:
        rig.engine.add("lost", "a", "b", task=None)
        await gate.begun.get()
        rig.keeper.beat(lost=[rig.engine.lose("lost")])
        rig.keeper.beat(cancelled=[CancelAsked(ref_of(rig, "a"), "asked")])
        await rig.keeper.heard(2)
        assert gate.cancelled == 0
        rig.keeper.beat(cancelled=[CancelAsked(ref_of(rig, "b"), "asked")])
        assert await rig.ends("a", "b") == [Cancelled("asked")] * 2
    assert gate.cancelled == 1


async def test_all_lost():
    gate = Gate()
    async with Rig(batches(gate, 2), concurrency=1) as rig:
        rig.engine.add("a", "b", task=None)
        await gate.begun.get()
        rig.keeper.beat(lost=[rig.engine.lose("a"), rig.engine.lose("b")])
        rig.engine.add("next", task=None)
        assert ids(await gate.begun.get()) == ["next"]
    assert gate.cancelled == 2
    assert not rig.engine.refused


async def test_a_stop_hands_back_what_gathers_in_its_order():
    gate = Gate()
    async with Rig(batches(gate, 50, linger_ms=60_000)) as rig:
        rig.engine.add("a", "b", "c", task=None)
        await rig.engine.until(lambda: len(rig.engine.held) == 3)
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.OK
    assert [lease.record.id for lease in rig.engine.ready["q"]] == ["a", "b", "c"]
    assert gate.begun.empty()


async def test_after_grace_a_running_batch_is_given_back():
    gate = Gate()
    async with Rig(batches(gate, 2), grace_ms=0) as rig:
        rig.engine.add("a", "b", task=None)
        await gate.begun.get()
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.OK
    assert rig.engine.left == 2
    assert gate.cancelled == 1
    assert not rig.engine.settled


async def test_batches_and_single_jobs_share_the_slots_of_one_worker():
    seen: list[int] = []
    ran: list[str] = []

    async def many(jobs: list[Job]) -> None:
        seen.append(len(jobs))
        await asyncio.sleep(0.001)

    async def one() -> None:
        ran.append("one")
        await asyncio.sleep(0.001)

    spec = batches(many, 20, linger_ms=50, queue="b")
    async with Rig(task(one), more=[spec], queues=["q", "b"], concurrency=2, burst=True) as rig:
        rig.engine.add(*(f"s{number}" for number in range(100)))
        rig.engine.add(*(f"b{number}" for number in range(205)), queue="b", task=None)
        assert await rig.ended() is ExitStatus.OK
    assert len(ran) == 100
    assert sum(seen) == 205
    assert max(seen) == 20
    assert not rig.engine.held
    # Each queue was asked for what there was room for: never for batches' worth of single jobs.
    single = [limit for order, limit in zip(rig.engine.orders, rig.engine.limits_asked, strict=True) if order == ("q",)]
    assert all(order in (("q",), ("b",)) for order in rig.engine.orders)
    assert single[0] == 2


async def test_a_queue_without_a_batch_handler_is_claimed_from_while_a_batch_gathers():
    gate = Gate()
    done = asyncio.Event()

    async def one() -> None:
        done.set()

    spec = batches(gate, 50, linger_ms=60_000, queue="b")
    async with Rig(task(one), more=[spec], queues=["b", "q"], concurrency=2) as rig:
        rig.engine.add("b", queue="b", task=None)
        await rig.engine.until(lambda: bool(rig.engine.held))
        rig.engine.add("s")
        await done.wait()
        assert gate.begun.empty()


async def test_a_single_slot_that_a_batch_waits_for_is_there_for_others_again():
    """One slot, spoken for by a batch that gathers: other queues are claimed from when it is free again."""
    gate = Gate()
    gate.open.set()
    done = asyncio.Event()

    async def one() -> None:
        done.set()

    spec = batches(gate, 50, linger_ms=300, queue="b")
    async with Rig(task(one), more=[spec], queues=["b", "q"], concurrency=1) as rig:
        rig.engine.add("b", queue="b", task=None)
        await rig.engine.until(lambda: bool(rig.engine.held))
        rig.engine.add("s")
        await gate.begun.get()
        await done.wait()


async def test_a_worker_of_batches_says_how_many_jobs_it_may_run():
    """All of them may be to blame when it dies, and not only as many as it has slots."""

    async def many(jobs: list[Job]) -> None: ...

    async with Rig(batches(many, 20), concurrency=2, burst=True) as rig:
        rig.engine.add("a", task=None)
        assert await rig.ended() is ExitStatus.OK
    assert set(rig.engine.slots) == {2 * 20}
