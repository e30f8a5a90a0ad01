"""Code of the user's that goes for the worker itself: with what it raises, by hanging, by cancelling all there is."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tenure.core import events
from tenure.core.events import Listener
from tenure.core.outcome import Completed, Crashed
from tenure.core.signals import Fail
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import Gate, Rig, gated, task


def stopped(caplog: pytest.LogCaptureFixture) -> str:
    (line,) = (one for one in caplog.messages if one.startswith("worker_stopped "))
    return line


@pytest.mark.parametrize("kind", [KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [True, False])
async def test_no_listener_ends_the_worker_by_what_it_raises(kind, is_async, caplog):
    caplog.set_level(logging.INFO)
    heard: list[str] = []

    def sync(event: Any) -> None:
        raise kind

    async def on_loop(event: Any) -> None:
        raise kind

    listeners = [
        Listener((events.Completed,), on_loop if is_async else sync),
        Listener((events.Completed,), lambda event: heard.append(event.id)),
    ]
    async with Rig(lambda: None, listeners=listeners, burst=True) as rig:
        rig.engine.add("a", "b")
        assert await rig.ended() is ExitStatus.OK
    assert sorted(heard) == ["a", "b"]
    failed = [line for line in caplog.messages if line.startswith("callback_failed kind=listener ")]
    assert [f"{kind.__name__} at=" in line for line in failed] == [True]
    assert "loop_failed" not in caplog.text
    assert " unheard=0 " in stopped(caplog)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("is_async", [True, False])
async def test_no_hook_ends_the_worker_by_what_it_raises(kind, is_async, caplog):
    async def failing() -> None:
        raise Fail("no")

    def sync(job: object, error: object) -> None:
        raise kind

    async def on_loop(job: object, error: object) -> None:
        raise kind

    spec = task(failing, on_failure=on_loop if is_async else sync)
    async with Rig(spec, burst=True) as rig:
        rig.engine.add("a", "b")
        assert await rig.ended() is ExitStatus.OK
    assert caplog.text.count("callback_failed kind=hook") == 2


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("is_async", [True, False])
async def test_no_middleware_ends_the_worker_by_what_it_raises(kind, is_async, caplog):
    def sync(jobs: object, call_next: object) -> None:
        raise kind

    async def on_loop(jobs: object, call_next: object) -> None:
        raise kind

    spec = task(lambda: None, retries=0)
    async with Rig(spec, middleware=[on_loop if is_async else sync], burst=True) as rig:
        rig.engine.add("a", "b")
        assert await rig.ended() is ExitStatus.OK
    assert caplog.text.count(f"error={kind.__name__}") == 2


async def test_a_listener_that_hangs_is_told_of_and_so_is_what_nobody_heard(caplog):
    caplog.set_level(logging.INFO)
    told, over = asyncio.Event(), asyncio.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "state=hanging" in record.getMessage():
                told.set()

    async def stuck(event: Any) -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue  # as one does that catches everything

    handler = Told()
    logging.getLogger("tenure.worker").addHandler(handler)
    try:
        async with Rig(
            lambda: None,
            listeners=[Listener((events.Completed,), stuck)],
            limits={"cancel_ms": 20, "listener_ms": 20, "tell_ms": 50},
        ) as rig:
            rig.engine.add("a", "b", "c")
            async with asyncio.timeout(30):
                await told.wait()
            await rig.ends("a", "b", "c")
            rig.worker.stop()
            assert await rig.ended() is ExitStatus.OK
            over.set()
    finally:
        logging.getLogger("tenure.worker").removeHandler(handler)
    assert caplog.text.count("state=hanging") == 1
    assert " unheard=3 " in stopped(caplog)


@pytest.mark.parametrize("goes_on", [False, True])
async def test_a_handler_that_cancels_all_tasks_ends_the_worker_in_order(caplog, goes_on):
    """What ran counts as crashed, also the culprit when it continues."""
    caplog.set_level(logging.INFO)
    gate = Gate()
    ours = asyncio.current_task()

    async def wild() -> None:
        for one in asyncio.all_tasks():
            if one not in (asyncio.current_task(), ours):
                one.cancel()
        if goes_on:
            await asyncio.sleep(60)

    rig = Rig(gated(gate), more=[task(wild, name="wild")], concurrency=4, limits={"redis_pause_ms": 1})

    async def worked() -> None:
        async with rig:
            rig.engine.add("long")
            await gate.begun.get()
            rig.engine.add("wild", task="wild")
            rig.engine.add("late", "later")
            await rig.ended()

    with pytest.raises(asyncio.CancelledError):
        await worked()
    assert rig.engine.left is not None  # it said goodbye, which gives back what it held
    assert not rig.engine.held
    assert rig.engine.outcomes("long") == [Crashed()]  # nobody asked for its end, so it has not failed
    assert goes_on == ("wild" in rig.engine.crashed)  # else it would come back for ever
    assert [type(one) for one in rig.engine.outcomes("wild")] == ([] if goes_on else [Completed])
    assert [record.levelname for record in caplog.records].count("CRITICAL") == 1
    assert "not by Tenure" in caplog.text
    assert stopped(caplog)
