"""A worker with one slot starts jobs in their order, also those that it released in between."""

from __future__ import annotations

import asyncio
from typing import Any

from tenure.core import limits
from tenure.core.job import JobRecord, Lease
from tenure.core.outcome import Released
from tenure.core.task import BatchRule
from tenure.runtime.jobs.table import Inflight
from tests.runtime.fakes import Gate, Rig, gated, task, warmed_up
from tests.runtime.test_woken import AGES_S, Woken


async def test_nothing_is_claimed_between_a_release_and_its_reply():
    gate, releasing, reply = Gate(), asyncio.Event(), asyncio.Event()

    async def slow(name: str) -> None:
        if name == "settle":
            releasing.set()
            await reply.wait()

    async with Rig(gated(gate), concurrency=1) as rig:
        await warmed_up(rig, gate)
        rig.driver.fault = slow
        rig.engine.add("long", "next0", "next1", "next2")
        await releasing.wait()
        rig.engine.add("later")
        gate.open.set()
        rounds = rig.engine.calls.count("maintain")
        await rig.engine.until(lambda: rig.engine.calls.count("maintain") > rounds + 2)
        reply.set()
        begun = [await gate.begun.get() for _ in range(5)]
    assert begun == ["long", "next0", "next1", "next2", "later"]


async def test_jobs_that_are_released_during_a_claim_stay_before_those_that_it_brings():
    claimed, reply = asyncio.Event(), asyncio.Event()

    async def slow(name: str) -> None:
        if name == "lease" and len(rig.engine.held) == 2:
            claimed.set()
            await reply.wait()

    async def handler(jobs: list[Any]) -> None: ...

    spec = task(handler, name=None, decode=None, is_async=True, batch=BatchRule(10, limits.MINUTE))
    async with Woken(spec) as rig:
        rig.driver.after = slow
        rig.engine.add("a", task=None)
        await rig.engine.until(lambda: len(rig.engine.held) == 1)
        rig.engine.add("b", task=None)
        await claimed.wait()
        rig.clock.leapt += AGES_S
        rig.keeper.beat()
        await rig.keeper.heard(1)
        reply.set()
        await rig.engine.until(lambda: rig.engine.outcomes("b") == [Released()] and len(rig.engine.held) == 2)
        assert [ref.id for ref in rig.engine.held] == ["a", "b"]


def test_a_stuck_job_leaves_no_later_one_of_its_queue_behind():
    table, spec = Inflight(1, stuck_ms=25), task(lambda: None)
    for at, queue, id in ((0.0, "p", "a"), (0.02, "p", "b"), (0.02, "q", "c")):
        table.add(Lease("w", 1, JobRecord(id, queue, b"", 0, task="t"), 0, 0), spec, at)
    assert [held.ref.id for held in table.take_stuck(0.03)] == ["a", "b"]
    assert [held.ref.id for held in table.pending] == ["c"]
