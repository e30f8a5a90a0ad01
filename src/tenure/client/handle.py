"""The handle of an enqueued job: its state, its progress and its result."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from tenure.client.client import a_loop_runs, asynchronous, blocking, seconds_or_none
from tenure.client.unique import public_view
from tenure.client.why import state_and_reason
from tenure.core import limits, names
from tenure.core.encoding.codec import note_of
from tenure.core.encoding.signature import Results
from tenure.core.engine import Feature
from tenure.core.errors import JobFailed, JobNotFound, ResultError, ResultTimeout
from tenure.core.hints import JOB_METHODS, pointing
from tenure.core.job import JobView, State
from tenure.core.ports import ResultPort
from tenure.core.shape import CancelAnswer, Conflict
from tenure.core.steps import Steps

if TYPE_CHECKING:
    from tenure.client.call import TaskCall
    from tenure.client.client import Client
    from tenure.core.task import FlowCall

RESULT_WAIT_MS: Final = 2_000
"""A caller that waits for a result checks the job at least this often, even if messages are lost."""

R = TypeVar("R")


class JobHandle(Generic[R]):
    """An enqueued job. `created`: whether the enqueue that returned this handle made the job.

    `conflict`: what that enqueue did because another job had the unique key (None: no job had); the handle then names
    the other job. Two handles of the same queue and id are equal.

    job = thumbnail.enqueue("cat.png")
    job.result(timeout=10)
    """

    __slots__ = ("_client", "_results", "conflict", "created", "id", "queue")

    def __init__(
        self,
        client: Client,
        queue: str,
        id: str,
        created: bool = False,
        conflict: Conflict | None = None,
        results: Results | None = None,
    ) -> None:
        self.queue = queue
        self.id = id
        self.created = created
        self.conflict = conflict
        self._client = client
        self._results = results

    if not TYPE_CHECKING:
        __getattr__ = pointing(JOB_METHODS)

    def __repr__(self) -> str:
        return f"<JobHandle {self.id!r} of queue {self.queue!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and (self.queue, self.id) == (other.queue, other.id)

    def __hash__(self) -> int:
        return hash((self.queue, self.id))

    def result(self, timeout: float | None = None) -> R:
        """Wait until the job has ended, and return its task's result. In async code: `aresult`.

            thumbnail.enqueue("cat.png").result(timeout=10)

        `timeout` in seconds; None: no limit; 0: check once. The result has the type of the task's return annotation if
        it fits, else it is plain data (None, bool, numbers, str, list, dict). Raises `ResultTimeout`, `JobFailed` (with
        the state and the error), `JobNotFound` (also if the record has expired, see `result_ttl`), and `ResultError` if
        the job completed but its result could not be stored.
        """
        if a_loop_runs():
            self._client.blocks_loop("result", waits=True)
        view: JobView | None = None
        for view in self.watch(timeout):  # noqa: B007 - the last view counts
            pass
        return self._result(view)

    async def aresult(self, timeout: float | None = None) -> R:  # noqa: ASYNC109
        """Async version of `result`.

        await (await thumbnail.aenqueue("cat.png")).aresult(timeout=10)
        """
        view: JobView | None = None
        async for view in self.awatch(timeout):  # noqa: B007 - as above
            pass
        return self._result(view)

    def watch(self, timeout: float | None = None) -> Iterator[JobView]:
        """Yield the job now, and again after every change of its state or progress, until it has ended.

            for view in thumbnail.enqueue("cat.png").watch(timeout=60):
                if view.progress:
                    print(view.progress.current, view.progress.total, view.progress.text)

        The last view shows the ended job; an unknown job yields nothing. Progress and the end arrive at once;
        other changes, and changes with a lost message, arrive within 2 seconds. Views in between may be skipped.
        `timeout` in seconds, from this call to the end of the job. Raises `ResultTimeout` and `UnsupportedFeature`.
        """
        if a_loop_runs():
            self._client.blocks_loop("watch", waits=True)
        return self._views(self._waiting(timeout))

    def awatch(self, timeout: float | None = None) -> AsyncIterator[JobView]:
        """Async version of `watch`.

        async for view in job.awatch(timeout=60): ...
        """
        return self._aviews(self._waiting(timeout))

    @blocking
    def refresh(self) -> Steps[JobView | None]:
        """Return the job as it is now; None if there is no record of it."""
        return with_public_view(self._client.engine.job(self.queue, self.id))

    arefresh = asynchronous(refresh)

    @blocking
    def state(self) -> Steps[State | None]:
        """Return the job's state; None if there is no record of it."""
        view = yield from self._client.engine.job(self.queue, self.id)
        return None if view is None else view.state

    astate = asynchronous(state)

    @blocking
    def cancel(self, reason: str = "") -> Steps[CancelAnswer]:
        """Cancel the job if it waits, or ask its worker to end it if it runs. See `app.control.cancel`.

            if not job.cancel("typed by mistake"):
                print("too late")

        The answer is false in a condition if there was nothing to cancel. Raises `InvalidArgument` for a reason that is
        not text.
        """
        return self._client.engine.cancel(self.queue, self.id, names.reason(reason))

    acancel = asynchronous(cancel)

    @blocking
    def then(self, call: TaskCall[Any] | FlowCall) -> Steps[None]:
        """Enqueue a call, a group or a chain in the step that completes this job; at once if it has completed.

            job = thumbnail.enqueue("cat.png")
            job.then(publish.call("cat.png"))

        The call waits with the job, through retries, `tenure retry` of a failed one too, and is gone with its record.
        A persistent job never completes. Raises `JobNotFound`, `JobFailed` (the job has ended otherwise),
        `InvalidArgument` (also for more than 1,000 calls), `PayloadTooLarge`, `UnsupportedFeature` and `NotDurable`.
        """
        job = self._client.following(call)
        state = yield from self._client.durably(self._client.flows.follow(self.queue, self.id, job), job.id)
        if state is None:
            raise _not_found(self)
        if state.ended and state is not State.COMPLETED:
            view = yield from self._client.engine.job(self.queue, self.id)
            raise _not_found(self) if view is None else failure(view)

    athen = asynchronous(then)

    def _waiting(self, timeout: float | None) -> Waiting:
        self._client.require(Feature.RESULTS)
        return Waiting(seconds_or_none(timeout))

    def _views(self, wait: Waiting) -> Iterator[JobView]:
        """Yield the job after every change. If the caller stops early, the subscription ends too."""
        yield from wait.news(view := self._client.run(self._ask()))
        if _over(view):
            return
        self._client.run(self._next_s(wait, view))
        # Subscribe before the next check. In the other order, an end between the two would be missed.
        with _noted(view), self._client.runner.subscribe(self._channel()) as messages:
            while not _over(view := self._client.run(self._ask())):
                yield from wait.news(view)
                messages.get(self._client.run(self._next_s(wait, view)))
        yield from wait.news(view)

    async def _aviews(self, wait: Waiting) -> AsyncIterator[JobView]:
        """Async version of `_views`."""
        for news in wait.news(view := await self._client.arun(self._ask())):
            yield news
        if _over(view):
            return
        await self._client.arun(self._next_s(wait, view))
        with _noted(view):
            async with self._client.runner.asubscribe(self._channel()) as messages:
                while not _over(view := await self._client.arun(self._ask())):
                    for news in wait.news(view):
                        yield news
                    await messages.get(await self._client.arun(self._next_s(wait, view)))
        for news in wait.news(view):
            yield news

    def _next_s(self, wait: Waiting, view: JobView | None) -> Steps[float]:
        """Return the seconds until the next check. Raises `ResultTimeout` when none are left.

        The error has the reason why the job waits, but for a caller that checks only once: it may do so often.
        """
        left = wait.left_s()
        if left > 0:
            return min(left, RESULT_WAIT_MS / limits.SECOND)
        state = f" It is {view.state.value}." if view else ""
        if view and wait.limit_s:
            state = " " + (yield from state_and_reason(self._client.engine, view, time.time() * limits.SECOND))
        raise ResultTimeout(
            f"Job {self.id!r} did not end within {wait.limit_s:g} s.{state} Call `result` again to wait longer."
        )

    def _ask(self) -> Steps[JobView | None]:
        return with_public_view(self._port.result(self.queue, self.id))

    def _channel(self) -> str:
        return self._port.result_channel(self.queue, self.id)

    @property
    def _port(self) -> ResultPort:
        return self._client.needed(self._client.engine.results, Feature.RESULTS)

    def _result(self, view: JobView | None) -> R:
        if view is None or not view.state.ended:
            raise _not_found(self)
        if view.state is not State.COMPLETED:
            raise failure(view)
        results = self._results or Results(f"job {self.id!r}", conversion=self._client.conversion)
        value = results.decode(view.result)
        note = note_of(value)
        if note is not None:
            raise ResultError(f"Job {self.id!r} completed, but its result could not be stored: {note}")
        return cast(R, value)


