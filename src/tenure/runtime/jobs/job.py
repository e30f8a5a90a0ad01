"""The job as its handler sees it: `Job`, and functions for the running job, which do nothing outside of one."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from tenure.core import limits
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.job import Token
from tenure.core.shape import Progress, progress_of
from tenure.core.signals import Fail, JobCancelled, Retry
from tenure.core.stores import visible
from tenure.runtime.jobs import outcomes
from tenure.runtime.jobs.awaits import Awaits
from tenure.runtime.jobs.members import JobGroup, follow

if TYPE_CHECKING:
    from datetime import timedelta

    from tenure.core.job import Lease
    from tenure.core.outcome import Outcome
    from tenure.core.task import Call, FlowCall
    from tenure.runtime.jobs.held import Batch, Held

_current: ContextVar[Held] = ContextVar("tenure_job")


class JobServices(Struct, frozen=True):
    """The services of the worker that a `Job` calls."""

    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    random: Callable[[], float]
    extend: Callable[[Held, int], Coroutine[Any, Any, bool]]
    progress: Callable[[Held, Progress], None]
    """Callable from any thread."""
    settle: Callable[[Held, Outcome], None]
    extend_now: Callable[[Held, int], bool] | None = None
    """Callable from any thread. None: use `extend`, on the loop."""
    awaits: Awaits = field(default_factory=Awaits)


class Job:
    """The job that a handler is running. Raw handlers get it as their argument; tasks call `current_job()`.

    @app.handler("emails")
    async def send(job: Job) -> None:
        message = parse(job.payload)
    """

    __slots__ = ("_held", "_services")

    def __init__(self, held: Held, services: JobServices) -> None:
        self._held = held
        self._services = services

    def __repr__(self) -> str:
        return f"<Job {self.id!r} of queue {self.queue!r}, attempt {self.attempt}>"

    @property
    def id(self) -> str:
        """The job's id, the same in each attempt."""
        return self._held.lease.record.id

    @property
    def queue(self) -> str:
        """The name of the queue that it was claimed from."""
        return self._held.lease.record.queue

    @property
    def task(self) -> str | None:
        """The task's name; None for a raw payload."""
        return self._held.lease.record.task

    @property
    def payload(self) -> bytes:
        """The bytes of a raw payload; for a task, its encoded arguments."""
        return self._held.lease.record.payload

    @property
    def headers(self) -> Mapping[str, str]:
        """The texts that the producer sent along, by name: `using(headers=...)` and enqueue middleware."""
        return MappingProxyType(visible(self._held.lease.record.headers))

    @property
    def scheduled_for(self) -> datetime | None:
        """The planned time of a schedule's tick (UTC), however late it runs; None if no schedule enqueued the job.

        report(day=current_job().scheduled_for.date())
        """
        ms = self._held.lease.record.scheduled_ms
        return None if ms is None else datetime.fromtimestamp(ms / limits.SECOND, UTC)

    @property
    def lane(self) -> str | None:
        """The job's lane; None without one."""
        return self._held.lease.record.shape.lane

    @property
    def attempt(self) -> int:
        """Counts from 1: earlier failures and crashes, plus this attempt."""
        return self._held.lease.attempt

    @property
    def failures(self) -> int:
        """How many earlier attempts failed."""
        return self._held.lease.failures

    @property
    def crashes(self) -> int:
        """How often a worker died while it held this job."""
        return self._held.lease.crashes

    @property
    def token(self) -> Token:
        """The fencing token, new with every claim of the job. Pass it to systems that refuse an older token."""
        return self._held.lease.token

    @property
    def remaining(self) -> float | None:
        """Seconds until this attempt times out, never below 0; None without a timeout. For a batch, the earliest."""
        ends_at = self._held.run.ends_at
        return None if math.isinf(ends_at) else max(0.0, ends_at - self._services.clock())

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out, by this machine's clock (UTC); None without a timeout."""
        left = self.remaining
        return None if left is None else datetime.fromtimestamp(time.time() + left, UTC)

    @property
    def lost(self) -> bool:
        """True if this attempt is over (lease lost, timed out, or the worker ends): its outcome will not count."""
        return self._held.over

    @property
    def cancelled(self) -> bool:
        """True after a cancel request for this job. For handlers in threads; async handlers are cancelled.

        If the handler returns, its result still counts; if it raises, the job ends in `cancelled`.
        """
        return self._held.cancelled is not None

    def check_cancelled(self) -> None:
        """Raise `JobCancelled`, with the reason, if there was a cancel request for this job.

        for row in rows:
            job.check_cancelled()
            import_row(row)
        """
        reason = self._held.cancelled
        if reason is not None:
            raise JobCancelled(reason)

    def progress(self, current: float, total: float | None = None, text: str = "") -> None:
        """Report the job's progress, for `JobHandle.watch` and the inspector. Never blocks.

        Reports are sent at most ten times a second; the newest replaces older ones, and the last before the end may be
        dropped. Raises `InvalidArgument` for a number that is not finite, a total of 0 or less, or a text that is not a
        str; never for errors of Redis.

        job.progress(120, 500, "rows imported")
        """
        self._services.progress(self._held, progress_of(current, total, text))

    def then(self, *calls: Call | FlowCall) -> None:
        """Enqueue these calls, groups and chains in the step that completes this job, and never otherwise.

            @app.task
            def fetch(url: str) -> None:
                path = download(url)
                current_job().then(parse.call(path), notify.using(queue="mail").call(url))

        They are dropped when this attempt fails, is cancelled or has lost its lease. They may go to any queue, full
        ones too; a unique key decides as at an enqueue, and a delay counts from the completion. Raises
        `InvalidArgument` (also for a persistent job, and for more than 1,000 calls or 1 MiB of payloads in one job),
        `PayloadTooLarge` and `UnsupportedFeature`.
        """
        follow(self._held, "then", calls)

    @property
    def group(self) -> JobGroup:
        """The group that this job is a member of, to add members to it.

        current_job().group.add(visit.call(link))
        """
        return JobGroup(self._held)

    def complete(self, result: object = None) -> None:
        """Complete this job of a batch before the batch has ended. Takes effect at once; allowed once per job.

        Raises `InvalidArgument` outside a batch handler, or if the job already has an outcome.

            for job in jobs:
                send(job.payload)
                job.complete()
        """
        held = self._unanswered("complete")
        self._answer(outcomes.outcome_of_return(held, result, self._services.random))

    def retry(self, delay: float | timedelta | None = None, reason: str = "") -> None:
        """Retry this job of a batch later, as `Retry` does. Otherwise like `complete`.

        job.retry(delay=30, reason="the mail server is busy")
        """
        self._raise("retry", Retry(reason, delay=delay))

    def fail(self, reason: str = "") -> None:
        """End this job of a batch in `failed`, as `Fail` does. Otherwise like `complete`.

        job.fail("no such customer")
        """
        self._raise("fail", Fail(reason))

    def _raise(self, name: str, error: Retry | Fail) -> None:
        held = self._unanswered(name)
        self._answer(outcomes.outcome_of_error(held, error, self._services.random))

    def _unanswered(self, name: str) -> Held:
        held = self._held
        if held.batch is None:
            raise InvalidArgument(f"{name}() is for the handlers of batches. Return or raise to end this job.")
        if held.answered:
            raise InvalidArgument(f"{name}(): job {held.ref.id!r} already has an outcome.")
        return held

    def _answer(self, outcome: Outcome) -> None:
        # Set here and not on the loop: a thread may return before the loop has settled the job.
        self._held.answered = True
        if _running_loop() is self._services.loop:
            self._services.settle(self._held, outcome)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._services.loop.call_soon_threadsafe(self._services.settle, self._held, outcome)

    def extend(self, seconds: float) -> bool:
        """Extend this attempt to `seconds` from now. In async handlers use `await job.aextend(...)`.

        Returns False if the lease was lost. Raises `InvalidArgument` for a number of 0 or less, or on the event loop.

            if not job.extend(60):
                return
        """
        ms = _milliseconds(seconds)
        if self._services.extend_now is not None:
            return self._services.extend_now(self._held, ms)
        if _running_loop() is self._services.loop:
            raise InvalidArgument("extend() would block the event loop. In async code use `await job.aextend(...)`.")
        extension, loop = self._services.extend(self._held, ms), self._services.loop
        if not loop.is_running():  # in a test: it stands still while a sync handler runs in its thread
            return loop.run_until_complete(extension)
        return asyncio.run_coroutine_threadsafe(extension, loop).result()

    async def aextend(self, seconds: float) -> bool:
        """Extend this attempt to `seconds` from now: the async version of `extend`.

        await job.aextend(60)
        """
        return await self._services.extend(self._held, _milliseconds(seconds))


