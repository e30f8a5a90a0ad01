"""A worker makes the ticks of many schedules that are due."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.errors import QueueFull, TenureError
from tenure.core.schedules.schedule import DueSchedules, ScheduleSpec, ScheduleState, StoredSchedule, Tick, Ticked
from tenure.runtime.scheduler import CHOOSE_S, Scheduler

NOW_MS = 1_800_000_000_000


def stored(name: str) -> StoredSchedule:
    spec = ScheduleSpec(name=name, queue="q", every_ms=limits.HOUR, window_ms=limits.MINUTE)
    return StoredSchedule(name, "digest", None if name == "newer" else spec, ScheduleState(NOW_MS, NOW_MS))


class Port:
    """Has these schedules due once. What it returns is the reply of Redis. A full queue refuses the tick of `full`."""

    def __init__(self, *names: str) -> None:
        self.due = [stored(name) for name in names]
        self.calls: list[list[str]] = []
        self.is_done = asyncio.Event()

    def due_schedules(self, queue: str, limit: int) -> DueSchedules:
        found, self.due = self.due, []
        if not found:
            self.is_done.set()
        return DueSchedules(NOW_MS, 0 if found else limits.HOUR, tuple(found))

    def tick(self, queue: str, ticks: Sequence[Tick]) -> list[Ticked | TenureError]:
        self.calls.append([tick.name for tick in ticks])
        return [QueueFull("full") if tick.name == "full" else Ticked.ENQUEUED for tick in ticks]


async def ticked(port: Port, turn_s: float) -> list[str]:
    """Let a scheduler look once. Each look at its clock takes `turn_s`. Returns the queues of the ticks it reports."""
    clock, queues = itertools.count(0, turn_s), []

    async def run(reply: Any) -> Any:
        return reply

    context: Any = SimpleNamespace(
        queues=("q",),
        env=SimpleNamespace(clock=lambda: next(clock), random=lambda: 0.0),
        driver=SimpleNamespace(run=run),
        reports=SimpleNamespace(ticked=lambda queue, late_s: queues.append(queue)),
    )
    scheduler = Scheduler(context, port, (), "", lambda: "id")  # type: ignore[arg-type]
    scheduler.note("q", 0)
    task = asyncio.create_task(scheduler.run())
    await port.is_done.wait()
    task.cancel()
    return queues


async def test_one_call_makes_the_ticks_of_all_that_are_due(caplog: pytest.LogCaptureFixture) -> None:
    port = Port("a", "newer", "full", "b")
    assert await ticked(port, 0) == ["q", "q"]
    assert port.calls == [["a", "full", "b"]]
    assert ["schedule=newer" in caplog.text, "schedule=full" in caplog.text, "schedule=a" in caplog.text] == [
        True,
        True,
        False,
    ]


async def test_ticks_do_not_wait_while_a_worker_decides_for_long() -> None:
    port = Port("a", "b", "c", "newer")
    await ticked(port, CHOOSE_S / 1.5)
    assert port.calls == [["a", "b"], ["c"]]
