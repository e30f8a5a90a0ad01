"""Persistent jobs: never done, never given up for failures, stopped when nobody can say that they are ours."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tenure.core.backoff import Backoff
from tenure.core.clock import lease_clock
from tenure.core.engine import CancelAsked, Timing
from tenure.core.outcome import Cancelled, Completed, Failed, Released, Retried
from tenure.core.rates import LimitRule
from tenure.core.shape import Shape
from tenure.core.signals import Fail
from tenure.runtime.jobs.job import current_job
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import Gate, Rig, gated, task
from tests.support.fakes import FakeEngine

PERSISTENT = Shape(persistent=True)


def fast() -> FakeEngine:
    return FakeEngine(timing=Timing(beat_ms=20, lease_ms=300, idle_wait_ms=200, maintain_ms=50, presence_ms=50))


async def test_failures_are_retried_for_ever_and_only_fail_ends_it():
    runs = 0

    async def handler() -> None:
        nonlocal runs
        runs += 1
        raise ValueError if runs < 20 else Fail("enough")

    async with Rig(task(handler, retries=0)) as rig:
        rig.engine.add("p", shape=PERSISTENT, failures=1_000_000)
        await rig.engine.until(lambda: any(isinstance(one.outcome, Failed) for one in rig.engine.settled))
    assert [type(outcome) for outcome in rig.engine.outcomes("p")] == [Retried] * 19 + [Failed]


async def test_one_that_ends_at_once_rests_before_it_is_put_back():
    began: list[float] = []

    async def handler() -> None:
        began.append(time.monotonic())

    async with Rig(task(handler, backoff=Backoff(base=0.3))) as rig:
        rig.engine.add("p", shape=PERSISTENT)
        assert await rig.ends("p") == [Completed(b"None")]
        assert time.monotonic() - began[0] >= 0.28


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_stop_does_not_wait_for_the_rest(kind):
    begun = threading.Event()

    def in_thread() -> None:
        begun.set()

    async def on_loop() -> None:
        begun.set()

    async with Rig(task(on_loop if kind == "async" else in_thread, backoff=Backoff(base=30)), grace_ms=60_000) as rig:
        rig.engine.add("p", shape=PERSISTENT)
        await asyncio.to_thread(begun.wait)
        await asyncio.sleep(0.05)
        assert not rig.engine.settled
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.OK
    assert rig.engine.outcomes("p") == [Completed(b"None")]


async def test_one_that_rests_is_cancelled_at_once():
    async def handler() -> None: ...

    async with Rig(task(handler, backoff=Backoff(base=30))) as rig:
        rig.engine.add("p", shape=PERSISTENT)
        await rig.engine.until(lambda: bool(rig.engine.held))
        await asyncio.sleep(0.05)
        rig.keeper.beat(cancelled=[CancelAsked(ref, "no more") for ref in rig.engine.held])
        assert await rig.ends("p") == [Cancelled("no more")]


async def test_to_return_when_asked_to_end_is_to_be_cancelled():
    begun = threading.Event()

    def handler() -> None:
        job = current_job()
        assert job is not None
        begun.set()
        while not job.cancelled:
            time.sleep(0.01)

    async with Rig(handler) as rig:
        rig.engine.add("p", shape=PERSISTENT)
        await asyncio.to_thread(begun.wait)
        rig.keeper.beat(cancelled=[CancelAsked(ref, "no more") for ref in rig.engine.held])
        assert await rig.ends("p") == [Cancelled("no more")]


ALONE = {"persistent": PERSISTENT, "lane": Shape(lane="a"), "limit": Shape(limits=(LimitRule("one", concurrency=1),))}


@pytest.mark.parametrize("shape", ALONE.values(), ids=ALONE)
async def test_without_beats_for_a_lease_it_is_stopped_and_handed_back_and_others_go_on(shape):
    gate = Gate()
    async with Rig(gated(gate), engine=fast()) as rig:
        rig.engine.add("plain")
        rig.engine.add("p", shape=shape)
        assert {await gate.begun.get(), await gate.begun.get()} == {"plain", "p"}
        began = time.monotonic()
        rig.keeper.good_at, rig.keeper.mute = lease_clock(), True
        while not gate.cancelled:
            rig.keeper.reports.put_nowait(None)
            await asyncio.sleep(0.01)
        assert time.monotonic() - began > 0.25
        await rig.engine.until(lambda: Released() in rig.engine.outcomes("p"))
        assert "plain" not in gate.cancelled
        gate.open.set()
        await rig.engine.until(lambda: bool(rig.engine.outcomes("plain")))
    assert rig.engine.outcomes("plain") == [Completed(b"None")]


async def test_a_report_that_is_old_when_it_is_read_does_not_keep():
    """The process was stopped (SIGSTOP): what the keeper said before that is still in the pipe."""
    gate = Gate()
    async with Rig(gated(gate), engine=fast()) as rig:
        rig.engine.add("p", shape=PERSISTENT)
        await gate.begun.get()
        rig.keeper.good_at, rig.keeper.mute = lease_clock(), True
        while not gate.cancelled:
            rig.keeper.beat()
            await asyncio.sleep(0.01)


async def test_with_beats_it_goes_on():
    gate = Gate()
    async with Rig(gated(gate), engine=fast()) as rig:
        rig.engine.add("p", shape=PERSISTENT)
        await gate.begun.get()
        until = time.monotonic() + 0.8
        while time.monotonic() < until:
            rig.keeper.beat()
            await asyncio.sleep(0.02)
        assert not gate.cancelled


@pytest.mark.parametrize("shape", ALONE.values(), ids=ALONE)
async def test_a_sync_one_is_handed_back_when_it_has_ended_and_not_before(shape):
    begun, seen, release = threading.Event(), threading.Event(), threading.Event()

    def handler() -> None:
        job = current_job()
        assert job is not None
        begun.set()
        while not job.lost:
            time.sleep(0.01)
        seen.set()
        release.wait()
        raise ValueError("stopped")

    async with Rig(handler, engine=fast()) as rig:
        rig.engine.add("p", shape=shape)
        await asyncio.to_thread(begun.wait)
        rig.engine.settled.clear()  # on a machine that stands still it was released before, too
        rig.keeper.good_at, rig.keeper.mute = 0.0, True
        await asyncio.to_thread(seen.wait)
        assert not rig.engine.settled
        release.set()
        await rig.engine.until(lambda: bool(rig.engine.settled))
    assert rig.engine.outcomes("p")[0] == Released()


async def test_at_a_stop_it_is_ended_at_once_while_others_have_their_grace():
    gate = Gate()
    async with Rig(gated(gate), grace_ms=60_000) as rig:
        rig.engine.add("plain")
        rig.engine.add("p", shape=PERSISTENT)
        assert {await gate.begun.get(), await gate.begun.get()} == {"plain", "p"}
        rig.worker.stop()
        await rig.engine.until(lambda: rig.engine.outcomes("p") == [Released()])
        assert gate.cancelled == ["p"]
        gate.open.set()
        assert await rig.ended() is ExitStatus.OK
    assert rig.engine.outcomes("plain") == [Completed(b"None")]


async def test_without_a_timeout_of_its_own_none_counts():
    gate = Gate()
    async with Rig(gated(gate, timeout_ms=1)) as rig:
        rig.engine.add("p", shape=PERSISTENT, timeout_ms=0)
        await gate.begun.get()
        await asyncio.sleep(0.2)
        assert not gate.cancelled


@pytest.mark.parametrize("base", [0, 0.05])
@pytest.mark.parametrize("kind", ["hangs", "returns"])
@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_burst_begins_what_it_finds_and_ends(base, kind, slots):
    ran: list[str] = []

    async def handler() -> None:
        job = current_job()
        assert job is not None
        ran.append(job.id)
        if kind == "hangs" and job.id.startswith("p"):
            await asyncio.sleep(600)

    class Again(FakeEngine):
        """Puts a completed persistent job back to the end of the queue, as engines do."""

        def _settle_one(self, lease, outcome):
            ours = super()._settle_one(lease, outcome)
            if ours and lease.record.shape.persistent and isinstance(outcome, Completed):
                self.ready["q"].append(lease)
                self._woken.set()
            return ours

    engine = Again()
    engine.add("a")
    engine.add("p1", "p2", shape=PERSISTENT)
    async with Rig(task(handler, backoff=Backoff(base=base)), engine=engine, burst=True, concurrency=slots) as rig:
        async with asyncio.timeout(20):
            assert await rig.ended() is ExitStatus.OK
    assert "a" in ran
    assert engine.outcomes("a") == [Completed(b"None")]
