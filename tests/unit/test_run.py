"""From an app to its worker: the timeouts of its tasks."""

from __future__ import annotations

import asyncio
from typing import Any

from tenure.app.run import _report, timeouts_of
from tenure.core.task import TaskSpec
from tenure.processes.messages import StatusReport, WorkerState
from tenure.processes.overdue import Timeouts


def spec(name: str | None, timeout_ms: int | None, persistent: bool = False) -> TaskSpec:
    return TaskSpec(name, "q", print, False, str.encode, timeout_ms=timeout_ms, persistent=persistent)


def test_how_long_jobs_may_run_that_say_nothing():
    specs = [spec("a", 1_000), spec("b", None), spec("c", None, persistent=True), spec(None, 5)]
    assert timeouts_of(specs) == Timeouts({"a": 1_000, "b": 0, "c": 0}, {"q": 5})


class Reporting:
    """A worker and its keeper: notes the states that the worker tells."""

    id, retiring, good_at, trouble, slots = "w", None, 0.0, None, 1

    def __init__(self) -> None:
        self.ready, self.busy, self.stops = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.is_idle, self.active = True, 0
        self.waits_for_jobs = asyncio.Event()
        self.told: asyncio.Queue[tuple[WorkerState, int]] = asyncio.Queue()

    @property
    def stopping(self) -> bool:
        return self.stops.is_set()

    async def until_ready(self) -> None:
        await self.ready.wait()

    async def until_busy(self) -> None:
        self.waits_for_jobs.set()
        await self.busy.wait()

    async def until_stopping(self) -> None:
        await self.stops.wait()

    def tell(self, status: StatusReport) -> None:
        self.told.put_nowait((status.state, status.active))


async def test_an_idle_worker_reports_its_states_at_once_and_its_jobs():
    both: Any = Reporting()
    reporting = asyncio.create_task(_report(both, both))
    both.ready.set()
    assert await both.told.get() == (WorkerState.RUNNING, 0)
    await asyncio.wait_for(both.waits_for_jobs.wait(), 30)
    both.is_idle, both.active = False, 1
    both.busy.set()
    assert await both.told.get() == (WorkerState.RUNNING, 1)
    both.is_idle, both.active = True, 0
    both.busy.clear()
    assert await both.told.get() == (WorkerState.RUNNING, 0)
    await asyncio.sleep(0)
    both.stops.set()
    assert await both.told.get() == (WorkerState.STOPPING, 0)
    reporting.cancel()