def with_public_view(steps: Steps[JobView | None]) -> Steps[JobView | None]:
    """Return the job of these steps with the unique key as its user wrote it."""
    view = yield from steps
    return None if view is None else public_view(view)


class Waiting:
    """One wait for a result: the time that is left, and the last view that the caller got."""

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = math.inf if limit_s is None else limit_s
        self._until = time.monotonic() + self.limit_s
        self._seen: object = None

    def news(self, view: JobView | None) -> Iterator[JobView]:
        """Yield the view if the job has changed since the one before."""
        shown = view and (view.state, view.progress, view.cancelling)
        if view and shown != self._seen:
            self._seen = shown
            yield view

    def left_s(self) -> float:
        """Return the seconds that are left."""
        return self._until - time.monotonic()


def _not_found(job: JobHandle[Any]) -> JobNotFound:
    return JobNotFound(f"Queue {job.queue!r} has no job {job.id!r}, or its record has expired.")


def failure(view: JobView) -> JobFailed:
    """Return the error for a job that ended without a result."""
    state, error = view.state.value, view.error
    type, message, traceback = ("", "", "") if error is None else (error.type, error.message, error.traceback)
    return JobFailed(state, type, message, traceback, id=view.id, task=view.task)


def _noted(view: JobView | None) -> AbstractContextManager[None]:
    """Note that a job waits for another one, if this is a job. Only a worker has loaded the module."""
    jobs = sys.modules.get("tenure.runtime.jobs.job")
    if jobs is None or view is None:
        return nullcontext()
    noted: AbstractContextManager[None] = jobs.awaiting(view.task, view.id)
    return noted


def _over(view: JobView | None) -> bool:
    return view is None or view.state.ended
