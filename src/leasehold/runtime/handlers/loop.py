"""The event loop of a worker, which knows the child process that outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class WorkerLoop(asyncio.SelectorEventLoop):
    heir: int | None = None
    """The child process that has something to do when this one ends, and has to outlive it for that."""


def tell_heir(pid: int | None) -> None:
    """Say which child outlives this process, to whoever runs the loop, if it is one of ours."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, WorkerLoop):
        loop.heir = pid


def heir() -> int | None:
    """The child that was told of."""
    loop = asyncio.get_running_loop()
    return loop.heir if isinstance(loop, WorkerLoop) else None


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on such a loop."""
    with asyncio.Runner(loop_factory=WorkerLoop) as runner:
        return runner.run(main)
