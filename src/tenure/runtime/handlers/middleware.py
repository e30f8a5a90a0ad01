"""Middleware: functions of the user around every handler. A worker without any runs its handlers as they are.

With some, each task's function is replaced at the start by one that calls through the layers. Async layers run on the
loop, around every handler; sync ones in the thread, around sync handlers. A handler that runs in a job process has its
layers there. What a layer raises or returns replaces what the handler raised or returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from tenure.core.functions import is_async
from tenure.core.task import RunIn, TaskSpec
from tenure.core.values import replace
from tenure.runtime.handlers.threads import CallThreads, Pools, ThreadPool, result_of
from tenure.runtime.jobs.job import Job, current_job, run_of

CallNext: TypeAlias = Callable[[], Awaitable[Any]]
"""Calls the next layer or the handler, for async middleware: `await call_next()` returns its value."""
CallNextSync: TypeAlias = Callable[[], Any]
"""The same for sync middleware: `call_next()`."""
AsyncMiddleware: TypeAlias = Callable[[Sequence[Job], CallNext], Awaitable[Any]]
SyncMiddleware: TypeAlias = Callable[[Sequence[Job], CallNextSync], Any]
Middleware: TypeAlias = AsyncMiddleware | SyncMiddleware
"""Takes the jobs of the handler's call (one, or a batch) and `call_next`."""


class Layers:
    """The middleware of one worker, the outermost first. `slots`: how many sync handlers may run at one time, in
    threads; None: in a job process, where a sync handler has the main thread."""

    def __init__(self, middleware: Sequence[Middleware], slots: int | None = None, pools: Pools = ThreadPool) -> None:
        self._on_loop: list[Any] = [one for one in middleware if is_async(one)]
        self._in_thread: list[Any] = [one for one in middleware if not is_async(one)]
        self._threads = CallThreads(slots, pools) if slots is not None and self._on_loop else None
        self._elsewhere = slots is not None

    def around(self, spec: TaskSpec) -> TaskSpec:
        """The same task, with its function behind the layers."""
        if spec.run_in is RunIn.PROCESS and self._elsewhere:
            return spec
        if spec.is_async:
            return replace(spec, function=_behind(self._on_loop, spec, spec.function))
        function = _behind(self._in_thread, spec, spec.function)
        if not self._on_loop:
            return replace(spec, function=function)
        called = _at_once(function) if self._threads is None else self._threaded(spec, function, self._threads)
        return replace(spec, function=_behind(self._on_loop, spec, called), is_async=True)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()

    def _threaded(
        self, spec: TaskSpec, function: Callable[..., Any], threads: CallThreads
    ) -> Callable[..., Awaitable[Any]]:
        """Make an async function that calls a sync one in a thread, in the context that the layers have made."""

        async def call(*arguments: Any, **named: Any) -> Any:
            run = run_of(_jobs(spec, arguments)[0])
            answer = threads.call(lambda: function(*arguments, **named))
            cancelled = False
            while not answer.done():
                try:
                    await asyncio.wait({answer})
                except asyncio.CancelledError:
                    cancelled = True  # nothing can end the thread
            if run.abandoned or (cancelled and run.stop is None):  # by a layer; else what the handler returned counts
                answer.result().clear()  # as `result_of` does
                raise asyncio.CancelledError
            return result_of(answer)

        return call


def _at_once(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return call


def _jobs(spec: TaskSpec, arguments: tuple[Any, ...]) -> tuple[Job, ...]:
    if spec.batch is not None:
        return tuple(arguments[0])
    job = current_job()
    assert job is not None
    return (job,)


def _behind(layers: Sequence[Any], spec: TaskSpec, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called through the layers. If they are async, so is what it returns."""
    if not layers:
        return function

    def through(*arguments: Any, **named: Any) -> Any:
        jobs, step = _jobs(spec, arguments), partial(function, *arguments, **named)
        for layer in reversed(layers):
            step = partial(layer, jobs, step)
        return step()

    return through
