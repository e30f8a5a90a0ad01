"""A worker with the engine of the tests: text tokens, waiting by pub/sub, leases that settle together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tenure.core.engine import Timing
from tenure.core.job import NewJob, State
from tenure.core.steps import Command, Steps
from tenure.core.task import BatchRule, TaskSpec
from tenure.engines.kit.config import EngineConfig
from tenure.redis.aio import AsyncDriver
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.jobs.job import Job, current_job
from tenure.runtime.worker import Worker
from tests.runtime.fakes import FakeKeeper, task
from tests.support.sixth import SixthEngine

ENGINE = SixthEngine("sixth", EngineConfig(timing=Timing(idle_wait_ms=60_000)))
"""A worker that missed a message would wait for a minute."""


def listeners() -> Steps[Any]:
    return (yield Command(("PUBSUB", "NUMSUB", f"{ENGINE.prefix('q')}:news")))


async def put(driver: AsyncDriver, *ids: str, task: str | None = "t") -> None:
    await driver.run(ENGINE.enqueue([NewJob("q", id, b"", task=task) for id in ids]))


@contextlib.asynccontextmanager
async def working(url: str, spec: TaskSpec) -> AsyncIterator[AsyncDriver]:
    driver, client = AsyncDriver(url), AsyncDriver(url)
    keeper: Any = FakeKeeper(every_s=0.1)
    worker = Worker(ENGINE, driver, UserCode([spec]), WorkerSettings(["q"], 2, signals=False), keeper=keeper)
    running = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(30):
            yield client
    finally:
        worker.stop()
        await running
        await driver.close()
        await client.close()


async def test_a_worker_that_listens_runs_what_comes(redis_url: str) -> None:
    tokens: asyncio.Queue[Any] = asyncio.Queue()

    async def handle() -> None:
        job = current_job()
        assert job is not None
        tokens.put_nowait(job.token)

    async with working(redis_url, task(handle)) as client:
        while (await client.run(listeners()))[1] == 0:  # noqa: ASYNC110 - Redis has no event for it
            await asyncio.sleep(0.01)
        for id in "abc":
            await put(client, id)
            assert isinstance(await tokens.get(), str)
    assert tokens.empty()


async def test_a_batch_ends_as_a_whole(redis_url: str) -> None:
    sizes: list[int] = []
    begun, go = asyncio.Event(), asyncio.Event()

    async def handle(jobs: list[Job]) -> list[Any]:
        sizes.append(len(jobs))
        begun.set()
        await go.wait()
        return [None, *[RuntimeError("boom")] * (len(jobs) - 1)] if len(sizes) == 1 else [None] * len(jobs)

    batch = BatchRule(size=3, linger_ms=0, one_lane=True)
    async with working(redis_url, task(handle, name=None, batch=batch, retries=3)) as client:
        await put(client, "a", "b", "c", task=None)
        await begun.wait()
        counts = (await client.run(ENGINE.queue("q"))).counts
        assert counts[State.ACTIVE] == 3
        go.set()
        while (await client.run(ENGINE.queue("q"))).totals.get("completed", 0) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert sizes[0] == 3
    assert sum(sizes[1:]) == 2
