"""Handlers that go on when their time is over: what becomes of their jobs, of their lanes and of their worker."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.errors import Unreachable
from tenure.core.outcome import Cancelled, Completed, Failed, Released, Retried
from tenure.core.rates import LimitRule
from tenure.core.shape import Shape, UniqueRule, Until
from tenure.core.task import BatchRule
from tenure.runtime.handlers.blocked import BLOCKED_S, LOOK_S
from tenure.runtime.jobs.held import OVERRUN_GRACE_MS
from tenure.runtime.jobs.job import current_job
from tenure.runtime.ports import Env
from tenure.runtime.shutdown import ExitStatus
from tests.runtime import fakes
from tests.runtime.fakes import Gate, gated, task
from tests.runtime.test_cancel import ask

LANE = Shape(lane="a lane")
SHORT_MS = 100
"""A timeout within which a handler begins, also on a busy machine: one that has not begun ends at once."""
ALONE = [
    LANE,
    Shape(persistent=True),
    Shape(limits=(LimitRule("gpu", concurrency=1),)),
    Shape(unique=UniqueRule("a key")),
]
"""Shapes that belong to the handler of a job: nothing may take their place before it has ended."""


class Stubborn:
    """Handlers that do not end when their time is over, but when they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.release = threading.Event()

    def in_thread(self, *_: Any) -> None:
        self._begin()
        self.release.wait(10)

    async def on_loop(self, *_: Any) -> None:
        self._begin()
        for _turn in range(1_000):
            if self.release.is_set():
                break
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    def _begin(self) -> None:
        job = current_job()
        self.begun.append(job.id if job is not None else "")

    def of(self, kind: str) -> Callable[..., Any]:
        return self.on_loop if kind == "async" else self.in_thread


class Rig(fakes.Rig):
    """A worker that gives handlers up soon."""

    def __init__(self, function: Any, *, limits: dict[str, int] | None = None, **options: Any) -> None:
        super().__init__(function, limits={"cancel_ms": 20} | (limits or {}), **options)


@pytest.fixture
def stubborn() -> Iterator[Stubborn]:
    made = Stubborn()
    yield made
    made.release.set()


both = pytest.mark.parametrize("kind", ["async", "sync"])


async def logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(10):
        while text not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


# -------------------------------------------------------------------------------------------------------------- lanes


@both
@pytest.mark.parametrize("shape", ALONE)
async def test_its_lane_limits_and_key_wait_until_it_has_really_ended(stubborn, caplog, kind, shape):
    async with Rig(task(stubborn.of(kind), retries=5), concurrency=4) as rig:
        rig.engine.add("a", shape=shape, timeout_ms=SHORT_MS)
        await logged(caplog, "job=kept")
        rig.engine.add("free", timeout_ms=SHORT_MS)
        await rig.ends("free")  # without a lane: as soon as its time is over
        assert not rig.engine.outcomes("a")
        assert "a" in {ref.id for ref in rig.engine.held}
        stubborn.release.set()
        (outcome,) = await rig.ends("a")
    assert isinstance(outcome, Retried)  # decided when its time was over
    assert outcome.error.type == "Timeout"


async def test_a_key_that_ended_with_the_start_waits_for_nothing(stubborn):
    async with Rig(task(stubborn.in_thread, retries=0)) as rig:
        rig.engine.add("a", shape=Shape(unique=UniqueRule("a key", Until.STARTED)), timeout_ms=SHORT_MS)
        await rig.ends("a")
        assert not stubborn.release.is_set()


@both
@pytest.mark.parametrize("shape", [LANE, *ALONE[2:]])
@pytest.mark.parametrize(("retries", "kind_of_end"), [(0, Failed), (5, Retried)])
async def test_one_that_goes_on_for_long_is_settled_with_its_timeout(
    stubborn, caplog, kind, shape, retries, kind_of_end
):
    """Before its keeper gives it up: a crash would start the job again, whatever its retries."""
    ahead_s = [0.0]
    spec = task(stubborn.of(kind), retries=retries)
    async with Rig(spec, env=Env(clock=lambda: time.monotonic() + ahead_s[0])) as rig:
        rig.engine.add("a", shape=shape, timeout_ms=SHORT_MS)
        await logged(caplog, "job=kept")
        ahead_s[0] = OVERRUN_GRACE_MS / limits.SECOND + 1
        (outcome,) = await rig.ends("a")
        assert isinstance(outcome, kind_of_end)
        assert outcome.error.type == "Timeout"
        assert "reason='it has not ended 25 s after its timeout'" in caplog.text
        stubborn.release.set()
        await logged(caplog, "ended=True")
    assert rig.engine.outcomes("a")[0] is outcome
    assert stubborn.begun == ["a"] * len(rig.engine.outcomes("a"))  # one outcome for each start
    assert len(stubborn.begun) == 1 or retries
    assert "lease_lost" not in caplog.text


