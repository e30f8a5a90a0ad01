"""Outcomes that are settled one by one, because Redis refuses one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from leasehold.core.errors import RedisError, ReplyError, WrongState
from leasehold.core.job import Lease
from leasehold.runtime.inflight import Inflight
from leasehold.runtime.ports import Env
from leasehold.runtime.settler import ASIDE_MOST, Settler
from tests.runtime.fakes import FakeDriver, FakeEngine

REFUSALS = [WrongState("foreign"), ReplyError("ERR", "attempt to compare nil with number")]


@asynccontextmanager
async def settling(engine: Any, count: int) -> AsyncIterator[tuple[Settler, list[Lease], asyncio.Task[None]]]:
    """A settler that runs, and so many leases of `n0`, `n1`, ..."""
    driver = FakeDriver()
    engine.add(*(f"n{number}" for number in range(count)))
    leases = (await driver.run(engine.lease("w", ["q"], count))).leases
    settler = Settler(engine, driver, Inflight(count), Env())
    task = asyncio.create_task(settler.run())
    try:
        yield settler, leases, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def waiting(engine: Any) -> list[str]:
    return [lease.record.id for lease in engine.ready["q"]]


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_what_is_given_back_keeps_its_order(refusal: RedisError):
    engine: Any = FakeEngine(spoilt={"n1"}, refusal=refusal)
    async with settling(engine, 12) as (settler, leases, _):
        for lease in leases:
            settler.put_stray(lease)
        await engine.until(lambda: len(waiting(engine)) == 11)
        assert waiting(engine) == ["n0", *(f"n{number}" for number in range(2, 12))]
        engine.spoilt.clear()
        await settler.flushed()
    assert waiting(engine)[0] == "n1"


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_the_others_do_not_keep_its_pauses(refusal: RedisError, caplog: pytest.LogCaptureFixture):
    engine: Any = FakeEngine(spoilt={"n0"}, refusal=refusal)
    async with settling(engine, 301) as (settler, leases, task):
        settler.put_stray(leases[0])
        await engine.until(lambda: len(engine.batches) > 2)  # it was refused, and refused again
        refused = len(engine.batches)
        for number in range(1, 301):
            settler.put_stray(leases[number])
            await engine.until(lambda number=number: len(waiting(engine)) == number)
        assert len(engine.batches) - refused - 300 < 100, "hardly any of the calls was for the one that is refused"
        assert not task.done(), "nobody has to run it again, after a pause for all"
        assert caplog.text.count("redis_refused") == 1


async def test_of_many_only_some_are_tried_at_one_time():
    """And once they are not refused any more, all are settled, without a pause that grows."""
    count = 5 * ASIDE_MOST
    engine: Any = FakeEngine(spoilt={f"n{number}" for number in range(count)})
    async with settling(engine, count + 1) as (settler, leases, _):
        for lease in leases[:-1]:
            settler.put_stray(lease)
        await engine.until(lambda: len(engine.batches) > count + ASIDE_MOST)
        settler.put_stray(leases[-1])
        before = len(engine.batches)
        await engine.until(lambda: waiting(engine) == [f"n{count}"])
        assert len(engine.batches) - before <= 2 * ASIDE_MOST
        engine.spoilt.clear()
        await settler.flushed()
    assert len(waiting(engine)) == count + 1
