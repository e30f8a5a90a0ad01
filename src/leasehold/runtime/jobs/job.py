"""What a handler sees of its job: `Job`, and `current_job()` for code that was not handed it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import Token
from leasehold.core.shape import Progress, progress_of
from leasehold.core.signals import Fail, JobCancelled, Retry
from leasehold.runtime.jobs import outcomes

if TYPE_CHECKING:
    from datetime import timedelta

    from leasehold.core.outcome import Outcome
    from leasehold.runtime.jobs.held import Batch, Held

PROGRESS_MS: Final = 100
"""Progress is reported at most this often. In between only the newest report is kept."""

_current: ContextVar[Job] = ContextVar("leasehold_job")


@dataclass(frozen=True, slots=True)
class JobServices:
    """How a `Job` reaches its worker."""

    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    random: Callable[[], float]
    extend: Callable[[Held, int], Coroutine[Any, Any, bool]]
    progress: Callable[[Held, Progress], None]
    """From any thread."""
    settle: Callable[[Held, Outcome], None]
    extend_now: Callable[[Held, int], bool] | None = None
    """From any thread. None: by `extend`, on the loop."""


class Job:
    """The job that a handler is running. Raw handlers get it as their argument, tasks ask `current_job()` for it.

    @app.handler("emails")
    async def send(job: Job) -> None:
        message = parse(job.payload)
    """

    __slots__ = ("_held", "_reach")

    def __init__(self, held: Held, reach: JobServices) -> None:
        self._held = held
        self._reach = reach

    def __repr__(self) -> str:
        return f"<Job {self.id!r} of queue {self.queue!r}, attempt {self.attempt}>"

    @property
    def id(self) -> str:
        return self._held.lease.record.id

    @property
    def queue(self) -> str:
        return self._held.lease.record.queue

    @property
    def task(self) -> str | None:
        """The task's name; None for a raw payload."""
        return self._held.lease.record.task

    @property
    def payload(self) -> bytes:
        return self._held.lease.record.payload

    @property
    def lane(self) -> str | None:
        return self._held.lease.record.shape.lane

    @property
    def attempt(self) -> int:
        """Counts from 1: earlier failures and crashes, plus this run."""
        return self._held.lease.attempt

    @property
    def failures(self) -> int:
        return self._held.lease.failures

    @property
    def crashes(self) -> int:
        """How often a worker died while it held this job."""
        return self._held.lease.crashes

    @property
    def token(self) -> Token:
        """The fencing token: grows with every claim of the job. Give it to systems that can refuse an older one."""
        return self._held.lease.token

    @property
    def remaining(self) -> float | None:
        """Seconds until this attempt's timeout, never below 0; None without a timeout. Of a batch, the earliest."""
        ends_at = self._held.run.ends_at
        return None if math.isinf(ends_at) else max(0.0, ends_at - self._reach.clock())

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out, by this machine's clock (UTC); None without a timeout."""
        left = self.remaining
        return None if left is None else datetime.fromtimestamp(time.time() + left, UTC)

    @property
    def lost(self) -> bool:
        """True when this attempt is over (lost, timed out, or at the worker's end): what is done now will not count."""
        return self._held.over

    @property
    def cancelled(self) -> bool:
        """True when somebody asked for this job to be cancelled. For sync handlers; async ones are cancelled.

        What the handler returns still counts; if it raises, the job ends in `cancelled`.
        """
        return self._held.cancelled is not None

    def check_cancelled(self) -> None:
        """Raise `JobCancelled` if somebody asked for this job to be cancelled, with the reason.

        for row in rows:
            job.check_cancelled()
            import_row(row)
        """
        reason = self._held.cancelled
        if reason is not None:
            raise JobCancelled(reason)

    def progress(self, current: float, total: float | None = None, text: str = "") -> None:
        """Say how far the job is, for whoever looks. For sync and async handlers: it never blocks.

        It is told at most ten times a second, the newest wins, and the last before the end may be left out. Raises
        `InvalidArgument` for numbers that are not finite, a total that is not above 0, and a text that is none; never
        for trouble with Redis.

        job.progress(120, 500, "rows imported")
        """
        self._reach.progress(self._held, progress_of(current, total, text))

    def complete(self, result: object = None) -> None:
        """Answer for this job of a batch, before the batch has ended: it is completed. At once, and only once.

        Raises `InvalidArgument` outside of a batch handler, and when the job was answered before.

            for job in jobs:
                send(job.payload)
                job.complete()
        """
        held = self._unanswered("complete")
        self._answer(outcomes.outcome_of_return(held.spec, held.lease, result, self._reach.random, held.cancelled))

    def retry(self, delay: float | timedelta | None = None, reason: str = "") -> None:
        """Answer for this job of a batch: run it again later, as `Retry` does. Else like `complete`.

        job.retry(delay=30, reason="the mail server is busy")
        """
        self._judge("retry", Retry(reason, delay=delay))

    def fail(self, reason: str = "") -> None:
        """Answer for this job of a batch: it ends in `failed`, as with `Fail`. Else like `complete`.

        job.fail("no such customer")
        """
        self._judge("fail", Fail(reason))

    def _judge(self, name: str, error: Retry | Fail) -> None:
        held = self._unanswered(name)
        self._answer(outcomes.outcome_of_error(held.spec, held.lease, error, self._reach.random, held.cancelled))

    def _unanswered(self, name: str) -> Held:
        held = self._held
        if held.batch is None:
            raise InvalidArgument(f"{name}() is for the handlers of batches; return or raise to end this job.")
        if held.answered:
            raise InvalidArgument(f"{name}(): job {held.ref.id!r} has been answered already.")
        return held

    def _answer(self, outcome: Outcome) -> None:
        # Marked here and not on the loop: a thread may return before the loop has settled it.
        self._held.answered = True
        if _running_loop() is self._reach.loop:
            self._reach.settle(self._held, outcome)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._reach.loop.call_soon_threadsafe(self._reach.settle, self._held, outcome)

    def extend(self, seconds: float) -> bool:
        """Let this attempt go on for `seconds` from now. For sync handlers; async ones use `await job.aextend(...)`.

        False: the job is no longer ours. Raises `InvalidArgument` for a number that is not above 0, or when called on
        the event loop.

            if not job.extend(60):
                return
        """
        ms = _milliseconds(seconds)
        if self._reach.extend_now is not None:
            return self._reach.extend_now(self._held, ms)
        if _running_loop() is self._reach.loop:
            raise InvalidArgument("extend() would block the event loop; in async code use `await job.aextend(...)`.")
        return asyncio.run_coroutine_threadsafe(self._reach.extend(self._held, ms), self._reach.loop).result()

    async def aextend(self, seconds: float) -> bool:
        """Let this attempt go on for `seconds` from now. The twin of `extend` for async handlers.

        await job.aextend(60)
        """
        return await self._reach.extend(self._held, _milliseconds(seconds))


def current_job() -> Job | None:
    """The job that the calling code runs for; None outside of a handler.

    job = current_job()
    log.info("attempt %s", job.attempt if job else "by hand")
    """
    return _current.get(None)


def run_of(job: Job) -> Held | Batch:
    """What occupies the slot that the job runs in. For the worker, not for handlers."""
    return job._held.run


def enter(job: Job) -> None:
    """Make it the current job of the calling context. The context ends with the job, so nothing is reset."""
    _current.set(job)


def _milliseconds(seconds: float) -> int:
    if not 0 < seconds * limits.SECOND <= limits.MAX_LEASE_MS:
        most = limits.MAX_LEASE_MS // limits.SECOND
        raise InvalidArgument(f"extend({seconds!r}): expected seconds above 0 and up to {most:,}.")
    return max(1, round(seconds * limits.SECOND))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