async def test_one_that_was_lost_meanwhile_is_not_settled(stubborn, caplog):
    """Its loop was blocked, or its keeper was quicker."""
    ahead_s = [0.0]
    async with Rig(task(stubborn.in_thread), env=Env(clock=lambda: time.monotonic() + ahead_s[0])) as rig:
        rig.engine.add("a", shape=LANE, timeout_ms=SHORT_MS)
        rig.engine.add("b", shape=LANE, timeout_ms=SHORT_MS)
        async with asyncio.timeout(10):
            while caplog.text.count("job=kept") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        rig.keeper.beat(lost=[rig.engine.lose("a")])
        await logged(caplog, "lease_lost")
        ahead_s[0] = OVERRUN_GRACE_MS / limits.SECOND + 1
        await rig.ends("b")
        assert caplog.text.count("reason='it has not ended") == 1
        stubborn.release.set()
    assert not rig.engine.outcomes("a")


async def test_in_a_batch_those_that_are_kept_are_settled_together(stubborn, caplog):
    """Even those with more time of their own: the handler, which they share, has overrun."""
    ahead_s = [0.0]
    spec = task(stubborn.in_thread, name=None, decode=None, batch=BatchRule(3), retries=0)
    async with Rig(spec, env=Env(clock=lambda: time.monotonic() + ahead_s[0])) as rig:
        rig.engine.add("a", shape=LANE, task=None, timeout_ms=SHORT_MS)
        rig.engine.add("b", shape=LANE, task=None, timeout_ms=limits.HOUR)
        rig.engine.add("c", task=None, timeout_ms=SHORT_MS)
        ends = await rig.ends("c")
        assert {ref.id for ref in rig.engine.held} == {"a", "b"}
        ahead_s[0] = OVERRUN_GRACE_MS / limits.SECOND + 1
        ends += await rig.ends("a", "b")
        assert caplog.text.count("reason='it has not ended") == 2
        stubborn.release.set()
    assert [type(end) for end in ends] == [Failed] * 3


async def test_in_a_batch_those_with_a_lane_wait(stubborn, caplog):
    spec = task(stubborn.in_thread, name=None, decode=None, batch=BatchRule(2), retries=0)
    async with Rig(spec) as rig:
        rig.engine.add("a", shape=LANE, task=None, timeout_ms=SHORT_MS)
        rig.engine.add("b", task=None, timeout_ms=SHORT_MS)
        await logged(caplog, "job=kept")
        await rig.ends("b")
        assert not rig.engine.outcomes("a")
        stubborn.release.set()
        (outcome,) = await rig.ends("a")
    assert isinstance(outcome, Failed)


async def test_one_that_is_to_be_cancelled_meanwhile_is(stubborn, caplog):
    async with Rig(task(stubborn.in_thread)) as rig:
        rig.engine.add("a", shape=LANE, timeout_ms=SHORT_MS)
        await logged(caplog, "job=kept")
        ask(rig, "a")
        await rig.keeper.heard(1)
        assert not rig.engine.settled
        stubborn.release.set()
        assert await rig.ends("a") == [Cancelled("not needed")]


@both
async def test_a_worker_that_stops_does_not_wait_for_it(stubborn, caplog, kind):
    async with Rig(task(stubborn.of(kind)), grace_ms=60_000) as rig:
        rig.engine.add("a", shape=LANE, timeout_ms=SHORT_MS)
        await logged(caplog, "job=kept")
        rig.worker.stop()
        async with asyncio.timeout(20):
            assert await rig.ended() is ExitStatus.ABANDONED
    stubborn.release.set()


@pytest.mark.parametrize(("retries", "kind"), [(0, Failed), (5, Retried)])
async def test_when_the_worker_ends_before_it_does_the_attempt_counts(stubborn, caplog, retries, kind):
    """Else one that always hangs would come back for ever."""
    async with Rig(task(stubborn.in_thread, retries=retries), grace_ms=0) as rig:
        rig.engine.add("a", shape=LANE, timeout_ms=SHORT_MS)
        await logged(caplog, "job=kept")
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.ABANDONED
    # Nobody may run it before the handler has ended, and that ends with this process.
    assert rig.engine.settled == []
    assert rig.engine.left is None
    assert rig.keeper.left is False
    ((ref, outcome),) = rig.keeper.outcomes
    assert (ref.id, type(outcome)) == ("a", kind)


