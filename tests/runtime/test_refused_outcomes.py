"""A queue whose outcomes Redis refuses waits as a whole, is tried again, and keeps no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.errors import AccessDenied, QueueFull, RedisError, ReplyError, Unreachable, WrongState
from tenure.core.job import Lease
from tenure.core.outcome import Released
from tenure.runtime.context import WorkerContext
from tenure.runtime.handlers.routes import UNROUTABLE
from tenure.runtime.jobs.held import Held
from tenure.runtime.jobs.reports import Reports
from tenure.runtime.jobs.table import Inflight
from tenure.runtime.loops import MonitoredDriver
from tenure.runtime.ports import Env
from tenure.runtime.settler import Settler
from tests.runtime.fakes import FakeDriver, FakeKeeper, Gate, Rig, gated
from tests.support.fakes import FakeEngine

REFUSALS = [
    WrongState("foreign"),
    ReplyError("ERR", "attempt to compare nil with number"),
    AccessDenied("not yours"),
    QueueFull("the disk is full"),
]


@asynccontextmanager
async def settling(engine: Any, count: int, *others: str) -> AsyncIterator[tuple[Settler, list[Held], Any]]:
    """A settler that runs, and `count` held leases of each queue: `n0`, `n1`, ... of `q`, then of the others."""
    driver = FakeDriver()
    names = [f"n{number}" for number in range(count)]
    leases: list[Lease] = []
    for queue in ("q", *others):
        engine.add(*names, queue=queue)
        leases += (await driver.run(engine.lease("w", [queue], count))).leases
    intake: Any = None
    link, inflight = MonitoredDriver(driver, Env(), Reports()), Inflight(len(leases))
    settler = Settler(WorkerContext("w", ("q", *others), engine, link, Env(), inflight, intake))
    task = asyncio.create_task(settler.run())
    try:
        added = [inflight.add(lease, UNROUTABLE, 0.0, to_run=False) for lease in leases]
        yield settler, [held for held in added if held is not None], task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def waiting(engine: Any, queue: str = "q") -> list[str]:
    return [lease.record.id for lease in engine.ready[queue]]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda one: type(one).__name__)
async def test_a_refused_queue_keeps_no_other_and_is_logged_once(refusal: RedisError, caplog: pytest.LogCaptureFixture):
    engine: Any = FakeEngine(spoilt={"n0"}, refusal=refusal)
    async with settling(engine, 101, "other") as (settler, leases, task):
        mine, others = leases[:101], leases[101:]
        engine.spoilt = {"q"}
        settler.put(mine[0], Released())
        await engine.until(lambda: len(engine.batches) > 2)  # it was refused, and refused again
        before = len(engine.batches)
        for number in range(1, 101):
            settler.put(mine[number], Released())
            settler.put(others[number], Released())
            await engine.until(lambda number=number: len(waiting(engine, "other")) == number)
        assert len(engine.batches) - before < 150, "one for each of the other queue, hardly any for this one"
        assert settler.is_refused("q")
        assert not settler.is_refused("other")
        assert settler.refused == 101
        assert not task.done(), "nobody has to run it again, after a pause for all"
        engine.spoilt = set()
        await settler.flushed()
        assert not settler.is_refused("q")
    assert set(waiting(engine)) == {f"n{number}" for number in range(101)}
    assert caplog.text.count("redis_refused what=settle") == caplog.text.count("redis_restored what=settle") == 1


async def test_a_refused_queue_comes_back_in_its_order():
    """However many tries it took: more than go into one call are released, the newest first."""
    engine: Any = FakeEngine(refusal=AccessDenied("not yours"))
    async with settling(engine, 450) as (settler, leases, _):
        engine.spoilt = {"q"}
        settler.release(leases)
        await engine.until(lambda: len(engine.batches) == 3)
        engine.spoilt.clear()
        await settler.flushed()
    assert waiting(engine) == [f"n{number}" for number in range(450)]


async def test_a_worker_claims_nothing_of_a_refused_queue_and_all_it_can_of_the_others():
    """Also when the refused queue fills all that a worker may hold."""
    engine: Any = FakeEngine()
    ids = [f"n{number}" for number in range(limits.MAX_HELD + 5)]
    engine.add(*ids)
    full, keeper = asyncio.Event(), FakeKeeper(every_s=0.1)
    never = {"stuck_ms": limits.MINUTE}  # a release would wait for the reply that `full` holds back
    async with Rig(
        lambda: None, engine=engine, keeper=keeper, queues=["q", "other"], concurrency=100, limits=never
    ) as rig:
        rig.driver.fault = lambda call: full.wait() if call == "settle" else None
        await engine.until(lambda: len(engine.held) == limits.MAX_HELD)
        engine.spoilt = {"n0"}
        full.set()
        await engine.until(lambda: len(engine.batches) > 2)
        engine.add("mine", queue="other")
        await engine.until(lambda: bool(engine.outcomes("mine")))
        assert len(engine.ready["q"]) == 5, "no more of it is claimed"
        assert not engine.settled[1:], "it waits as a whole"
        engine.spoilt = set()
        await rig.ends(*ids)
    assert not engine.refused


@pytest.mark.parametrize("error", [Unreachable("gone"), QueueFull("full")])
async def test_refused_outcomes_are_kept_when_redis_goes_away_meanwhile(error: RedisError):
    gate = Gate()
    async with Rig(gated(gate), concurrency=10) as rig:
        rig.engine.spoilt = {"spoilt"}
        rig.engine.add("spoilt", *"abcd")
        for _ in range(5):
            await gate.begun.get()
        rig.engine.trouble[3] = error
        gate.open.set()
        await rig.engine.until(lambda: len(rig.engine.batches) > 3)
        rig.engine.spoilt.clear()
        await rig.ends("spoilt", *"abcd")
    assert not rig.engine.refused


async def test_a_release_keeps_claims_back_until_redis_answers_and_not_while_it_is_refused():
    engine: Any = FakeEngine()
    seen: list[bool] = []
    async with settling(engine, 1, "other") as (settler, (mine, _), _):
        engine.spoilt = {"q"}
        settler.put(mine, Released())
        seen.append(settler.is_releasing)
        await engine.until(lambda: len(engine.batches) > 1)
        seen.append(settler.is_releasing)
        engine.spoilt = set()
        await settler.flushed()
        seen.append(settler.is_releasing)
    assert seen == [True, False, False]
