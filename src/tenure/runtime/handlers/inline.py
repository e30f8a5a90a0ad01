"""Runs a coroutine so that sync code runs in the thread of its caller, between the turns of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from tenure.runtime.handlers.threads import Pool, Pools

T = TypeVar("T")
R = TypeVar("R")


class InlinePool(Generic[T]):
    """In place of a `ThreadPool`: the work waits in `calls` until the caller of the coroutine does it."""

    def __init__(self, calls: asyncio.Queue[Callable[[], object] | None], done: Callable[[list[T]], None]) -> None:
        self._calls = calls
        self._done = done
        self._loop = asyncio.get_running_loop()

    def submit(self, work: Callable[[], T]) -> None:
        self._calls.put_nowait(lambda: self._loop.call_soon(self._done, [work()]))

    def close(self) -> None:
        """Do nothing: there are no threads."""


def run_inline(begin: Callable[[Pools], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on an event loop of its own. Work for the pools runs in this thread, outside of the loop.

    While it runs, the loop stands still.
    """
    calls: asyncio.Queue[Callable[[], object] | None] = asyncio.Queue()

    def pools(size: int, done: Callable[[list[R]], None]) -> Pool[R]:
        return InlinePool(calls, done)

    async def main() -> T:
        return await begin(pools)

    with asyncio.Runner() as runner:
        task = runner.get_loop().create_task(main())
        task.add_done_callback(lambda _: calls.put_nowait(None))
        try:
            while (call := runner.run(calls.get())) is not None:
                call()
        finally:
            task.cancel()
            runner.run(asyncio.wait({task}))
        return task.result()
