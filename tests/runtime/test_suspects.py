"""A worker runs a job alone that is to run so: it claims nothing beside it, and gets ready for one that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tenure.core.engine import Alone, Timing
from tenure.core.outcome import Completed
from tenure.core.shape import Shape
from tests.runtime.fakes import Gate, Rig, gated
from tests.support.fakes import FakeEngine

STEADY = Timing(beat_ms=20, idle_wait_ms=200, maintain_ms=50, presence_ms=50, steady_ms=300)


async def beats(rig: Rig, count: int = 3) -> None:
    """Let the worker do a few rounds of what it does by itself."""
    before = len(rig.engine.announced)
    await rig.engine.until(lambda: len(rig.engine.announced) >= before + count)


@asynccontextmanager
async def getting_ready() -> AsyncIterator[tuple[Rig, Gate, Gate]]:
    """A worker on the queues `q` and `p` that runs a job of `q`, and gets ready to run the next, `a`, alone.

    The first gate is that of the running job. The second, of the jobs of the task `free`, is open.
    """
    gate, free = Gate(), Gate()
    free.open.set()
    async with Rig(gated(gate), more=[gated(free, name="free")], concurrency=4, queues=["q", "p"]) as rig:
        rig.engine.add("before")
        await gate.begun.get()
        rig.engine.alone |= {"a"}
        rig.engine.add("a", task="free", crashes=3)
        await rig.engine.until(lambda: rig.engine.prepared > 0)
        yield rig, gate, free


async def test_nothing_is_claimed_beside_a_job_that_runs_alone():
    gate = Gate()
    async with Rig(gated(gate), concurrency=4) as rig:
        rig.engine.alone |= {"a"}
        rig.engine.add("a", "b", crashes=3)
        assert await gate.begun.get() == "a"
        claims = rig.engine.calls.count("lease")
        rig.engine.add("c")
        await beats(rig)
        assert rig.engine.calls.count("lease") == claims
        assert rig.engine.announced[-1].alone, "others can see why it claims nothing"
        gate.open.set()
        await rig.ends("a", "b", "c")


async def test_a_busy_worker_claims_nothing_else_until_it_can_run_a_job_alone():
    """Of no queue: what dies with it is to blame alone."""
    async with getting_ready() as (rig, gate, free):
        rig.engine.add("other", queue="p", task="free")
        claims = rig.engine.calls.count("lease")
        await beats(rig)
        assert rig.engine.calls.count("lease") == claims
        assert rig.engine.announced[-1].alone, "others can see why it claims nothing"
        assert free.begun.empty()
        gate.open.set()
        await rig.ends("before", "a", "other")
        assert [await free.begun.get(), await free.begun.get()] == ["a", "other"]


async def test_what_has_run_for_long_may_stay_beside_it():
    long, free = Gate(), Gate()
    free.open.set()
    engine = FakeEngine(timing=STEADY)
    async with Rig(gated(long), more=[gated(free, name="free")], concurrency=4, engine=engine) as rig:
        rig.engine.add("long")
        await long.begun.get()
        rig.engine.alone |= {"a"}
        rig.engine.add("a", task="free")
        assert await rig.ends("a") == [Completed(b"None")]
        assert not rig.engine.outcomes("long")


async def test_a_suspect_that_has_run_for_long_may_stay_as_well_but_the_claim_says_so():
    long, free = Gate(), Gate()
    free.open.set()
    engine = FakeEngine(timing=STEADY)
    async with Rig(gated(long), more=[gated(free, name="free")], concurrency=4, engine=engine) as rig:
        rig.engine.add("long", crashes=2)
        await long.begun.get()
        await asyncio.sleep(STEADY.steady_ms / 1000)
        rig.engine.companies.clear()
        rig.engine.alone |= {"a"}
        rig.engine.add("a", task="free")
        await rig.ends("a")
        assert (Alone.BESIDE in rig.engine.companies, Alone.NOW in rig.engine.companies) == (True, False)
        long.open.set()
        await rig.ends("long")


async def test_between_two_jobs_that_run_alone_others_have_their_turn():
    gate, free = Gate(), Gate()
    free.open.set()
    async with Rig(gated(gate), more=[gated(free, name="free")], concurrency=4) as rig:
        rig.engine.alone |= {"a", "b"}
        rig.engine.add("a", "b", crashes=4)
        assert await gate.begun.get() == "a"
        rig.engine.add("other", task="free")
        gate.open.set()
        await rig.ends("a", "b", "other")
        assert await free.begun.get() == "other"
        assert [one.lease.record.id for one in rig.engine.settled] == ["a", "other", "b"]


@pytest.mark.parametrize("persistent", [True, False])
async def test_a_job_runs_alone_for_a_while_only(persistent: bool):
    gate = Gate()
    engine = FakeEngine(timing=STEADY)
    async with Rig(gated(gate), concurrency=4, engine=engine) as rig:
        rig.engine.alone |= {"p"}
        rig.engine.add("p", shape=Shape(persistent=persistent), crashes=3)
        assert await gate.begun.get() == "p"
        began = asyncio.get_running_loop().time()
        rig.engine.add("a")
        assert await gate.begun.get() == "a"
        assert asyncio.get_running_loop().time() - began >= STEADY.steady_ms / 1000 - 0.05


async def test_a_worker_that_is_to_be_quiet_gets_ready_no_longer():
    async with getting_ready() as (rig, gate, _):
        rig.engine.is_quiet = True
        await rig.engine.until(lambda: rig.engine.announced[-1].quiet)
        claims = rig.engine.calls.count("lease")
        gate.open.set()
        await rig.ends("before")
        await beats(rig)
        assert rig.engine.calls.count("lease") == claims


async def test_a_queue_that_redis_refuses_keeps_no_worker_from_the_others():
    """It got ready for a job of that queue."""
    async with getting_ready() as (rig, gate, _):
        rig.engine.spoilt |= {"q"}
        rig.engine.alone.clear()
        rig.engine.add("other", queue="p", task="free")
        gate.open.set()
        await rig.ends("other")
