"""The clock of Redis steps while workers run jobs: the machine was resumed, or NTP has set it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.engine import Feature, HeartbeatReply
from tenure.core.job import NewJob
from tenure.core.shape import PLAIN, Shape
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.engines.redis_work_queue import RedisWorkQueueEngine
from tenure.processes.link import KeeperLink
from tenure.protocols.registry import engine_spec_of
from tenure.redis.aio import AsyncDriver
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.worker import Worker
from tenure.testing.server import RedisServer
from tests.faults.harness.clock import Clock, compiler
from tests.runtime.fakes import Gate, gated

HOUR_S = limits.HOUR / limits.SECOND
BEATS = 4
"""After a step: the second one of a worker has certainly seen the new time."""


class CountingKeeper(KeeperLink):
    """Lets a test wait for beats."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._beats: asyncio.Queue[None] = asyncio.Queue()

    async def report(self) -> HeartbeatReply | None:
        beat = await super().report()
        if beat is not None:
            self._beats.put_nowait(None)
        return beat

    async def beats(self, count: int) -> None:
        while not self._beats.empty():
            self._beats.get_nowait()
        for _ in range(count):
            await self._beats.get()


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[Clock]:
    if compiler() is None:
        pytest.skip("no C compiler")
    with closing(Clock(tmp_path)) as clock:
        yield clock


@pytest.mark.parametrize("make", [PartitionedEngine, RedisWorkQueueEngine], ids=["native", "redis-work-queue"])
@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
async def test_no_job_of_a_living_worker_runs_twice(
    redis_binary: str, clock: Clock, make: Callable[[str], Any], seconds: float
) -> None:
    """Not in a lane, and not in the same process, although the step is much longer than the timeouts."""
    engine, gate = make("tenure"), Gate()
    lanes = Feature.LANES in engine.features
    with RedisServer(clock.wrapped(redis_binary), tcp=True) as server:
        keeper = CountingKeeper(server.url, engine_spec_of(engine))
        driver, client = AsyncDriver(server.url), AsyncDriver(server.url)
        settings = WorkerSettings(["q"], concurrency=8, signals=False)
        worker = Worker(engine, driver, UserCode([gated(gate)]), settings, keeper=keeper)
        running = asyncio.create_task(worker.run())
        shape = Shape(lane="L") if lanes else PLAIN
        await client.run(
            engine.enqueue([NewJob("q", id, b"", task="t", timeout_ms=60_000, shape=shape) for id in "ab"])
        )
        begun = [await gate.begun.get() for _ in range(1 if lanes else 2)]
        await keeper.beats(BEATS)
        clock.set(seconds)
        await keeper.beats(BEATS)
        await client.run(engine.enqueue([NewJob("q", "later", b"", task="t")]))
        begun.append(await gate.begun.get())
        assert begun[-1] == "later"
        gate.open.set()
        while not await ended(client, engine, ["a", "b", "later"]):  # noqa: ASYNC110 - Redis has no event for it
            await asyncio.sleep(0.02)
        worker.stop()
        await running
        while not gate.begun.empty():
            begun.append(gate.begun.get_nowait())
        assert sorted(begun) == ["a", "b", "later"]
        totals = (await client.run(engine.queue("q"))).totals
        assert (totals.get("completed"), totals.get("crashed", 0)) == (3, 0)
        await driver.close()
        await client.close()


async def ended(client: AsyncDriver, engine: Any, ids: list[str]) -> bool:
    views = [await client.run(engine.job("q", id)) for id in ids]
    return all(view is None or view.state.ended for view in views)