def current_job() -> Job | None:
    """Return the job that the calling code runs for; None outside a handler.

    job = current_job()
    log.info("attempt %s", job.attempt if job else "none")
    """
    held = _current.get(None)
    return None if held is None else job_of(held)


def awaiting(task: str | None, id: str) -> contextlib.AbstractContextManager[None]:
    """Note that the running job, if there is one, waits for the result of this job."""
    held = _current.get(None)
    return contextlib.nullcontext() if held is None else held.services.awaits.wait(held, task, id)


def check_cancelled() -> None:
    """Raise `JobCancelled`, with the reason, if there was a cancel request for the running job.

        for row in rows:
            tenure.check_cancelled()
            load(row)

    For handlers in threads; async handlers are cancelled as any asyncio task is. Outside a job it does nothing, so that
    a task can be called as a plain function.
    """
    job = current_job()
    if job is not None:
        job.check_cancelled()


def must_stop() -> bool:
    """Return whether the running job must end: it is being cancelled, or its attempt is over (`Job.lost`).

        while not tenure.must_stop():
            poll(feed)

    For long handlers in threads, above all for persistent jobs; async handlers are cancelled. Outside a job it
    returns False.
    """
    job = current_job()
    return job is not None and (job.cancelled or job.lost)


def progress(current: float, total: float | None = None, text: str = "") -> None:
    """Report the progress of the running job; see `Job.progress`.

        tenure.progress(120, 500, "rows imported")

    Outside a job it does nothing. In a job it raises `InvalidArgument` for a number that is not finite, a total of 0 or
    less, or a text that is not a str.
    """
    job = current_job()
    if job is not None:
        job.progress(current, total, text)


