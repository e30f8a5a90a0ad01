"""Manual leases: what `Queue.lease` and `Queue.alease` return."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias

from leasehold.core.errors import InvalidArgument, LeaseholdError, LeaseLost, invalid
from leasehold.core.job import Lease, Token

_log = logging.getLogger("leasehold")
_NOT_RELEASED = "job %r could not be released; it runs again after its lease expires"


class LeasedFrom(Protocol):
    """The queue of a leased job. It settles the job."""

    def complete(self, job: HeldJob, /) -> bool: ...
    async def acomplete(self, job: HeldJob, /) -> bool: ...
    def release(self, job: HeldJob, /) -> bool: ...
    async def arelease(self, job: HeldJob, /) -> bool: ...


class HeldJob:
    """A job on a manual lease. True in a condition. `with` completes it at the end, or releases it after an error."""

    __slots__ = ("_queue", "_settled", "lease")

    def __init__(self, queue: LeasedFrom, lease: Lease) -> None:
        self.lease = lease
        self._queue = queue
        self._settled = False

    def __repr__(self) -> str:
        return f"<HeldJob {self.id!r} of queue {self.queue!r}, attempt {self.attempt}>"

    def __bool__(self) -> Literal[True]:
        return True

    @property
    def id(self) -> str:
        return self.lease.record.id

    @property
    def queue(self) -> str:
        return self.lease.record.queue

    @property
    def task(self) -> str | None:
        """The task's name; None for a raw payload."""
        return self.lease.record.task

    @property
    def payload(self) -> bytes:
        return self.lease.record.payload

    @property
    def attempt(self) -> int:
        """Counts from 1: earlier failures and crashes, plus this attempt."""
        return self.lease.attempt

    @property
    def token(self) -> Token:
        """The fencing token, new with every claim of the job."""
        return self.lease.token

    @property
    def settled(self) -> bool:
        """Whether `complete`, `retry`, `fail` or `release` was called with this job, even if it returned False."""
        return self._settled

    def mark_settled(self) -> None:
        """Called by `Queue` after settling: the end of a `with` block then does nothing."""
        self._settled = True

    def __enter__(self) -> HeldJob:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._settled:
            return
        if error is None:
            check_completed(self, self._queue.complete(self))
            return
        try:
            self._queue.release(self)
        except LeaseholdError:
            _log.warning(_NOT_RELEASED, self.id)


class NoJob:
    """What `lease` returns if there is no job: false in a condition, and `with` binds None."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<NoJob>"

    def __bool__(self) -> Literal[False]:
        return False

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None


MaybeJob: TypeAlias = HeldJob | NoJob


class PendingLease:
    """What `alease` returns: `await` it for the job, or use it in `async with`."""

    def __init__(self, queue: LeasedFrom, lease: Callable[[], Generator[Any, Any, MaybeJob]]) -> None:
        self._queue = queue
        self._lease = lease
        self._job: MaybeJob = NoJob()

    def __await__(self) -> Generator[Any, Any, MaybeJob]:
        return self._lease()

    async def __aenter__(self) -> HeldJob | None:
        self._job = await self
        return self._job or None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        job = self._job
        if not job or job.settled:
            return
        if error is None:
            check_completed(job, await self._queue.acomplete(job))
            return
        try:
            await self._queue.arelease(job)
        except LeaseholdError:
            _log.warning(_NOT_RELEASED, job.id)


def held_of(queue: str, job: object) -> None:
    """Refuse anything but a held job of this queue: raise `InvalidArgument`."""
    if isinstance(job, NoJob):
        raise InvalidArgument("There was no job to lease, so there is nothing to settle. Check first: `if job:`.")
    if not isinstance(job, HeldJob):
        raise invalid("job", f"one that `lease` of queue {queue!r} returned", type(job).__name__)
    if job.queue != queue:
        raise invalid("job", f"one of queue {queue!r}", f"one of {job.queue!r}", f"Use app.queue({job.queue!r}).")


def check_completed(job: HeldJob, completed: bool) -> None:
    """Raise `LeaseLost` if the `with` block ended after the lease."""
    if not completed:
        raise LeaseLost(
            f"The lease of job {job.id!r} expired before its block ended, so the job runs again. Lease it for longer, "
            "or call `extend` in time."
        )
