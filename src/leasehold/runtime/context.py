"""What a handler sees of its job: `Job`, and `current_job()` for code that was not handed it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import Token
from leasehold.runtime.inflight import Phase

if TYPE_CHECKING:
    from leasehold.runtime.inflight import Held

_current: ContextVar[Job] = ContextVar("leasehold_job")


@dataclass(frozen=True, slots=True)
class Reach:
    """How a `Job` reaches its worker."""

    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    extend: Callable[[Held, int], Coroutine[Any, Any, bool]]


class Job:
    """The job that a handler is running. Raw handlers get it as their argument, tasks ask `current_job()` for it.

    @app.handler("emails")
    async def send(job: Job) -> None:
        message = parse(job.payload)
    """

    __slots__ = ("_held", "_reach")

    def __init__(self, held: Held, reach: Reach) -> None:
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
        """Seconds until this attempt's timeout, never below 0; None without a timeout."""
        ends_at = self._held.ends_at
        return None if math.isinf(ends_at) else max(0.0, ends_at - self._reach.clock())

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out, by this machine's clock (UTC); None without a timeout."""
        left = self.remaining
        return None if left is None else datetime.fromtimestamp(time.time() + left, UTC)

    @property
    def lost(self) -> bool:
        """True when this attempt is over (lost, timed out, or at the worker's end): what is done now will not count."""
        return self._held.phase is Phase.LOST or self._held.stop is not None

    def extend(self, seconds: float) -> bool:
        """Let this attempt go on for `seconds` from now. For sync handlers; async ones use `await job.aextend(...)`.

        False: the job is no longer ours. Raises `InvalidArgument` for a number that is not above 0, or when called on
        the event loop.

            if not job.extend(60):
                return
        """
        ms = _milliseconds(seconds)
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