def then(*calls: Call | FlowCall) -> None:
    """Enqueue these calls, groups and chains in the step that completes the running job; see `Job.then`.

        @app.task
        def fetch(url: str) -> None:
            tenure.then(parse.call(download(url)))

    Raises `InvalidArgument` outside a job, where nothing completes.
    """
    job = current_job()
    if job is None:
        raise InvalidArgument("then() is for the handlers of jobs: it enqueues when the running job completes.")
    job.then(*calls)


def run_of(job: Job) -> Held | Batch:
    """Return the holder of the job's slot. For the worker, not for handlers."""
    return job._held.run


def lease_of(job: Job) -> Lease:
    """Return the lease of a job that runs here. For integrations, not for handlers."""
    return job._held.lease


def job_of(held: Held) -> Job:
    """Return the job that the handler gets, the same each time. Most handlers never ask for theirs."""
    job: Job = held.job or new_job(held, held.services)
    return job


def new_job(held: Held, services: JobServices) -> Job:
    """Make the job that `job_of` returns from now on."""
    held.job = job = Job(held, services)
    return job


def enter(held: Held) -> None:
    """Set the current job of the calling context, which ends with the job."""
    _current.set(held)


def _milliseconds(seconds: float) -> int:
    if not 0 < seconds * limits.SECOND <= limits.MAX_LEASE_MS:
        most = limits.MAX_LEASE_MS // limits.SECOND
        raise invalid("seconds", f"above 0 and up to {most:,}", repr(seconds))
    return max(1, round(seconds * limits.SECOND))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
