"""An event loop that a handler cannot end with `sys.exit()`, and that ends in order when one has broken it.

asyncio lets SystemExit and KeyboardInterrupt of any task through to whoever runs the loop, which would be the end of
the worker. The handler's own task is guarded elsewhere (`Caller`); this is for those that it starts, as `gather` does.
A handler that closes all file descriptors has closed the loop's own, too: it can neither run on nor be closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, NoReturn, TypeVar

from leasehold.runtime.log import brief, log_event

T = TypeVar("T")

BROKEN_STATUS: Final = 1
"""The exit status of a process whose event loop cannot run on: that of a command that could not be done."""


class SturdyLoop(asyncio.SelectorEventLoop):
    """See the module. It is like any other loop but within `guarded`."""

    def __init__(self) -> None:
        super().__init__()
        self._guards = 0
        self.heir: int | None = None
        """The child process that has something to do when this one ends, and has to outlive it for that."""

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        self._guards += 1
        try:
            yield
        finally:
            self._guards -= 1

    def stop(self) -> None:
        # While this is guarded, whoever runs the loop is not through: that was a handler.
        if self._guards:
            log_event(logging.ERROR, "exit_ignored", error="loop.stop()")
        else:
            super().stop()

    def run_forever(self) -> None:
        while True:
            try:
                return super().run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                if not self._guards:
                    raise
                # Whoever awaits the task has its error as well.
                log_event(logging.ERROR, "exit_ignored", error=type(error).__name__)
            except OSError as error:
                if not self._guards:
                    raise
                _end(error)


def _end(error: OSError) -> NoReturn:
    """The selector has failed: nothing can be waited for any more, not even to give the jobs back. The keeper does."""
    cause = "a handler closed files that are not its own" if error.errno == errno.EBADF else None
    log_event(logging.CRITICAL, "loop_broken", cause=cause, error=brief(error))
    logging.shutdown()
    os._exit(BROKEN_STATUS)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """While this lasts, handlers cannot end the running loop, if it is one of ours."""
    loop = asyncio.get_running_loop()
    with loop.guarded() if isinstance(loop, SturdyLoop) else contextlib.nullcontext():
        yield


def tell_heir(pid: int | None) -> None:
    """Say which child outlives this process, to whoever runs the loop, if it is one of ours."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, SturdyLoop):
        loop.heir = pid


def heir() -> int | None:
    """The child that was told of."""
    loop = asyncio.get_running_loop()
    return loop.heir if isinstance(loop, SturdyLoop) else None


def told_of_cancellation() -> Callable[[], bool]:
    """Tells at any time whether the task that runs now is being cancelled."""
    task = asyncio.current_task()
    return lambda: task is not None and task.cancelling() > 0


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on such a loop."""
    with asyncio.Runner(loop_factory=SturdyLoop) as runner:
        return runner.run(main)
