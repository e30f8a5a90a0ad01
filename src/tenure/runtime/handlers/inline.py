"""Runs a coroutine so that sync code runs in the thread of its caller, while the event loop stands still."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from tenure.runtime.handlers.threads import Pool, Pools

T = TypeVar("T")
R = TypeVar("R")


class _Calls(Struct, frozen=True):
    waiting: deque[Callable[[], object]] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class InlinePool(Generic[T]):
    """In place of a `ThreadPool`: the work waits until `run_inline` does it."""

    def __init__(self, calls: _Calls, done: Callable[[list[T]], None]) -> None:
        self._calls = calls
        self._done = done
        self._loop = asyncio.get_running_loop()

    def submit(self, work: Callable[[], T]) -> None:
        self._calls.waiting.append(lambda: self._loop.call_soon(self._done, [work()]))
        self._calls.wake.set()

    def close(self) -> None:
        """Do nothing: there are no threads."""


def run_inline(begin: Callable[[Pools], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on an event loop of its own. Work for its pools runs in this thread, between its turns."""
    calls = _Calls()
    values: list[T] = []
    errors: list[BaseException] = []

    def pools(size: int, done: Callable[[list[R]], None]) -> Pool[R]:
        return InlinePool(calls, done)

    async def main() -> None:
        try:
            values.append(await begin(pools))
        except BaseException as error:  # the task of a loop must not raise SystemExit
            errors.append(error)

    def finish() -> None:
        while not task.done():
            runner.run(calls.wake.wait())
            calls.wake.clear()
            while calls.waiting:
                calls.waiting.popleft()()

    with asyncio.Runner() as runner:
        task = runner.get_loop().create_task(main())
        task.add_done_callback(lambda _: calls.wake.set())
        try:
            finish()
        except BaseException:  # Ctrl-C, or a handler has stopped the loop
            task.cancel()
            finish()
            raise
    if errors:
        raise errors.pop()
    return values.pop()
