"""Workers on a real Redis: what clients ask of jobs that run, and what workers tell of them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import astuple
from typing import Any

import pytest

from tenure.core.engine import Timing
from tenure.core.job import JobView, NewJob, State
from tenure.core.minutes import Minutes
from tenure.core.shape import Shape
from tenure.core.signals import Fail, Snooze
from tenure.core.steps import Command, Steps, T
from tenure.core.task import BatchRule, TaskSpec
from tenure.engines.native.engine import NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes.link import KeeperLink
from tenure.protocols.registry import engine_spec_of
from tenure.redis.aio import AsyncDriver
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.jobs.job import Job, current_job
from tenure.runtime.worker import Worker
from tests.runtime.fakes import Gate, gated, task


class Place:
    """One worker on a real Redis, and a client."""

    def __init__(self, url: str, *specs: TaskSpec, timing: Timing | None = None, **more: Any) -> None:
        config = NativeConfig(timing=timing or Timing())
        self.engine = PartitionedEngine("tenure", config)
        self.client = AsyncDriver(url)
        self.driver = AsyncDriver(url)
        keeper = KeeperLink(url, engine_spec_of(self.engine))
        options: dict[str, Any] = {"grace_ms": 0, "signals": False, "concurrency": 2, "queues": ["q"]}
        code = UserCode(specs, more.pop("listeners", ()))
        settings = WorkerSettings(**options | more)
        self.worker = Worker(self.engine, self.driver, code, settings, keeper=keeper)

    async def add(self, *ids: str, task: str | None = "t", **shape: Any) -> None:
        jobs = [NewJob("q", id, b"", task=task, shape=Shape(**shape)) for id in ids]
        await self.client.run(self.engine.enqueue(jobs))

    async def job(self, id: str) -> JobView:
        view = await self.client.run(self.engine.job("q", id))
        assert view is not None
        return view

    async def until(self, id: str, condition: Callable[[JobView], bool]) -> JobView:
        while not condition(view := await self.job(id)):  # noqa: ASYNC110 - Redis has no event for it
            await asyncio.sleep(0.02)
        return view


@contextlib.asynccontextmanager
async def place(url: str, *specs: TaskSpec, **options: Any) -> AsyncIterator[Place]:
    here = Place(url, *specs, **options)
    running = asyncio.create_task(here.worker.run())
    try:
        yield here
    finally:
        here.worker.stop()
        await running
        await here.driver.close()
        await here.client.close()


async def subscribed(here: Place) -> None:
    """Until the worker listens."""

    def count(channel: str) -> Any:
        return (yield Command(("PUBSUB", "NUMSUB", channel)))

    channel = here.engine.signal_channel(here.worker.id)
    while (await here.client.run(count(channel)))[1] == 0:  # noqa: ASYNC110 - Redis has no event for it
        await asyncio.sleep(0.02)


# Beats that are too rare to matter: what happens at once is due to the message.
RARE = Timing(beat_ms=20_000, lease_ms=100_000, grace_ms=10_000)


async def test_cancelling_a_running_job_takes_effect_at_once_and_after_a_restart_of_the_connection(redis_url):
    gate = Gate()
    async with place(redis_url, gated(gate), timing=RARE) as here:
        await subscribed(here)
        await here.add("a", "b")
        assert {await gate.begun.get(), await gate.begun.get()} == {"a", "b"}
        async with asyncio.timeout(5):
            assert await here.client.run(here.engine.cancel("q", "a", "no more"))
            await here.until("a", lambda view: view.state is State.CANCELLED)

        def kill() -> Any:
            yield Command(("CLIENT", "KILL", "TYPE", "pubsub"))

        await here.client.run(kill())
        await subscribed(here)
        async with asyncio.timeout(5):
            await here.client.run(here.engine.cancel("q", "b"))
            await here.until("b", lambda view: view.state is State.CANCELLED)
    assert gate.cancelled == ["a", "b"]


async def test_without_the_message_the_beat_tells_it(redis_url):
    begun = threading.Event()

    def handler() -> None:
        job = current_job()
        assert job is not None
        begun.set()
        while True:
            job.check_cancelled()
            threading.Event().wait(0.01)

    class Deaf(PartitionedEngine):
        def signal_channel(self, worker: str) -> str:
            return "elsewhere"

    async with place(redis_url, task(handler)) as here:
        await here.add("a")
        await asyncio.to_thread(begun.wait)
        await here.client.run(Deaf("tenure").cancel("q", "a", "no more"))
        await here.until("a", lambda view: view.state is State.CANCELLED)


async def test_quiet_and_awake_at_once(redis_url):
    gate = Gate()
    async with place(redis_url, gated(gate), timing=RARE) as here:
        await subscribed(here)
        await here.add("runs")
        await gate.begun.get()

        async def shown(quiet: bool) -> None:
            while True:
                (worker,) = await here.client.run(here.engine.workers())
                if worker.quiet == quiet:
                    return
                await asyncio.sleep(0.02)

        assert await here.client.run(here.engine.presence.quiet(here.worker.id))
        async with asyncio.timeout(5):
            await shown(True)
        await here.add("later")
        gate.open.set()
        await here.until("runs", lambda view: view.state is State.COMPLETED)
        await asyncio.sleep(0.3)
        assert (await here.job("later")).state is State.READY
        await here.client.run(here.engine.presence.quiet(here.worker.id, False))
        async with asyncio.timeout(5):
            await here.until("later", lambda view: view.state is State.COMPLETED)


async def test_progress_is_seen(redis_url):
    release = asyncio.Event()

    async def handler() -> None:
        job = current_job()
        assert job is not None
        for number in range(100):
            job.progress(number + 1, 100, "rows")
        await release.wait()

    async with place(redis_url, task(handler)) as here:
        await here.add("a")
        view = await here.until("a", lambda view: view.progress is not None and view.progress.current == 100)
        assert view.progress is not None
        assert (view.progress.total, view.progress.text) == (100, "rows")
        release.set()


@pytest.mark.parametrize("size", [1, 3, 10])
async def test_batches_of_one_lane_keep_its_order(redis_url, size):
    seen: dict[str, list[str]] = {}
    busy: set[str | None] = set()

    async def handler(jobs: list[Job]) -> list[Any]:
        lane = jobs[0].lane
        assert {job.lane for job in jobs} == {lane}
        assert lane not in busy
        busy.add(lane)
        await asyncio.sleep(0.001)
        busy.discard(lane)
        seen.setdefault(str(lane), []).extend(job.id for job in jobs)
        return [None] * len(jobs)

    rule = BatchRule(size, linger_ms=20, one_lane=True)
    async with place(redis_url, task(handler, name=None, decode=None, batch=rule), concurrency=4) as here:
        for number in range(20):
            for lane in ("x", "y", "z"):
                await here.add(f"{lane}{number:02}", task=None, lane=lane)
        for lane in ("x", "y", "z"):
            await here.until(f"{lane}19", lambda view: view.state is State.COMPLETED)
    for lane in ("x", "y", "z"):
        assert seen[lane] == [f"{lane}{number:02}" for number in range(20)]


async def test_a_persistent_job_is_run_again_and_again_until_it_is_cancelled(redis_url):
    ran = asyncio.Queue[int]()

    async def handler() -> None:
        job = current_job()
        assert job is not None
        ran.put_nowait(job.attempt)

    async with place(redis_url, task(handler), timing=RARE) as here:
        await subscribed(here)
        await here.add("p", persistent=True)
        for _ in range(3):
            assert await ran.get() == 1
        assert await here.client.run(here.engine.cancel("q", "p", "no more"))
        async with asyncio.timeout(5):
            await here.until("p", lambda view: view.state is State.CANCELLED)


async def asked(url: str, steps: Steps[T]) -> T:
    driver = AsyncDriver(url)
    try:
        return await driver.run(steps)
    finally:
        await driver.close()


def completed_of(minutes: Minutes) -> int:
    return sum(one.completed for one in minutes.counts)


async def test_a_worker_reports_what_has_ended_with_its_announcements(redis_url):
    async with place(redis_url, task(lambda: None), timing=Timing(presence_ms=20)) as here:
        await here.add("a", "b", "c")
        while completed_of(await here.client.run(here.engine.history.minutes("q"))) < 3:  # noqa: ASYNC110 - Redis has no event
            await asyncio.sleep(0.02)


async def test_a_worker_that_stops_reports_what_has_ended(redis_url):
    def handler() -> None:
        job = current_job()
        assert job is not None
        if job.id == "fails":
            raise Fail("no such customer")
        if job.id == "retried" and job.attempt == 1:
            raise ValueError("busy")
        if job.id == "snoozed" and job.attempt == 1 and job.id not in seen:
            seen.add(job.id)
            raise Snooze(0)

    seen: set[str] = set()
    ids = ("fails", "retried", "snoozed", "done")
    async with place(redis_url, task(handler)) as here:
        await here.add(*ids)
        for id in ids:
            await here.until(id, lambda view: view.state.ended)
    minutes = await asked(redis_url, here.engine.history.minutes("q"))
    sums = [sum(counts) for counts in zip(*(astuple(one)[1:] for one in minutes.counts), strict=True)]
    assert sums == [3, 1, 1, 0]
    assert sum(one.run.count for one in minutes.latency if one.run) == 6


async def test_a_worker_that_ran_no_job_writes_no_history(redis_url):
    async with place(redis_url, task(lambda: None)) as here:
        await subscribed(here)
    assert await asked(redis_url, exists("{tenure:q}:minutes")) == 0


def exists(key: str) -> Steps[int]:
    return (yield Command(("EXISTS", key)))


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_stop_ends_what_runs_at_most_once_and_returns_what_has_not_begun(redis_url, kind):
    gate, begun, over = Gate(), threading.Semaphore(0), threading.Event()

    def in_thread() -> None:
        begun.release()
        over.wait(30)

    async with place(redis_url, gated(gate) if kind == "loop" else task(in_thread)) as here:
        await here.add("a", "b", "c", at_most_once=True)
        for _ in range(2):
            await (gate.begun.get() if kind == "loop" else asyncio.to_thread(begun.acquire))
    over.set()
    views = [await asked(redis_url, here.engine.job("q", id)) for id in "abc"]
    found = [(view.state, view.error and view.error.type) for view in views if view]
    assert found == [*[(State.BROKEN, "AtMostOnce")] * 2, (State.READY, None)]