@pytest.mark.parametrize("shape", ALONE)
async def test_one_that_outlasts_the_time_of_grace_goes_back_when_the_process_has_ended(stubborn, shape):
    async with Rig(task(stubborn.in_thread), grace_ms=0) as rig:
        rig.engine.add("a", shape=shape)
        rig.engine.add("free")
        async with asyncio.timeout(10):
            while len(stubborn.begun) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.ABANDONED
    assert rig.engine.outcomes("free") == [Released()]
    assert rig.engine.outcomes("a") == []
    assert rig.keeper.left is False


async def test_at_a_stop_the_log_says_which_jobs_are_kept(stubborn, caplog):
    async with Rig(task(stubborn.on_loop), concurrency=3, grace_ms=0) as rig:
        for id, shape in (("lane", LANE), ("persistent", Shape(persistent=True)), ("free", Shape())):
            rig.engine.add(id, shape=shape)
        async with asyncio.timeout(10):
            while len(stubborn.begun) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            rig.worker._parts.canceller.end_all()  # as a stop does, which may end before all is told
            while caplog.text.count("handler_overran") < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.ABANDONED
    stubborn.release.set()
    kept = {line.partition(" id=")[2].split()[0] for line in caplog.messages if " job=kept " in line}
    assert kept == {ref.id for ref in rig.engine.held} == {"lane", "persistent"}


async def test_a_job_that_was_lost_is_not_kept(stubborn, caplog):
    async with Rig(task(stubborn.on_loop)) as rig:
        rig.engine.add("a", shape=LANE)
        async with asyncio.timeout(10):
            while not stubborn.begun:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        rig.keeper.beat(lost=tuple(rig.engine.held))
        await logged(caplog, "handler_overran")
        stubborn.release.set()
    assert "job='given up'" in caplog.text


async def test_one_that_hangs_does_not_blame_others_that_redis_keeps_from_going_back(stubborn, caplog):

    def fault(call: str) -> None:
        raise Unreachable("gone")

    gate = Gate()
    async with Rig(
        task(stubborn.in_thread), more=[gated(gate, name="other")], grace_ms=0, limits={"flush_ms": 10, "leave_ms": 10}
    ) as rig:
        rig.engine.add("a", shape=LANE, timeout_ms=SHORT_MS)
        await logged(caplog, "job=kept")
        rig.engine.add("b", task="other")
        await gate.begun.get()
        rig.driver.fault = fault
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.ABANDONED
    stubborn.release.set()
    assert rig.keeper.left is False


async def test_what_ended_with_the_stop_goes_back_at_once(stubborn, caplog):
    """A job must not be counted as crashed, nor wait, because a neighbour hangs."""

    async def heeds() -> None:
        await asyncio.sleep(30)

    async def by_id() -> None:
        job = current_job()
        assert job is not None
        await (stubborn.on_loop() if job.id == "a" else heeds())

    async with Rig(task(by_id), grace_ms=0) as rig:
        rig.engine.add("a", shape=LANE, timeout_ms=SHORT_MS)
        rig.engine.add("b")
        await logged(caplog, "job=kept")
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.ABANDONED
    stubborn.release.set()
    assert rig.engine.outcomes("b") == [Released()]
    assert {ref.id for ref in rig.engine.held} == {"a"}


# ------------------------------------------------------------------------------------------------------- all the slots


@both
async def test_when_they_take_up_every_slot_the_worker_retires(stubborn, caplog, kind):
    async with Rig(task(stubborn.of(kind), retries=0), grace_ms=60_000, limits={"stuck_slots_ms": 50}) as rig:
        rig.engine.add("a", "b", timeout_ms=SHORT_MS)
        async with asyncio.timeout(20):  # neither the time of grace nor that of a recycling is waited for
            assert await rig.ended() is ExitStatus.ABANDONED
        assert rig.worker.retiring == "all slots (2) are occupied by handlers that do not end"
        assert rig.worker.trouble == rig.worker.retiring
    stubborn.release.set()
    assert "all slots (2) are occupied" in caplog.text
    assert [type(one.outcome) for one in rig.engine.settled if one.outcome != Released()] == [Failed, Failed]


