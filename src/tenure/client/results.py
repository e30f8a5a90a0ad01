"""Waits for several jobs: `wait_all`, `gather_results` and `as_completed`."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tenure.client.client import a_loop_runs, seconds_or_none
from tenure.client.handle import RESULT_WAIT_MS, JobHandle
from tenure.client.why import state_and_reason
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, ResultTimeout, invalid
from tenure.core.steps import Steps

if TYPE_CHECKING:
    from tenure.core.job import JobView

MAX_HANDLES: Final = 10_000
"""How many jobs one call waits for."""

R = TypeVar("R")


def wait_all(handles: Iterable[JobHandle[R]], timeout: float | None = None) -> list[R]:
    """Wait until all of these jobs have completed, and return their results in order. In async code: `gather_results`.

        jobs = thumbnail.enqueue_many(thumbnail.call(path) for path in paths)
        sizes = wait_all(jobs, timeout=60)

    `timeout` in seconds for all of them; None: no limit; 0: check once. If a job ends without a result, its error is
    raised at once, as `JobHandle.result` raises it; the other jobs continue. Raises `ResultTimeout`, which names jobs
    that have not ended, and `InvalidArgument` for handles of different apps or for more than 10,000.
    """
    wanted = list(handles)
    ended = _Ended(wanted, timeout)
    ended.refuse_loop("wait_all", "await gather_results(...)")
    results = {handle: handle._result(view) for handle, view in ended.views()}
    return [results[handle] for handle in wanted]


async def gather_results(handles: Iterable[JobHandle[R]], timeout: float | None = None) -> list[R]:  # noqa: ASYNC109
    """Wait until all of these jobs have completed, and return their results in order. Async version of `wait_all`.

    sizes = await gather_results(await thumbnail.aenqueue_many(calls), timeout=60)
    """
    wanted = list(handles)
    async with aclosing(_Ended(wanted, timeout).aviews()) as views:
        results = {handle: handle._result(view) async for handle, view in views}
    return [results[handle] for handle in wanted]


def as_completed(handles: Iterable[JobHandle[R]], timeout: float | None = None) -> CompletedJobs[R]:
    """Return the handles of these jobs one by one, each when its job has ended: for `for` and for `async for`.

        for job in as_completed(thumbnail.enqueue_many(calls), timeout=60):
            print(job.id, job.result(timeout=0))

    `timeout` in seconds, from the beginning of the loop to the end of the last job; None: no limit. A job that failed,
    or has no record any more, is returned too: its `result` raises the error. A handle that is given twice is returned
    once. The loop raises `ResultTimeout`; the call raises `InvalidArgument` as `wait_all` does, and
    `UnsupportedFeature`.
    """
    return CompletedJobs(_Ended(list(handles), timeout))


class CompletedJobs(Generic[R]):
    """What `as_completed` returns: an iterable and an async iterable of handles. Each loop waits from its beginning."""

    def __init__(self, ended: _Ended[R]) -> None:
        self._ended = ended

    def __iter__(self) -> Iterator[JobHandle[R]]:
        self._ended.refuse_loop("as_completed", "async for job in as_completed(...)")
        return (handle for handle, _ in self._ended.views())

    async def __aiter__(self) -> AsyncIterator[JobHandle[R]]:
        async with aclosing(self._ended.aviews()) as views:
            async for handle, _ in views:
                yield handle


class _Ended(Generic[R]):
    """The jobs of one wait, each with its last view when it has ended."""

    def __init__(self, handles: list[JobHandle[R]], timeout: float | None) -> None:
        for one in handles:
            if not isinstance(one, JobHandle):
                raise invalid("handles", "handles of jobs, as `enqueue` returns them", type(one).__name__)
        self._handles = list(dict.fromkeys(handles))
        if len(self._handles) > MAX_HANDLES:
            raise invalid("handles", f"at most {MAX_HANDLES:,}", f"{len(self._handles):,}", "Wait for them in parts.")
        if any(one._client is not self._handles[0]._client for one in self._handles):
            raise InvalidArgument("handles must be of one app. Wait for the handles of each app separately.")
        seconds = seconds_or_none(timeout)
        self._limit_s = math.inf if seconds is None else seconds
        if self._handles:
            self._handles[0]._client.require(Feature.RESULTS)

    def refuse_loop(self, name: str, better: str) -> None:
        if self._handles and a_loop_runs():
            self._handles[0]._client.blocks_loop(name, waits=True, better=better)

    def views(self) -> Iterator[tuple[JobHandle[R], JobView | None]]:
        """Yield each job when it has ended. One subscription serves them all."""
        until, pending = time.monotonic() + self._limit_s, dict.fromkeys(self._handles)
        yield from _looked_at(pending, self._handles)
        if not pending:
            return
        client = self._handles[0]._client
        client.run(self._left(until, pending))
        channels: dict[bytes, list[JobHandle[R]]] = {}
        for handle in pending:
            channels.setdefault(handle._channel().encode(), []).append(handle)
        # Subscribe before the next check. In the other order, an end between the two would be missed.
        with client.runner.subscribe(*(channel.decode() for channel in channels)) as messages:
            look_at = 0.0
            while pending:
                now = time.monotonic()
                if now >= look_at:  # also while messages arrive: any of them may be lost
                    yield from _looked_at(pending, list(pending))
                    look_at = time.monotonic() + RESULT_WAIT_MS / limits.SECOND
                elif message := messages.receive(min(look_at - now, client.run(self._left(until, pending)))):
                    yield from _looked_at(pending, channels.get(message[0], []))

    async def aviews(self) -> AsyncGenerator[tuple[JobHandle[R], JobView | None], None]:
        """Async version of `views`. The subscriptions of an event loop share a connection, so each job has its own."""
        import asyncio  # not at the top: blocking programs do without

        until, pending = time.monotonic() + self._limit_s, dict.fromkeys(self._handles)
        asked = (handle._client.arun(handle._ask()) for handle in self._handles)
        for handle, view in zip(self._handles, await asyncio.gather(*asked), strict=True):
            if _has_ended(view):
                del pending[handle]
                yield handle, view
        everyone = tasks = {asyncio.create_task(_end_of(handle)) for handle in pending}
        try:
            while tasks:
                left = await self._handles[0]._client.arun(self._left(until, pending))
                timeout = None if left == math.inf else left
                done, tasks = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    handle, view = task.result()
                    del pending[handle]
                    yield handle, view
        finally:
            for task in everyone:
                task.cancel()
            await asyncio.gather(*everyone, return_exceptions=True)

    def _left(self, until: float, pending: dict[JobHandle[R], None]) -> Steps[float]:
        """Return the seconds that are left. Raises `ResultTimeout` if no time is left, as `JobHandle.result` does."""
        left = until - time.monotonic()
        if left > 0:
            return left
        first, why = next(iter(pending)), ""
        view = (yield from first._ask()) if self._limit_s else None
        if view is not None:
            why = " " + (yield from state_and_reason(first._client.engine, view, time.time() * limits.SECOND))
        raise ResultTimeout(
            f"{len(pending)} of {len(self._handles)} jobs did not end within {self._limit_s:g} s, job {first.id!r} "
            f"of queue {first.queue!r} among them.{why}"
        )


def _looked_at(
    pending: dict[JobHandle[R], None], handles: Iterable[JobHandle[R]]
) -> Iterator[tuple[JobHandle[R], JobView | None]]:
    """Yield the handles of jobs that have ended, and take them out of `pending`."""
    for handle in handles:
        if handle in pending:
            view = handle._client.run(handle._ask())
            if _has_ended(view):
                del pending[handle]
                yield handle, view


async def _end_of(handle: JobHandle[R]) -> tuple[JobHandle[R], JobView | None]:
    """Wait until the job has ended."""
    view: JobView | None = None
    async for view in handle.awatch():  # noqa: B007 - the last view counts
        pass
    return handle, view


def _has_ended(view: JobView | None) -> bool:
    return view is None or view.state.ended
