"""An event loop that a handler cannot end: `sys.exit()` in a task that it started is that task's end alone.

asyncio lets SystemExit and KeyboardInterrupt of any task through to whoever runs the loop, which would be the end of
the worker. The handler's own task is guarded elsewhere (`Caller`); this is for those that it starts, as `gather` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from leasehold.runtime.log import event

T = TypeVar("T")


class SturdyLoop(asyncio.SelectorEventLoop):
    """See the module. It is like any other loop but within `guarded`."""

    def __init__(self) -> None:
        super().__init__()
        self._guards = 0

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        self._guards += 1
        try:
            yield
        finally:
            self._guards -= 1

    def run_forever(self) -> None:
        while True:
            try:
                return super().run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                if not self._guards:
                    raise
                # Whoever awaits the task has its error as well.
                event(logging.ERROR, "exit_ignored", error=type(error).__name__)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """While this lasts, handlers cannot end the running loop, if it is one of ours."""
    loop = asyncio.get_running_loop()
    with loop.guarded() if isinstance(loop, SturdyLoop) else contextlib.nullcontext():
        yield


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on such a loop."""
    with asyncio.Runner(loop_factory=SturdyLoop) as runner:
        return runner.run(main)
