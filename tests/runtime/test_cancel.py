"""Cancelling jobs that a worker holds: by the beat, and at once by a message."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from tenure.core.engine import CancelAsked, Feature
from tenure.core.errors import AccessDenied, Unreachable
from tenure.core.outcome import Cancelled, Completed
from tenure.core.signals import Fail, JobCancelled, Retry
from tenure.core.task import BatchRule
from tenure.runtime.jobs.job import Job, current_job
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import Gate, Rig, gated, task
from tests.support.fakes import FakeEngine


def ask(rig: Rig, *ids: str, reason: str = "not needed") -> None:
    """A beat that says that these are to be cancelled."""
    refs = [ref for ref in rig.engine.held if ref.id in ids]
    rig.keeper.beat(cancelled=[CancelAsked(ref, reason) for ref in refs])


async def test_an_async_handler_is_cancelled_and_its_job_ends_in_cancelled():
    gate = Gate()
    async with Rig(gated(gate)) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        ask(rig, "a")
        ask(rig, "a")
        assert await rig.ends("a") == [Cancelled("not needed")]
    assert gate.cancelled == ["a"]


async def test_what_has_not_started_is_cancelled_at_once_and_never_runs():
    ran: list[str] = []

    async def handler(jobs: list[Job]) -> None:
        ran.extend(job.id for job in jobs)

    rule = BatchRule(size=3, linger_ms=60_000)
    async with Rig(task(handler, name=None, decode=None, batch=rule), concurrency=1) as rig:
        rig.engine.add("a", "b", task=None)
        await rig.engine.until(lambda: len(rig.engine.held) == 2)
        ask(rig, "b")
        assert await rig.ends("b") == [Cancelled("not needed")]
        rig.engine.add("c", "d", task=None)
        await rig.ends("a", "c", "d")
    assert ran == ["a", "c", "d"]


@pytest.mark.parametrize("error", [ValueError(), Retry(), Fail(), JobCancelled("other"), SystemExit()])
async def test_whatever_it_raises_after_the_ask_is_cancelled(error):
    begun = asyncio.Event()

    async def handler() -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            raise error from None

    async with Rig(handler) as rig:
        rig.engine.add("a")
        await begun.wait()
        ask(rig, "a")
        assert await rig.ends("a") == [Cancelled("not needed")]


async def test_what_it_returns_after_the_ask_counts_however_long_it_takes():
    begun, release = asyncio.Event(), asyncio.Event()
    seen: list[bool] = []

    async def tidy() -> str:
        job = current_job()
        assert job is not None
        begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await release.wait()
        seen.extend([job.cancelled, job.lost])
        return "done"

    async with Rig(tidy, limits={"cancel_ms": 1}) as rig:
        rig.engine.add("a")
        await begun.wait()
        ask(rig, "a")
        await rig.keeper.heard(1)
        await asyncio.sleep(0.2)
        assert not rig.engine.settled
        release.set()
        assert await rig.ends("a") == [Completed(b"'done'")]
    assert seen == [True, False]


async def test_a_handler_that_goes_on_ends_with_its_timeout():
    begun, release = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with Rig(stubborn) as rig:
        rig.engine.add("a", timeout_ms=300)
        await begun.wait()
        ask(rig, "a")
        assert await rig.ends("a") == [Cancelled("not needed")]
        release.set()
    assert not rig.engine.refused


@pytest.mark.parametrize("way", ["check", "raise", "return"])
async def test_a_sync_handler_sees_it(way):
    begun = threading.Event()

    def handler() -> str:
        job = current_job()
        assert job is not None
        job.check_cancelled()
        begun.set()
        while not job.cancelled:
            threading.Event().wait(0.01)
        assert not job.lost
        if way == "check":
            job.check_cancelled()
        elif way == "raise":
            raise ValueError
        return "done"

    async with Rig(handler) as rig:
        rig.engine.add("a")
        await asyncio.to_thread(begun.wait)
        ask(rig, "a")
        expected = Completed(b"'done'") if way == "return" else Cancelled("not needed")
        assert await rig.ends("a") == [expected]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_handler_may_cancel_its_own_job(kind):
    async def on_loop() -> None:
        raise JobCancelled("the customer has left")

    def in_thread() -> None:
        raise JobCancelled("the customer has left")

    async with Rig(on_loop if kind == "async" else in_thread, burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    assert rig.engine.outcomes("a") == [Cancelled("the customer has left")]


async def test_a_stop_after_the_ask_still_ends_it_in_cancelled():
    begun = asyncio.Event()

    async def slow_to_end() -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(600)

    async with Rig(slow_to_end, grace_ms=0) as rig:
        rig.engine.add("a")
        await begun.wait()
        ask(rig, "a")
        await rig.keeper.heard(1)
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.OK
    assert rig.engine.outcomes("a") == [Cancelled("not needed")]


# ----------------------------------------------------------------------------------------------------------- at once


def listening(**more: Any) -> FakeEngine:
    return FakeEngine(features=frozenset({Feature.CANCEL, Feature.QUIET}), **more)


async def test_a_message_cancels_at_once():
    gate = Gate()
    async with Rig(gated(gate), engine=listening(), queues=["q", "r"]) as rig:
        await rig.driver.subscribed.wait()
        rig.engine.add("a", "b")
        assert {await gate.begun.get(), await gate.begun.get()} == {"a", "b"}
        rig.engine.cancels["a"] = "now"
        channel = rig.engine.signal_channel(rig.worker.id)
        for message in ("nobody's", "r", "q", "q", "q"):
            rig.driver.publish(channel, message)
        assert await rig.ends("a") == [Cancelled("now")]
        assert rig.engine.calls.count("heartbeat") == 1
        gate.open.set()
        assert await rig.ends("b") == [Completed(b"None")]


async def test_a_request_of_another_client_is_noted_and_then_cancels():
    gate = Gate()
    engine = listening(cancel_channels={"their-q": "q", "their-other": "other"})
    async with Rig(gated(gate), engine=engine, queues=["q", "r"]) as rig:
        await engine.until(lambda: bool(rig.driver.channels["their-q"]))
        engine.add("a", "b")
        assert {await gate.begun.get(), await gate.begun.get()} == {"a", "b"}
        for message in ("unknown", "a", "a"):
            rig.driver.publish("their-q", message)
        assert await rig.ends("a") == [Cancelled("theirs")]
        gate.open.set()
        await rig.ends("b")
    assert {(queue, message) for _, queue, message in engine.noted} == {("q", b"unknown"), ("q", b"a")}
    assert "their-other" not in rig.driver.channels


async def test_listening_goes_on_after_an_outage():
    failures = 3
    gate = Gate()

    def fault(call: str) -> None:
        nonlocal failures
        if call in ("subscribe", "heartbeat") and failures:
            failures -= 1
            raise Unreachable("gone")

    rig = Rig(gated(gate), engine=listening(), limits={"redis_pause_ms": 1})
    rig.driver.fault = fault
    async with rig:
        await rig.driver.subscribed.wait()
        assert failures == 0
        rig.engine.add("a")
        await gate.begun.get()
        rig.engine.cancels["a"] = ""
        rig.driver.publish(rig.engine.signal_channel(rig.worker.id), "q")
        assert await rig.ends("a") == [Cancelled("")]


async def test_a_user_who_may_not_subscribe_is_told_of_once_and_the_beats_do_it(caplog):
    refused = asyncio.Event()

    def fault(call: str) -> None:
        if call == "subscribe":
            refused.set()
            raise AccessDenied("no permissions to access a channel")

    gate = Gate()
    rig = Rig(gated(gate), engine=listening())
    rig.driver.fault = fault
    with caplog.at_level(logging.WARNING, "tenure.worker"):
        async with rig:
            await refused.wait()
            rig.engine.add("a")
            await gate.begun.get()
            ask(rig, "a")
            await rig.ends("a")
    assert caplog.text.count("redis_refused what=subscribe") == 1


async def test_a_silent_subscription_is_entered_once_more_now_and_then():
    entered = asyncio.Queue[None]()

    def fault(call: str) -> None:
        if call == "subscribe":
            entered.put_nowait(None)

    rig = Rig(lambda: None, engine=listening(), limits={"resubscribe_ms": 10})
    rig.driver.fault = fault
    async with rig:
        for _ in range(5):
            await entered.get()
    assert all(not queues for queues in rig.driver.channels.values())
