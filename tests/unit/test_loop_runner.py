"""Async handlers share a task until they suspend: contexts, the current task, timeouts and cancellation of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.runtime.handlers.runners import TURN_S, LoopRunner
from tenure.runtime.jobs.held import Ended, Stop

VARIABLE: ContextVar[str] = ContextVar("variable", default="none")


class Bench:
    """A runner whose handlers are called as they are. What they returned or raised is in `ended`, in that order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ended: list[Any] = []
        self.runner = LoopRunner(self, self._finished, 1.0, lambda: self.now)  # type: ignore[arg-type]
        self._changed = asyncio.Event()

    def begin_turn(self) -> None:
        """Do nothing."""

    async def on_loop(self, run: Any) -> Any:
        try:
            value = await run.handler()
        except BaseException as error:
            value = error
        return run, value, self.now

    def start(self, *handlers: Callable[[], Awaitable[Any]]) -> list[Any]:
        runs = [SimpleRun(handler) for handler in handlers]
        for run in runs:
            self.runner.start(run)  # type: ignore[arg-type]
        return runs

    async def until(self, count: int) -> list[Any]:
        async with asyncio.timeout(30):
            while len(self.ended) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.ended

    def _finished(self, ended: Sequence[Ended]) -> None:
        self.ended += [outcomes for _, outcomes, _ in ended]
        self._changed.set()


class SimpleRun:
    def __init__(self, handler: Callable[[], Awaitable[Any]]) -> None:
        self.handler = handler
        self.stop: Stop | None = None
        self.members = [SimpleNamespace(lease=handler)]


def answering(value: object) -> Callable[[], Awaitable[object]]:
    async def handler() -> object:
        return value

    return handler


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_a_handler_does_not_see_the_context_of_the_one_before(bench: Bench) -> None:
    async def first() -> str:
        VARIABLE.set("first")
        return VARIABLE.get()

    async def second() -> str:
        before = VARIABLE.get()
        await asyncio.sleep(0)
        VARIABLE.set("second")
        await asyncio.sleep(0)
        return f"{before} {VARIABLE.get()}"

    bench.start(first, second, first)
    assert sorted(await bench.until(3)) == ["first", "first", "none second"]
    assert VARIABLE.get() == "none"


async def test_the_task_of_a_handler_is_its_own_from_its_first_suspension_on(bench: Bench) -> None:
    async def handler() -> tuple[Any, Any]:
        before = asyncio.current_task()
        await asyncio.sleep(0)
        return before, asyncio.current_task()

    bench.start(*[handler] * 5)
    tasks = await bench.until(5)
    assert all(before is after for before, after in tasks)
    assert len({before for before, _ in tasks}) == 5


async def test_timeouts_and_groups_that_begin_before_the_first_suspension(bench: Bench) -> None:
    async def late() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    async def group() -> list[int]:
        async with asyncio.TaskGroup() as tasks:
            children = [tasks.create_task(asyncio.sleep(0, number)) for number in range(3)]
        return [child.result() for child in children]

    async def failing() -> None:
        async def fail() -> None:
            raise ValueError

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
            await asyncio.Event().wait()

    bench.start(answering(1), late, group, failing)
    ended = await bench.until(4)
    assert {type(one) for one in ended} == {int, TimeoutError, list, ExceptionGroup}
    assert [0, 1, 2] in ended


async def test_a_stop_cancels_one_handler_only(bench: Bench) -> None:
    gate = asyncio.Event()

    async def waiting() -> str:
        await gate.wait()
        return "open"

    one, other = bench.start(waiting, waiting)
    bench.start(answering("quick"))
    await bench.until(1)
    bench.runner.stop(one, Stop.TIMEOUT)
    await bench.until(2)
    gate.set()
    ended = await bench.until(3)
    assert [type(value) for value in ended] == [str, asyncio.CancelledError, str]
    assert other.stop is None


async def test_a_handler_that_was_stopped_before_its_call_is_cancelled_when_it_suspends(bench: Bench) -> None:
    begun = []

    async def waiting() -> None:
        begun.append(1)
        await asyncio.Event().wait()

    runs = bench.start(waiting, answering("quick"), waiting)
    for run in (runs[0], runs[1]):
        run.stop = Stop.CANCEL
        bench.runner.stop(run, Stop.CANCEL)
    ended = await bench.until(2)
    assert sorted(type(value).__name__ for value in ended) == ["CancelledError", "str"]
    assert len(begun) == 2
    bench.runner.stop(runs[2], Stop.CANCEL)
    await bench.until(3)


async def test_a_handler_that_cancels_its_own_task_and_returns_cancels_no_other(bench: Bench) -> None:
    async def rash() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "rash"

    async def waiting() -> str:
        await asyncio.sleep(0)
        return "waited"

    bench.start(rash, waiting, rash, answering("quick"))
    assert sorted(await bench.until(4)) == ["quick", "rash", "rash", "waited"]


async def test_a_task_that_is_cancelled_before_it_begins_is_replaced(bench: Bench) -> None:
    async def suspending() -> None:
        await asyncio.sleep(0)

    bench.start(*[suspending] * 3)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:  # as a handler may do
        task.cancel()
    assert await bench.until(3) == [None] * 3


async def test_handlers_that_never_suspend_leave_the_loop_to_others_after_a_turn(bench: Bench) -> None:
    seen = []

    async def slow() -> None:
        bench.now += TURN_S

    async def other() -> None:
        for _ in range(3):
            seen.append(len(bench.ended))
            await asyncio.sleep(0)

    bench.start(*[slow] * 5)
    task = asyncio.create_task(other())
    await bench.until(5)
    await task
    assert seen[0] < seen[1] < seen[2]


async def test_the_watch_of_the_loop_finds_the_job_of_a_task(bench: Bench) -> None:
    found = []

    async def handler() -> None:
        for _ in range(2):
            task = asyncio.current_task()
            assert task is not None
            found.append(bench.runner.job_of(task))
            await asyncio.sleep(0)

    (run,) = bench.start(handler)
    await bench.until(1)
    assert found == [run.handler] * 2
    task = asyncio.current_task()
    assert task is not None
    assert bench.runner.job_of(task) is None
