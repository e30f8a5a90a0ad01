"""When the keeper gives a job up: it is held much longer than it may run, so what runs it is wedged.

The keeper measures this on its own monotonic clock. A step of the clock of Redis takes no job from a living worker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct, field

from tenure.core import limits
from tenure.core.engine import FullEngine, HeartbeatReply
from tenure.core.errors import TenureError, Unreachable
from tenure.core.job import JobRecord, JobView, Lease, LeaseRef
from tenure.core.outcome import Crashed
from tenure.core.steps import Steps

GRACE_S: Final = limits.OVERDUE_GRACE_MS / limits.SECOND
LOOKS_MOST: Final = 10
"""The most jobs for which one heartbeat asks for the timeouts."""


class Timeouts(Struct, frozen=True):
    """How long a job may run that has no timeout of its own, in milliseconds: calls of tasks by the task's name, raw
    payloads by their queue. 0: no limit."""

    tasks: Mapping[str, int] = field(default_factory=dict)
    queues: Mapping[str, int] = field(default_factory=dict)

    def of(self, job: JobView) -> int:
        """The timeout of a job; 0: it has none, or nothing here runs it."""
        if job.timeout_ms is not None:
            return job.timeout_ms
        return self.queues.get(job.queue, 0) if job.task is None else self.tasks.get(job.task, 0)


@dataclass(slots=True)
class _Unreported:
    """A lease that the worker has not reported. `ends_at` None: its timeout has not been asked for."""

    since: float
    ends_at: float | None = None


class Overdue:
    """Beats for one worker, and gives up what it has held for too long. Times are seconds of the monotonic clock.

    A worker reports its leases with each beat. A handler that blocks the event loop at once keeps its own lease from
    being reported. Redis names such leases, and the keeper asks Redis for their timeouts.
    """

    def __init__(self, engine: FullEngine, worker: str, timeouts: Timeouts) -> None:
        self._engine = engine
        self._worker = worker
        self._timeouts = timeouts
        self._unreported: dict[LeaseRef, _Unreported] = {}
        self.leases: Mapping[LeaseRef, float] = {}
        """What the worker holds, and when each lease is to be given up."""

    def beat(self, queue: str, now: float) -> Steps[tuple[HeartbeatReply, str]]:
        """Keep the leases of a queue, after the overdue ones were released as crashed.

        The answer has also why Redis refused to give some back. The others are kept nevertheless.
        """
        refused = yield from refusal(self._give_up(queue, now))
        asked = [ref for ref in self.leases if ref.queue == queue]
        beat = yield from self._engine.heartbeat(self._worker, (queue,), asked)
        refused = (yield from refusal(self._look_at(queue, beat.orphaned, now))) or refused
        return beat, refused

    def _give_up(self, queue: str, now: float) -> Steps[None]:
        late = [ref for ref, ends_at in self.leases.items() if ref.queue == queue and ends_at <= now]
        late += [
            ref
            for ref, one in self._unreported.items()
            if ref.queue == queue and one.ends_at is not None and one.ends_at <= now and ref not in self.leases
        ]
        if late:
            yield from self._engine.settle([(lease_of(self._worker, ref), Crashed()) for ref in late])

    def _look_at(self, queue: str, orphaned: Sequence[Lease], now: float) -> Steps[None]:
        """Remember since when leases are unreported. No job can be overdue before the grace has passed."""
        before = self._unreported
        self._unreported = {ref: one for ref, one in before.items() if ref.queue != queue}
        self._unreported |= {lease.ref: before.get(lease.ref) or _Unreported(now) for lease in orphaned}
        old = [ref for ref, one in self._unreported.items() if one.ends_at is None and now - one.since >= GRACE_S]
        for ref in [ref for ref in old if ref.queue == queue][:LOOKS_MOST]:
            job = yield from self._engine.job(queue, ref.id)
            timeout_ms = 0 if job is None else self._timeouts.of(job)
            one = self._unreported[ref]
            one.ends_at = one.since + timeout_ms / limits.SECOND + GRACE_S if timeout_ms else math.inf


def lease_of(worker: str, ref: LeaseRef) -> Lease:
    """Return enough of a lease to settle it."""
    record = JobRecord(ref.id, ref.queue, b"", 0)
    return Lease(worker, ref.token, record, 0, 0, partition=ref.partition)


def refusal(steps: Steps[Any]) -> Steps[str]:
    """Why Redis refuses this, or nothing: another program's key in one place must not cost the other leases."""
    try:
        yield from steps
    except Unreachable:
        raise
    except TenureError as error:
        return f"{type(error).__name__}: {error}"
    return ""
