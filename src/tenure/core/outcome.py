"""Outcomes of an attempt. A worker settles a lease with exactly one of these.

Tagged structs: a job process sends its outcome to the worker in a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from tenure.core.flows import NewFlow, jobs_of
from tenure.core.job import ErrorInfo, LeaseRef, NewJob
from tenure.core.limits import COMPLETED_TTL_MS


class Completed(Struct, frozen=True, gc=False, tag=True):
    """The handler returned. `result` is encoded; with `result_ttl_ms` 0 no record is kept.

    `follow`, `flows`: jobs and flows that are enqueued in the step that completes this one. They need `Feature.FLOWS`.
    Those without an id are added to the group of this job.
    """

    result: bytes = b""
    result_ttl_ms: int = COMPLETED_TTL_MS
    follow: tuple[NewJob, ...] = ()
    flows: tuple[NewFlow, ...] = ()

    def jobs_after(self) -> Iterator[NewJob]:
        """All jobs that follow this one, those in flows too."""
        return chain(self.follow, jobs_of(*self.flows))


class Retried(Struct, frozen=True, gc=False, tag=True):
    """The attempt failed; the job runs again after `delay_ms`. Counts as a failure, unless it is `deferred`.

    `limit`: of a deferred job, the limit that rests for `delay_ms`: no job of it starts. If the job has that limit, it
    returns to the front of its line. Engines without `Feature.SNOOZE` count a deferred job as a failure.
    """

    error: ErrorInfo
    delay_ms: int = 0
    deferred: bool = False
    limit: str | None = None


class Failed(Struct, frozen=True, gc=False, tag=True):
    """The job failed for good."""

    error: ErrorInfo


class Broken(Struct, frozen=True, gc=False, tag=True):
    """The job cannot be processed (its bytes do not decode). It is kept whole, with the reason."""

    error: ErrorInfo


class Released(Struct, frozen=True, gc=False, tag=True):
    """The job returned to the front of its queue unchanged. The attempt does not count."""


class Crashed(Struct, frozen=True, gc=False, tag=True):
    """The job's process died and its worker lives. Counts and releases the job as the worker's own death would."""


class Unroutable(Struct, frozen=True, gc=False, tag=True):
    """This worker has no handler for the job's task. The job is parked; the attempt does not count."""


class Cancelled(Struct, frozen=True, gc=False, tag=True):
    """A user or the handler cancelled the job."""

    reason: str = ""


Outcome: TypeAlias = Completed | Retried | Failed | Broken | Released | Crashed | Unroutable | Cancelled

TimedOut: TypeAlias = Sequence[tuple[LeaseRef, Failed | Retried | Cancelled]]
"""Outcomes that timeouts have decided, for the keeper to settle when the worker's process has ended."""
