"""Which code blocked the event loop, and for how long: by a clock of the test, looked at from within the block."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tenure.core.job import JobRecord, Lease
from tenure.runtime.handlers.blocked import REST_LOOKS, LoopWatch

LEASE = Lease("w", 1, JobRecord("a", "q", b"", 0, task="shop.send"), 0, 0)


class Bench:
    """A watch without its thread. This test is the code that blocks the loop."""

    def __init__(self, lease: Lease | None = LEASE) -> None:
        self.now = 0.0
        self.since: float | None = None
        me = asyncio.current_task()

        def job_of(task: asyncio.Task[Any]) -> Lease | None:
            return lease if task is me else None

        self.blocks = 0
        self.watch = LoopWatch(lambda: self.since, job_of, lambda: self.now, self.blocked)
        self.watch.turned()

    def blocked(self) -> None:
        self.blocks += 1

    def look(self, *times: float) -> None:
        for self.now in times:
            self.watch.look()

    def end(self) -> None:
        self.watch.turned()
        self.watch.look()


@pytest.fixture(autouse=True)
def _level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tenure.worker")


async def test_the_job_and_the_place_are_named_when_it_has_ended(caplog):
    bench = Bench()
    bench.look(0.9)
    bench.end()
    assert caplog.messages == []
    bench.look(2.0, 4.0)
    assert caplog.messages == []
    bench.end()
    (line,) = caplog.messages
    assert line.startswith(f"loop_blocked queue=q task=shop.send id=a at='{__file__}:")
    assert " in look' seconds=3.100 " in line
    await asyncio.sleep(0)
    assert bench.blocks == 1


async def test_the_first_job_after_a_rest_counts_from_its_start(caplog):
    bench = Bench()
    bench.watch.rest()
    bench.look(100.0)
    bench.since = 100.0
    bench.look(101.0, 102.5)
    bench.since = None
    bench.look(102.5)
    assert "seconds=2.500" in caplog.text


async def test_one_that_lasts_is_logged_meanwhile_and_one_place_once_a_minute(caplog):
    bench = Bench()
    bench.look(*range(1, 25))
    assert [line.split("seconds=")[1].split()[:2] for line in caplog.messages] == [
        ["10.000", "ended=False"],
        ["20.000", "ended=False"],
    ]
    bench.end()
    bench.look(30.0)
    bench.end()
    assert len(caplog.messages) == 2
    bench.now = 100.0
    bench.watch.turned()
    bench.look(101.0, 102.0)
    bench.end()
    assert len(caplog.messages) == 3


async def test_a_task_of_the_handlers_own_is_known_by_its_place(caplog):
    bench = Bench(lease=None)
    bench.look(2.0)
    bench.end()
    assert "loop_blocked at=" in caplog.text


async def test_a_slow_machine_is_no_block(caplog):
    """The loop is late, and none of the user's code runs on it."""
    bench = Bench(lease=None)
    bench.now = 2.0
    asyncio.get_running_loop().call_soon(bench.watch.look)
    await asyncio.sleep(0)
    bench.end()
    assert caplog.messages == []


class Waits:
    """In place of the event of the thread: notes for how long it would wait, and lets it sleep only until it is set."""

    def __init__(self, watch: LoopWatch, *then: Callable[[], None]) -> None:
        self.waits: list[float | None] = []
        self._watch, self._then = watch, list(then)
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        if timeout is None:
            (self._then.pop(0) if self._then else self._watch.close)()
            assert self._is_set, "nothing wakes the thread"
        return True

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False


async def test_the_thread_of_an_idle_worker_sleeps_until_a_job_comes():
    bench = Bench()
    bench.watch.rest()

    def a_job_comes() -> None:
        bench.watch.turned()
        bench.watch.look()
        bench.watch.rest()

    bench.watch._woken = waits = Waits(bench.watch, a_job_comes)  # type: ignore[assignment]
    bench.watch._run()
    asleep = [n for n, one in enumerate(waits.waits) if one is None]
    assert asleep[0] == REST_LOOKS
    assert len(asleep) == 2


async def test_a_block_is_seen_when_it_begins_as_the_thread_falls_asleep(caplog):
    """The loop turns between the look and the sleep: the thread must not sleep through the block."""
    bench = Bench()
    bench.watch.rest()
    looks = iter(range(REST_LOOKS + 1))

    def since() -> float | None:
        if next(looks) == REST_LOOKS:
            bench.watch.turned()
            bench.watch._has_ended = True
        return None

    bench.watch._running_since = since
    bench.watch._woken = waits = Waits(bench.watch)  # type: ignore[assignment]
    bench.watch.look = lambda: None  # type: ignore[method-assign]
    bench.watch._run()
    assert None not in waits.waits