async def test_one_slot_that_is_left_is_enough(stubborn):

    def handler() -> None:
        job = current_job()
        if job is not None and job.id == "a":
            stubborn.in_thread()

    async with Rig(task(handler, retries=0), concurrency=2, limits={"stuck_slots_ms": 20}) as rig:
        rig.engine.add("a", timeout_ms=SHORT_MS)
        await rig.ends("a")
        for number in range(10):
            rig.engine.add(f"b{number}")
            await rig.ends(f"b{number}")
            await asyncio.sleep(0.03)
        assert rig.worker.retiring is None


async def test_handlers_that_are_a_little_over_their_time_are_no_reason(stubborn, caplog):
    async with Rig(task(stubborn.in_thread, retries=0), concurrency=1) as rig:
        rig.engine.add("a", timeout_ms=SHORT_MS)
        await rig.ends("a")
        await asyncio.sleep(0.2)
        stubborn.release.set()
        rig.engine.add("b")
        await rig.ends("b")
    assert " reason=" not in caplog.text


@both
async def test_a_stop_does_not_wait_for_them(stubborn, kind):
    async with Rig(task(stubborn.of(kind), retries=0), grace_ms=60_000) as rig:
        rig.engine.add("a", timeout_ms=SHORT_MS)
        await rig.ends("a")
        rig.worker.stop()
        async with asyncio.timeout(20):
            assert await rig.ended() is ExitStatus.ABANDONED
    stubborn.release.set()


@both
async def test_a_burst_does_not_wait_for_them(stubborn, kind):
    async with Rig(task(stubborn.of(kind), retries=0), burst=True) as rig:
        rig.engine.add("a", timeout_ms=SHORT_MS)
        async with asyncio.timeout(20):
            assert await rig.ended() is ExitStatus.ABANDONED
    stubborn.release.set()
    assert isinstance(rig.engine.outcomes("a")[0], Failed)


async def test_a_burst_whose_slots_are_lost_is_not_done(stubborn):
    async with Rig(
        task(stubborn.in_thread, retries=0), burst=True, concurrency=1, limits={"stuck_slots_ms": 50}
    ) as rig:
        rig.engine.add("a", "b", timeout_ms=SHORT_MS)
        async with asyncio.timeout(20):
            assert await rig.ended() is ExitStatus.ABANDONED
        assert rig.worker.retiring
    assert [lease.record.id for lease in rig.engine.ready["q"]] == ["b"]


async def test_a_thread_whose_job_was_lost_counts_when_its_time_is_over(stubborn):
    async with Rig(task(stubborn.in_thread), concurrency=1, grace_ms=60_000, limits={"stuck_slots_ms": 50}) as rig:
        rig.engine.add("a", timeout_ms=500)
        async with asyncio.timeout(20):
            while not stubborn.begun:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            rig.keeper.beat(lost=[rig.engine.lose("a")])
            assert await rig.ended() is ExitStatus.ABANDONED
    assert rig.engine.settled == []


# --------------------------------------------------------------------------------------------------- what it says then


async def test_what_an_async_handler_returns_after_its_time_does_not_count():
    async def handler() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "done all the same"
        return "in time"

    async with Rig(task(handler, retries=0)) as rig:
        rig.engine.add("a", timeout_ms=SHORT_MS)
        rig.engine.add("b", shape=LANE, timeout_ms=SHORT_MS)
        ends = await rig.ends("a", "b")
    for outcome in ends:
        assert isinstance(outcome, Failed)
        assert outcome.error.type == "Timeout"
    assert not any(isinstance(one.outcome, Completed) for one in rig.engine.settled)


# ----------------------------------------------------------------------------------------------- a loop that is blocked


async def test_a_blocked_loop_is_named_and_a_neighbour_that_overran_meanwhile_times_out(stubborn, caplog):
    """Its thread ends while the loop is blocked, so the worker notices neither the timeout nor the end in time."""
    ended = threading.Event()

    def neighbour(*_: Any) -> str:
        stubborn.in_thread()
        ended.set()
        return "too late"

    async def block(*_: Any) -> None:
        while not stubborn.begun:
            time.sleep(0.01)
        time.sleep(0.1)
        stubborn.release.set()
        ended.wait(10)
        time.sleep(BLOCKED_S + 2 * LOOK_S)

    slow, blocking = task(neighbour, name="slow", retries=0), task(block, name="block")
    async with Rig(slow, more=[blocking]) as rig:
        rig.engine.add("a", task="slow", timeout_ms=50)
        rig.engine.add("b", task="block")
        outcome, _ = await rig.ends("a", "b")
        assert isinstance(outcome, Failed)
        assert outcome.error.type == "Timeout"
        await logged(caplog, "loop_blocked queue=q task=block id=b at=")
