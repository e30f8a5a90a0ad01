"""A worker of two queues, on a real Redis that denies it one of them while a job of that runs."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tenure.core.errors import AccessDenied
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed
from tenure.redis.aio import AsyncDriver
from tenure.runtime import fetcher
from tenure.runtime.ports import KeeperGone
from tenure.runtime.shutdown import ExitStatus
from tenure.testing.server import RedisServer
from tests.runtime.fakes import FakeKeeper, Gate, Rig, gated, task
from tests.runtime.test_native import place
from tests.support.fakes import FakeEngine

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
    lines = [" ".join(record.getMessage().split()[:2]) for record in caplog.records]
    assert (lines.count("redis_refused what=claim"), lines.count("redis_restored what=claim")) == (1, 1)
    assert "redis_refused what=access" not in lines
    assert engine.calls.count("lease") < 100, "it looks now and then"


async def test_a_burst_ends_with_an_error_when_redis_refuses_for_too_long(caplog: pytest.LogCaptureFixture):
    engine: Any = FakeEngine(spoilt={"denied"}, refusal=DENIED)
    engine.add("mine", queue="q")
    async with Rig(lambda: None, engine=engine, burst=True, burst_wait_s=0.05, queues=["denied", "q"]) as rig:
        assert await rig.ended() is ExitStatus.FAILED
    assert engine.outcomes("mine") == [Completed(b"None")], "what it may claim is run"
    assert "Redis has refused this worker" in caplog.text


async def test_a_burst_ends_with_an_error_when_its_leases_cannot_be_kept():
    keeper = FakeKeeper(ready=False)
    keeper.reports.put_nowait(None)
    async with Rig(lambda: None, keeper=keeper, burst=True, burst_wait_s=0.05) as rig:
        assert await rig.ended() is ExitStatus.FAILED


@pytest.mark.parametrize("before", [(), (None, KeeperGone("died"))], ids=["first", "after one that was refused"])
async def test_a_burst_waits_for_a_keeper_that_starts_slowly(
    monkeypatch: pytest.MonkeyPatch, before: tuple[KeeperGone | None, ...]
):
    """On a busy machine its start took longer than a burst waits for a Redis that refuses it."""
    monkeypatch.setattr(fetcher, "REFUSED_LOOK_MS", 20)
    keeper = FakeKeeper(ready=False)
    for report in before:
        keeper.reports.put_nowait(report)
    async with Rig(lambda: None, keeper=keeper, burst=True, burst_wait_s=0.05) as rig:
        assert rig.done is not None
        done, _ = await asyncio.wait({rig.done}, timeout=0.3)
        assert not done
        keeper.beat()
        assert await rig.ended() is ExitStatus.OK


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
        lines = [
            " ".join(record.getMessage().split()[:2]) for record in caplog.records if record.name == "tenure.worker"
        ]
        return {name: lines.count(name) for name in names}

    async def until_told(name: str) -> None:
        while not told(name)[name]:
            await seen.run(here.engine.job("a", "a"))

    specs: list[Any] = [gated(gate, queue="a", name="slow"), task(lambda: None, queue="b")]
    with caplog.at_level(logging.INFO, "tenure.worker"):
        async with place(url, *specs, queues=["a", "b"]) as here:
            await seen.run(here.engine.enqueue([NewJob("a", "a", b"", task="slow")]))
            await gate.begun.get()
            private_server.command("ACL", "SETUSER", "w", "resetkeys", "~{tenure:b}*", "~{tenure}*")
            await until_told("redis_refused what=claim")
            gate.open.set()
            await until_told("redis_refused what=settle")
            for id in OTHERS:
                await seen.run(here.engine.enqueue([NewJob("b", id, b"", task="t")]))
                await until_done("b", id)
            private_server.command("ACL", "SETUSER", "w", "allkeys")
            await until_done("a", "a")
            await until_told("redis_restored what=claim")
    names = [f"{event} what={what}" for event in ("redis_refused", "redis_restored") for what in ("claim", "settle")]
    assert set(told(*names).values()) == {1}
    assert not any(told("redis_lost what=wait", "redis_refused what=access").values())
    assert "lease_lost" not in caplog.text
    await seen.close()
