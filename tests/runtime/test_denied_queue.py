"""A worker of two queues, on a real Redis that denies it one of them while a job of that runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from leasehold.core import limits
from leasehold.core.errors import AccessDenied
from leasehold.core.job import NewJob, State
from leasehold.core.outcome import Completed
from leasehold.redis.aio import AsyncDriver
from leasehold.runtime import ExitStatus
from leasehold.runtime.deferred import CROWD
from leasehold.testing.server import RedisServer
from tests.runtime.fakes import FakeEngine, FakeKeeper, Gate, Rig, gated, task
from tests.runtime.test_native import place

DENIED = AccessDenied("this user has no permissions")
DENIED.prefix = "NOPERM"
OTHERS = [f"b{number}" for number in range(20)]


@pytest.mark.parametrize("queues", [["denied"], ["denied", "q"], ["q", "denied"]])
async def test_a_burst_does_not_end_before_it_may_look(queues: list[str], caplog: pytest.LogCaptureFixture):
    engine: Any = FakeEngine(spoilt={"denied"}, refusal=DENIED)
    engine.add("mine", queue="denied")
    async with Rig(lambda: None, engine=engine, burst=True, queues=queues) as rig:
        await engine.until(lambda: engine.calls.count("lease") + len(caplog.records) > 2)
        await engine.until(lambda: engine.calls.count("maintain") > 3)
        assert rig.done is not None
        assert not rig.done.done()
        engine.spoilt.clear()
        assert await rig.ended() is ExitStatus.OK
    assert engine.outcomes("mine") == [Completed(b"None")]
    lines = [record.getMessage().split()[0] for record in caplog.records]
    assert (lines.count("queue_refused"), lines.count("queue_back")) == (1, 1)
    assert "redis_away" not in lines
    assert engine.calls.count("lease") < 100, "it looks now and then"


@pytest.mark.parametrize("queues", [["q"], ["q", "other"]])
async def test_a_crowd_of_refused_outcomes_leaves_room_for_other_queues(
    queues: list[str], caplog: pytest.LogCaptureFixture
):
    """Each of them for itself, so that claims of their queue would go on: as with foreign keys for lanes. They may be
    all that a worker may hold by the time of the first refusal."""
    engine: Any = FakeEngine(spoilt={f"n{number}" for number in range(3 * CROWD)})
    engine.add(*sorted(engine.spoilt))
    keeper = FakeKeeper(every_s=0.1)
    full = asyncio.Event()
    async with Rig(lambda: None, engine=engine, keeper=keeper, queues=queues, concurrency=100) as rig:
        rig.driver.fault = lambda call: full.wait() if call == "settle" else None
        await engine.until(lambda: len(engine.held) == limits.MAX_HELD)
        full.set()
        await engine.until(lambda: "outcomes_crowd" in caplog.text)
        if len(queues) > 1:
            engine.add("mine", queue="other")
            await engine.until(lambda: bool(engine.outcomes("mine")))
        beats = engine.calls.count("maintain")
        await engine.until(lambda: engine.calls.count("maintain") > beats + 2)
        assert len(engine.ready["q"]) > 0, "no more of it is claimed"
        engine.spoilt.clear()
        await rig.settled(3 * CROWD + len(queues) - 1)
    assert caplog.text.count("outcomes_crowd") == caplog.text.count("outcomes_settled") == 1


async def test_the_other_goes_on_as_ever_and_all_is_told_once(
    private_server: RedisServer, caplog: pytest.LogCaptureFixture
):
    private_server.command("ACL", "SETUSER", "w", "on", ">pw", "allkeys", "allchannels", "+@all")
    url = private_server.url.replace("unix://", "unix://w:pw@")
    gate, seen = Gate(), AsyncDriver(private_server.url)

    async def until_done(queue: str, id: str) -> None:
        while (view := await seen.run(here.engine.job(queue, id))) is None or view.state is not State.COMPLETED:
            pass

    def told(*names: str) -> dict[str, int]:
        lines = [record.getMessage().split()[0] for record in caplog.records if record.name == "leasehold.worker"]
        return {name: lines.count(name) for name in names}

    async def until_told(name: str) -> None:
        while not told(name)[name]:
            await seen.run(here.engine.job("a", "a"))

    specs: list[Any] = [gated(gate, queue="a", name="slow"), task(lambda: None, queue="b")]
    with caplog.at_level(logging.INFO, "leasehold.worker"):
        async with place(url, *specs, queues=["a", "b"]) as here:
            await seen.run(here.engine.enqueue([NewJob("a", "a", b"", "slow")]))
            await gate.begun.get()
            private_server.command("ACL", "SETUSER", "w", "resetkeys", "~{lh:b}*", "~{lh}*")
            await until_told("queue_refused")
            gate.open.set()
            await until_told("outcomes_refused")
            for id in OTHERS:
                await seen.run(here.engine.enqueue([NewJob("b", id, b"", "t")]))
                await until_done("b", id)
            private_server.command("ACL", "SETUSER", "w", "allkeys")
            await until_done("a", "a")
            await until_told("queue_back")
    assert told("queue_refused", "outcomes_refused", "queue_back", "outcomes_settled") == {
        "queue_refused": 1,
        "outcomes_refused": 1,
        "queue_back": 1,
        "outcomes_settled": 1,
    }
    assert not any(told("not_woken", "redis_away", "redis_answers", "lost", "settled_or_lost").values())
    await seen.close()
