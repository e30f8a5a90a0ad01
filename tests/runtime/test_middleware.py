"""Middleware around handlers of a worker on fakes: on the loop, in threads, around batches."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.core.outcome import Cancelled, Completed, Failed, Retried
from tenure.core.task import BatchRule, RunIn
from tenure.runtime.handlers.middleware import Layers
from tenure.runtime.jobs.job import Job, current_job
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import Gate, Rig, gated, task

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


def layer(name: str, log: list[str]) -> Any:
    async def around(jobs: Sequence[Job], call_next: Any) -> Any:
        log.append(f"{name} before {jobs[0].id}")
        try:
            return await call_next()
        finally:
            log.append(f"{name} after {jobs[0].id}")

    return around


def thread_layer(name: str, log: list[str]) -> Any:
    def around(jobs: Sequence[Job], call_next: Any) -> Any:
        log.append(f"{name} before")
        try:
            return call_next()
        finally:
            log.append(f"{name} after")

    return around


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_layers_are_around_the_handler_the_first_outermost(kind):
    log: list[str] = []

    async def on_loop() -> int:
        log.append("handler")
        return 7

    def in_thread() -> int:
        log.append("handler")
        return 7

    middleware = [layer("outer", log), layer("inner", log)]
    async with Rig(on_loop if kind == "async" else in_thread, middleware=middleware, burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    assert log == ["outer before a", "inner before a", "handler", "inner after a", "outer after a"]
    assert rig.engine.outcomes("a") == [Completed(b"7")]


async def test_sync_layers_are_in_the_thread_of_the_handler_inside_of_the_async_ones():
    log: list[str] = []
    threads: set[int] = set()

    def handler() -> None:
        threads.add(threading.get_ident())
        log.append("handler")

    def around(jobs: Sequence[Job], call_next: Any) -> Any:
        threads.add(threading.get_ident())
        assert current_job() is not None
        return call_next()

    middleware = [thread_layer("thread", log), around, layer("loop", log)]
    async with Rig(handler, middleware=middleware, burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    assert log == ["loop before a", "thread before", "handler", "thread after", "loop after a"]
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_sync_layers_alone_leave_sync_handlers_in_their_thread_and_async_ones_as_they_are():
    log: list[str] = []

    async def on_loop() -> int:
        return 7

    def raw(job: Job) -> int:
        return 8

    specs = [task(raw, name=None, decode=None)]
    async with Rig(on_loop, more=specs, middleware=[thread_layer("thread", log)], burst=True) as rig:
        rig.engine.add("a")
        rig.engine.add("b", task=None)
        await rig.ended()
    assert log == ["thread before", "thread after"]
    assert rig.engine.outcomes("a") + rig.engine.outcomes("b") == [Completed(b"7"), Completed(b"8")]


@pytest.mark.parametrize("kind", ["async", "sync", "suspends"])
async def test_context_variables_reach_the_handler_and_no_other_job(kind):
    seen: list[str] = []
    suspending = "ab" if kind == "suspends" else ""  # then one task calls c, in a context of its own, and d

    async def set_tenant(jobs: Sequence[Job], call_next: Any) -> Any:
        seen.append(tenant.get())
        tenant.set(jobs[0].id)
        return await call_next()

    async def on_loop() -> str:
        if tenant.get() in suspending:
            await asyncio.sleep(0)
        return tenant.get()

    def in_thread() -> str:
        return tenant.get()

    function = in_thread if kind == "sync" else on_loop
    async with Rig(function, middleware=[set_tenant], concurrency=2, burst=True) as rig:
        rig.engine.add(*"abcd")
        await rig.ended()
    for id in "abcd":
        assert rig.engine.outcomes(id) == [Completed(f"'{id}'".encode())]
    assert seen == ["nobody"] * 4


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_what_a_layer_raises_or_returns_counts(kind):
    async def around(jobs: Sequence[Job], call_next: Any) -> Any:
        if jobs[0].id == "skipped":
            return "cached"
        if jobs[0].id == "raises":
            raise LookupError("no tenant")
        try:
            return await call_next()
        except ValueError as error:
            raise ConnectionError("as something else") from error

    async def on_loop() -> None:
        raise ValueError

    def in_thread() -> None:
        raise ValueError

    spec = task(on_loop if kind == "async" else in_thread, retries=0)
    async with Rig(spec, middleware=[around], burst=True) as rig:
        rig.engine.add("skipped", "raises", "translated")
        await rig.ended()
    assert rig.engine.outcomes("skipped") == [Completed(b"'cached'")]
    ends = [rig.engine.outcomes(id)[0] for id in ("raises", "translated")]
    assert all(isinstance(end, Failed) for end in ends)
    assert [end.error.type for end in ends if isinstance(end, Failed)] == ["LookupError", "ConnectionError"]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_batches_are_wrapped_once_with_all_their_jobs(kind):
    seen: list[list[str]] = []

    async def around(jobs: Sequence[Job], call_next: Any) -> Any:
        seen.append([job.id for job in jobs])
        return await call_next()

    async def on_loop(jobs: list[Job]) -> list[str]:
        return [job.id for job in jobs]

    def in_thread(jobs: list[Job]) -> list[str]:
        return [job.id for job in jobs]

    function = on_loop if kind == "async" else in_thread
    spec = task(function, name=None, decode=None, batch=BatchRule(3))
    async with Rig(spec, middleware=[around], burst=True) as rig:
        rig.engine.add("a", "b", "c", task=None)
        await rig.ended()
    assert seen == [["a", "b", "c"]]
    assert rig.engine.outcomes("b") == [Completed(b"'b'")]


async def test_a_timeout_ends_a_layer_that_waits():
    unwound = asyncio.Event()

    async def around(jobs: Sequence[Job], call_next: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            unwound.set()

    async with Rig(task(lambda: None, retries=0), middleware=[around], burst=True) as rig:
        rig.engine.add("a", timeout_ms=20)
        await rig.ended()
    assert unwound.is_set()
    (end,) = rig.engine.outcomes("a")
    assert isinstance(end, Failed)
    assert end.error.type == "Timeout"


async def test_a_thread_that_goes_on_keeps_its_slot_behind_layers_too():
    go, begun = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    unwound: list[str] = []

    async def around(jobs: Sequence[Job], call_next: Any) -> Any:
        try:
            return await call_next()
        finally:
            unwound.append(jobs[0].id)

    def handler() -> None:
        job = current_job()
        assert job is not None
        if job.id == "slow":
            loop.call_soon_threadsafe(begun.set)
            go.wait(30)

    async with Rig(task(handler, retries=0), middleware=[around], concurrency=1) as rig:
        rig.engine.add("slow", timeout_ms=20)
        await begun.wait()
        (outcome,) = await rig.ends("slow")
        assert isinstance(outcome, Failed)
        assert unwound == []  # the thread goes on
        rig.engine.add("next")
        await rig.engine.until(lambda: rig.engine.calls[-1] != "settle")
        assert not rig.engine.outcomes("next")
        go.set()
        await rig.engine.until(lambda: bool(rig.engine.outcomes("next")))
    assert rig.engine.outcomes("next") == [Completed(b"None")]
    assert unwound == ["slow", "next"]


async def test_a_cancel_reaches_async_handlers_through_layers_and_threads_can_see_it():
    gate, go = Gate(), threading.Event()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def around(jobs: Sequence[Job], call_next: Any) -> Any:
        return await call_next()

    def in_thread() -> None:
        job = current_job()
        assert job is not None
        loop.call_soon_threadsafe(begun.set)
        while not job.cancelled:
            go.wait(0.001)
        job.check_cancelled()

    specs = [task(in_thread, name="thread")]
    async with Rig(gated(gate), more=specs, middleware=[around], concurrency=2) as rig:
        rig.engine.add("loop")
        rig.engine.add("thread", task="thread")
        await gate.begun.get()
        await begun.wait()
        rig.engine.cancels |= {"loop": "why", "thread": "why"}
        rig.keeper.beat(cancelled=rig.engine.asks(list(rig.engine.held)))
        assert await rig.ends("loop", "thread") == [Cancelled("why")] * 2
    assert gate.cancelled == ["loop"]


async def test_a_layer_may_try_again_by_itself():
    tries: list[int] = []

    async def twice(jobs: Sequence[Job], call_next: Any) -> Any:
        try:
            return await call_next()
        except ConnectionError:
            return await call_next()

    def handler() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError
        return len(tries)

    async with Rig(handler, middleware=[twice], burst=True) as rig:
        rig.engine.add("a")
        assert await rig.ended() is ExitStatus.OK
    assert rig.engine.outcomes("a") == [Completed(b"2")]


async def test_a_layer_with_a_time_limit_of_its_own_waits_for_the_thread():
    go = threading.Event()

    async def limited(jobs: Sequence[Job], call_next: Any) -> Any:
        asyncio.get_running_loop().call_later(0.05, go.set)
        async with asyncio.timeout(0.01):
            return await call_next()

    async with Rig(task(lambda: go.wait(30)), middleware=[limited], burst=True) as rig:
        rig.engine.add("a", retries=0)
        await rig.ended()
    (end,) = rig.engine.outcomes("a")
    assert isinstance(end, Failed)
    assert end.error.type == "TimeoutError"
    assert go.is_set()


async def test_without_layers_a_task_is_as_it_was():
    async def handler() -> None: ...

    for spec in (task(handler), task(lambda: None)):
        assert Layers((), 4).around(spec) is spec or Layers((), 4).around(spec).function is spec.function
    elsewhere = task(handler, run_in=RunIn.PROCESS)
    log: list[str] = []
    layers = Layers([layer("loop", log), thread_layer("thread", log)], 4)
    assert layers.around(elsewhere) is elsewhere
    layers.close()


async def test_in_the_process_of_a_job_layers_are_around_its_handler():
    log: list[str] = []

    def handler(job: Job) -> int:
        log.append("handler")
        return threading.get_ident()

    spec = task(handler, name=None, decode=None, run_in=RunIn.PROCESS)
    around = Layers([thread_layer("thread", log), layer("loop", log)]).around(spec)
    assert around.is_async
    from tenure.runtime.jobs.job import enter

    class OneJob:
        id = "a"

    enter(SimpleNamespace(job=OneJob()))  # type: ignore[arg-type]
    assert await around.function(None) == threading.get_ident()
    assert log == ["loop before a", "thread before", "handler", "thread after", "loop after a"]


async def test_retries_and_timeouts_of_the_task_hold_behind_layers():
    async def around(jobs: Sequence[Job], call_next: Any) -> Any:
        return await call_next()

    def handler() -> None:
        raise ValueError

    async with Rig(task(handler, retries=2), middleware=[around], burst=True) as rig:
        rig.engine.add("a")
        await rig.ended()
    assert [type(end) for end in rig.engine.outcomes("a")] == [Retried, Retried, Failed]
