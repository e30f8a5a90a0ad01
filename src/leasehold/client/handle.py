"""The handle of an enqueued job: where it is, how far it is, and its result once it has ended."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from leasehold.client.client import seconds_or_none
from leasehold.client.unique import public_view
from leasehold.core import limits, names
from leasehold.core.codec import note_of
from leasehold.core.engine import Feature
from leasehold.core.errors import JobFailed, JobNotFound, ResultError, ResultTimeout
from leasehold.core.job import JobView, State
from leasehold.core.shape import CancelAnswer, Conflict
from leasehold.core.signature import Results
from leasehold.core.steps import Steps

if TYPE_CHECKING:
    from leasehold.client.client import Client

RESULT_WAIT_MS: Final = 2_000
"""A caller that waits for a result asks again at least this often, even if messages are lost."""

R = TypeVar("R")


class JobHandle(Generic[R]):
    """A job that was enqueued. `created` is True when the enqueue that gave this handle made the job.

    `conflict` says what that enqueue did because another job had the unique key (None: none had); the handle is that of
    the other job then. Two handles of the same queue and id are equal.

    job = thumbnail.enqueue("cat.png")
    job.result(timeout=10)
    """

    __slots__ = ("_client", "_results", "conflict", "created", "id", "queue")

    def __init__(
        self,
        client: Client,
        queue: str,
        id: str,
        *,
        created: bool = False,
        conflict: Conflict | None = None,
        results: Results | None = None,
    ) -> None:
        self.queue = queue
        self.id = id
        self.created = created
        self.conflict = conflict
        self._client = client
        self._results = results or Results(f"job {id!r}")

    def __repr__(self) -> str:
        return f"<JobHandle {self.id!r} of queue {self.queue!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and (self.queue, self.id) == (other.queue, other.id)

    def __hash__(self) -> int:
        return hash((self.queue, self.id))

    def result(self, timeout: float | None = None) -> R:
        """Wait until the job has ended, and give what its task returned. In async code: `aresult`.

            thumbnail.enqueue("cat.png").result(timeout=10)

        `timeout` in seconds; None waits as long as it takes, 0 asks once. The result has the type of the task's return
        annotation where it fits, else it is plain data (None, bool, numbers, str, list, dict). Raises `ResultTimeout`,
        `JobFailed` (with the state and the error), `JobNotFound` (also when its record was kept for too short a time,
        see `result_ttl`), and `ResultError` when the job completed but its result could not be stored.
        """
        view: JobView | None = None
        for view in self._looks(self._waiting(timeout)):  # noqa: B007 - the last look is the one that counts
            pass
        return self._give(view)

    async def aresult(self, timeout: float | None = None) -> R:  # noqa: ASYNC109
        """The twin of `result` for async code.

        await (await thumbnail.aenqueue("cat.png")).aresult(timeout=10)
        """
        view: JobView | None = None
        async with aclosing(self._alooks(self._waiting(timeout))) as looks:
            async for view in looks:  # noqa: B007 - as above
                pass
        return self._give(view)

    def watch(self, timeout: float | None = None) -> Iterator[JobView]:
        """Look at the job now, and again whenever its state or its progress has changed, until it has ended.

            for view in thumbnail.enqueue("cat.png").watch(timeout=60):
                if view.progress:
                    print(view.progress.current, view.progress.total, view.progress.text)

        The last view is that of the ended job; there is none when nothing is known of the job. Progress and the end are
        told at once; what else changes, or was told and lost, is noticed within 2 seconds. Only the newest counts.
        `timeout` in seconds, from this call to the end of the job. Raises `ResultTimeout` and `UnsupportedFeature`.
        """
        return changes(self._looks(self._waiting(timeout)))

    def awatch(self, timeout: float | None = None) -> AsyncIterator[JobView]:
        """The twin of `watch` for async code.

        async for view in job.awatch(timeout=60): ...
        """
        return achanges(self._alooks(self._waiting(timeout)))

    def refresh(self) -> JobView | None:
        """The job as it is now; None when there is no record of it."""
        return self._client.run(with_public_view(self._client.engine.job(self.queue, self.id)))

    async def arefresh(self) -> JobView | None:
        """The twin of `refresh` for async code."""
        return await self._client.arun(with_public_view(self._client.engine.job(self.queue, self.id)))

    def state(self) -> State | None:
        """Where the job is now; None when there is no record of it."""
        return _state(self.refresh())

    async def astate(self) -> State | None:
        """The twin of `state` for async code."""
        return _state(await self.arefresh())

    def cancel(self, reason: str = "") -> CancelAnswer:
        """End the job in `cancelled` if it waits, or ask its worker to end it if it runs. See `app.control.cancel`.

            if not job.cancel("typed by mistake"):
                print("too late")

        The answer is false in a condition when there was nothing to cancel. Raises `InvalidArgument` for a reason that
        is no text.
        """
        return self._client.run(self._client.engine.cancel(self.queue, self.id, names.reason(reason)))

    async def acancel(self, reason: str = "") -> CancelAnswer:
        """The twin of `cancel` for async code."""
        return await self._client.arun(self._client.engine.cancel(self.queue, self.id, names.reason(reason)))

    def _waiting(self, timeout: float | None) -> Waiting:
        self._client.require(Feature.RESULTS, "results")
        return Waiting(self.id, seconds_or_none(timeout))

    def _looks(self, wait: Waiting) -> Iterator[JobView | None]:
        """Look at the job again and again; the last look finds it ended or unknown. Raises `ResultTimeout`."""
        yield (view := self._client.run(self._ask()))
        if _over(view):
            return
        wait.next_s()
        # Subscribe before asking again: an end between the two would be missed the other way round.
        with self._client.runner.subscribe(self._channel()) as messages:
            while not _over(view := self._client.run(self._ask())):
                yield view
                messages.get(wait.next_s())
        yield view

    async def _alooks(self, wait: Waiting) -> AsyncGenerator[JobView | None, None]:
        """The twin of `_looks`."""
        yield (view := await self._client.arun(self._ask()))
        if _over(view):
            return
        wait.next_s()
        async with self._client.runner.asubscribe(self._channel()) as messages:
            while not _over(view := await self._client.arun(self._ask())):
                yield view
                await messages.get(wait.next_s())
        yield view

    def _ask(self) -> Steps[JobView | None]:
        return with_public_view(self._client.engine.result(self.queue, self.id))

    def _channel(self) -> str:
        return self._client.engine.result_channel(self.queue, self.id)

    def _give(self, view: JobView | None) -> R:
        if view is None:
            raise JobNotFound(f"There is no job {self.id!r} in queue {self.queue!r}, or its record is no longer kept.")
        if view.state is not State.COMPLETED:
            raise failure(view)
        value = self._results.decode(view.result)
        note = note_of(value)
        if note is not None:
            raise ResultError(f"Job {self.id!r} completed, but its result could not be stored: {note}")
        return cast(R, value)


def with_public_view(steps: Steps[JobView | None]) -> Steps[JobView | None]:
    """A look at a job, which shows it as its user knows it."""
    view = yield from steps
    return None if view is None else public_view(view)


def changes(looks: Iterator[JobView | None]) -> Iterator[JobView]:
    """Of many looks at a job, those that found something else than the one before."""
    before: JobView | None = None
    for view in looks:
        if view is not None and _differ(before, view):
            yield view
            before = view


async def achanges(looks: AsyncGenerator[JobView | None, None]) -> AsyncIterator[JobView]:
    """The twin of `changes`. Where it is left early, so is the subscription of the looks."""
    before: JobView | None = None
    async with aclosing(looks):
        async for view in looks:
            if view is not None and _differ(before, view):
                yield view
                before = view


class Waiting:
    """How long a wait for a result still lasts."""

    def __init__(self, id: str, limit_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._id = id
        self._limit = limit_s
        self._clock = clock
        self._until = None if limit_s is None else clock() + limit_s

    def next_s(self) -> float:
        """Seconds until the next look. Messages may be lost, so never more than `RESULT_WAIT_MS`."""
        most = RESULT_WAIT_MS / limits.SECOND
        if self._until is None:
            return most
        left = self._until - self._clock()
        if left <= 0:
            raise ResultTimeout(f"Job {self._id!r} had not ended after {self._limit:g} s. It goes on; ask again.")
        return min(left, most)


def failure(view: JobView) -> JobFailed:
    """The error for a job that ended without a result."""
    error = view.error
    if error is None:
        return JobFailed(view.state.value, "", f"The job ended in {view.state.value}.")
    message = error.message if error.type else f"The job ended in {view.state.value}: {error.message}"
    return JobFailed(view.state.value, error.type, message, error.traceback)


def _over(view: JobView | None) -> bool:
    return view is None or view.state.ended


def _differ(before: JobView | None, view: JobView) -> bool:
    if before is None:
        return True
    return (before.state, before.progress, before.cancelling) != (view.state, view.progress, view.cancelling)


def _state(view: JobView | None) -> State | None:
    return None if view is None else view.state
