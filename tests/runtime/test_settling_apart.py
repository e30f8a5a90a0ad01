"""Outcomes that are settled one by one, because Redis refuses one of them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from leasehold.core.errors import AccessDenied, LeaseholdError, QueueFull, RedisError, ReplyError, WrongState
from leasehold.core.job import Lease, Token
from leasehold.core.outcome import Released
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.ports import Env
from leasehold.runtime.settler import ASIDE_MOST, Settler
from tests.runtime.fakes import FakeDriver, FakeEngine, task

REFUSALS = [WrongState("foreign"), ReplyError("ERR", "attempt to compare nil with number")]


@asynccontextmanager
async def settling(
    engine: Any, count: int, *others: str, inflight: Inflight | None = None
) -> AsyncIterator[tuple[Settler, list[Lease], asyncio.Task[None]]]:
    """A settler that runs, and so many leases of `n0`, `n1`, ... of a queue, and of the other queues after them."""
    driver = FakeDriver()
    names = [f"n{number}" for number in range(count)]
    leases: list[Lease] = []
    for queue in ("q", *others):
        engine.add(*names, queue=queue)
        leases += (await driver.run(engine.lease("w", [queue], count))).leases
    settler = Settler(engine, driver, inflight or Inflight(len(leases)), Env())
    task = asyncio.create_task(settler.run())
    try:
        yield settler, leases, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def waiting(engine: Any, queue: str = "q") -> list[str]:
    return [lease.record.id for lease in engine.ready[queue]]


def text_token(number: int) -> str:
    """Texts whose order is not that of the claims."""
    return hashlib.sha256(b"%d" % number).hexdigest()


@pytest.mark.parametrize("token_of", [int, text_token])
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_what_is_given_back_keeps_its_order(refusal: RedisError, token_of: Callable[[int], Token]):
    engine: Any = FakeEngine(spoilt={"n1"}, refusal=refusal, token_of=token_of)
    async with settling(engine, 12) as (settler, leases, _):
        for lease in leases:
            settler.put_stray(lease)
        await engine.until(lambda: len(waiting(engine)) == 11)
        assert waiting(engine) == ["n0", *(f"n{number}" for number in range(2, 12))]
        engine.spoilt.clear()
        await settler.flushed()
    assert waiting(engine)[0] == "n1"


@pytest.mark.parametrize("stray", ["n3", None])
@pytest.mark.parametrize("refusal", REFUSALS)
async def test_claims_keep_their_order_whatever_their_tokens_are(refusal: RedisError, stray: str | None):
    engine: Any = FakeEngine(spoilt={"n1"}, refusal=refusal, token_of=text_token)
    inflight = Inflight(12)
    async with settling(engine, 12, inflight=inflight) as (settler, leases, _):
        for lease in leases:
            if lease.record.id == stray:
                settler.put_stray(lease)
            else:
                held = inflight.add(lease, task(print), 0)
                assert held is not None
                settler.put(held, Released())
        await engine.until(lambda: len(waiting(engine)) == 11)
        others = ["n0", *(f"n{number}" for number in range(2, 12))]
        # The worker did not count the claim of the stray: the stray goes first.
        assert waiting(engine) == sorted(others, key=lambda id: (id != stray, others.index(id)))
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
        assert caplog.text.count("outcomes_refused") == 1


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


@pytest.mark.parametrize("all_of_it", [AccessDenied("not yours"), QueueFull("the disk is full")])
async def test_a_queue_that_is_refused_as_a_whole_keeps_no_other(
    all_of_it: LeaseholdError, caplog: pytest.LogCaptureFixture
):
    """Also when one of its outcomes was set aside before, for itself. What comes later joins it without asking."""
    engine: Any = FakeEngine(spoilt={"n0"})
    async with settling(engine, 102, "other") as (settler, leases, task):
        mine, others = leases[:102], leases[102:]
        settler.put_stray(mine[0])
        await engine.until(lambda: len(engine.batches) > 2)
        engine.refusal, engine.spoilt = all_of_it, {"q"}
        settler.put_stray(mine[1])
        await engine.until(lambda: type(all_of_it).__name__ in caplog.text)
        before = len(engine.batches)
        for number in range(1, 101):
            settler.put_stray(mine[1 + number])
            settler.put_stray(others[number])
            await engine.until(lambda number=number: len(waiting(engine, "other")) == number)
        assert len(engine.batches) - before < 150, "one for each of the other queue, hardly any for this one"
        assert not task.done(), "nobody has to run it again, after a pause for all"
        engine.spoilt = set()
        await settler.flushed()
    assert set(waiting(engine)) == {f"n{number}" for number in range(102)}
    assert caplog.text.count("outcomes_refused") == 2
    assert caplog.text.count("outcomes_settled") == 1


async def test_a_queue_that_is_refused_as_a_whole_comes_back_in_its_order():
    """However many tries it took: more than go into one call are handed back, the newest first."""
    engine: Any = FakeEngine(refusal=AccessDenied("not yours"))
    async with settling(engine, 450) as (settler, leases, _):
        engine.spoilt = {"q"}
        for lease in reversed(leases):
            settler.put_stray(lease)
        await engine.until(lambda: len(engine.batches) == 3)
        engine.spoilt.clear()
        await settler.flushed()
    assert waiting(engine) == [f"n{number}" for number in range(450)]


async def test_each_refusal_is_told_once_however_many_take_turns(caplog: pytest.LogCaptureFixture):
    engine: Any = FakeEngine(spoilt={"n0", "n1"})
    async with settling(engine, 1, "other", "third") as (settler, leases, _):
        for lease in leases:
            settler.put_stray(lease)
        await engine.until(lambda: len(engine.batches) > 12)
        assert caplog.text.count("outcomes_refused") == 3
        engine.spoilt.clear()
        await settler.flushed()
    assert caplog.text.count("outcomes_refused") == caplog.text.count("outcomes_settled") == 3


async def test_a_stray_is_handed_back_once_however_often_it_is_told():
    engine: Any = FakeEngine(spoilt={"n0"})
    async with settling(engine, 1) as (settler, [lease], _):
        assert settler.put_stray(lease)
        await engine.until(lambda: len(engine.batches) > 2)
        assert not settler.put_stray(lease)
        engine.spoilt.clear()
        await settler.flushed()
        assert settler.put_stray(lease), "it may be told anew when it was there all the same"
        await settler.flushed()
    assert len(engine.settled) == len(engine.refused) == 1
