"""Threads for sync handlers. Work goes out through one queue; results come back in batches, with one wake-up each.

The threads are daemons: a handler that hangs cannot keep the process alive after a stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from tenure.core import limits
from tenure.runtime.forks import ForkGuard
from tenure.runtime.log import brief, log_event

THREAD_RETRY_MS: Final = 1 * limits.SECOND
"""How long until the next attempt to start a thread when the system allows no more."""

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Answer: TypeAlias = "asyncio.Future[list[Any]]"
"""The value and the error of a call in a thread. `result_of` takes them out."""


class Pool(Protocol[T_contra]):
    """Runs work in threads. It passes what the work returns to a function on the loop."""

    def submit(self, work: Callable[[], T_contra]) -> None: ...
    def close(self) -> None: ...


class Pools(Protocol):
    """Makes pools. `ThreadPool` does, and in a test `run_inline` brings its own."""

    def __call__(self, size: int, done: Callable[[list[T]], None]) -> Pool[T]: ...


class ThreadPool(Generic[T]):
    """Up to `size` threads, started when needed. What `submit` gets runs in a thread and must not raise; `done` gets
    the results on the loop."""

    def __init__(self, size: int, done: Callable[[list[T]], None], retry_ms: int = THREAD_RETRY_MS) -> None:
        self._size = size
        self._retry_s = retry_ms / limits.SECOND
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._todo: SimpleQueue[Callable[[], T] | None] = SimpleQueue()
        self._finished: deque[T] = deque()
        self._woken = False
        self._threads = 0
        self._busy = 0
        self._again: asyncio.TimerHandle | None = None
        self._recursion = sys.getrecursionlimit()

    def submit(self, work: Callable[[], T]) -> None:
        self._busy += 1
        self._todo.put(work)
        if self._busy > self._threads and self._threads < self._size:
            self._grow()

    def _grow(self) -> bool:
        """Start one more thread. If the system allows none, work waits for another thread or the next attempt."""
        try:
            threading.Thread(target=self._serve, name=f"tenure-{self._threads + 1}", daemon=True).start()
        except (RuntimeError, MemoryError) as error:
            if self._again is None:
                about: dict[str, object] = {"threads": self._threads, "waiting": self._todo.qsize()}
                log_event("start_failed", kind="thread", error=brief(error), **about)
                self._again = self._loop.call_later(self._retry_s, self._try_again)
            return False
        self._threads += 1
        return True

    def _try_again(self) -> None:
        self._again = None
        while self._threads < min(self._busy, self._size) and self._grow():
            pass

    def close(self) -> None:
        """Let idle threads end. Busy ones end after their work."""
        if self._again is not None:
            self._again.cancel()
        for _ in range(self._threads):
            self._todo.put(None)

    def _serve(self) -> None:
        while (work := self._todo.get()) is not None:
            self._finished.append(work())
            del work  # an idle thread would keep what its last call had
            if (
                sys.getrecursionlimit() < self._recursion
            ):  # a handler has lowered it, for the loop and its connections too
                sys.setrecursionlimit(self._recursion)
            # Race with _drain: it lowers the flag before it takes anything, so if the flag is up here, what was just
            # appended will be seen. Two threads may both raise it: one wake-up too many is harmless.
            if not self._woken:
                self._woken = True
                with contextlib.suppress(RuntimeError):  # the loop is closed: the worker has ended
                    self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._woken = False
        results = [self._finished.popleft() for _ in range(len(self._finished))]
        self._busy -= len(results)
        self._done(results)


class CallThreads:
    """Calls functions in threads for coroutines, each in a copy of its caller's context."""

    def __init__(self, size: int, pools: Pools) -> None:
        self._own = ForkGuard()
        self._pool = pools(size, _answer_all)

    def call(self, function: Callable[[], Any]) -> Answer:
        """Call the function in a thread. When the future is done, `result_of` returns its value or raises its error."""
        answer: Answer = asyncio.get_running_loop().create_future()
        self._pool.submit(partial(self._call, answer, partial(copy_context().run, function)))
        return answer

    def close(self) -> None:
        self._pool.close()

    def _call(self, answer: Answer, function: Callable[[], Any]) -> tuple[Answer, Any, BaseException | None]:
        try:
            return answer, function(), None
        except BaseException as raised:  # not in a local that lasts: its traceback has this frame
            return answer, None, raised
        finally:
            self._own.end_clone()


def _answer_all(ended: list[tuple[Answer, Any, BaseException | None]]) -> None:
    for answer, value, error in ended:
        if not answer.done():  # else the call took too long, and no coroutine waits for it any more
            answer.set_result([value, error])


def result_of(answer: Answer) -> Any:
    """Return the value of a call that has ended, or raise its error. Only once: the future keeps neither.

    The error's traceback has frames that know the future. If it kept the error, neither would be freed, nor would the
    locals of the function.
    """
    ended = answer.result()
    error, value = ended.pop(), ended.pop()
    try:
        if error is not None:
            raise error
        return value
    finally:
        del error
