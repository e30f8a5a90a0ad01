"""The seam between what works (clients, workers) and how jobs lie in Redis (engines).

An engine does no I/O: its operations are `Steps` that a driver runs. It is split by who needs it: a producer and a
worker need `Engine`, people looking need `Inspector`, people acting need `Controller`.

Rules, each a conformance test: `settle` is conditional and idempotent; `lease` never returns more than its limit; a
crash before or after any call leaves every job where `maintain` finds it within one period; nobody writes after losing
the lease.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from leasehold.core import limits
from leasehold.core.job import (
    Enqueued,
    JobView,
    Lease,
    Leased,
    LeaseRef,
    NewJob,
    Page,
    QueueView,
    State,
    WorkerView,
)
from leasehold.core.outcome import Outcome
from leasehold.core.steps import Steps


class Feature(StrEnum):
    """What a wire format can hold. An engine refuses a feature it does not claim, never ignores it."""

    DELAY = "delay"
    OWN_ID = "own_id"
    TASKS = "tasks"
    RESULTS = "results"
    TIMEOUT = "timeout"
    RETRIES = "retries"
    COUNTS = "counts"
    """Failures and crashes are counted, apart."""
    RECORDS = "records"
    """Failed and broken jobs are kept."""
    UNROUTABLE = "unroutable"
    EXTEND = "extend"


@dataclass(frozen=True, slots=True)
class Timing:
    """How often an engine wants to be called, in milliseconds."""

    beat_ms: int = limits.BEAT_MS
    lease_ms: int = limits.LEASE_MS
    grace_ms: int = limits.GRACE_MS
    idle_wait_ms: int = limits.IDLE_WAIT_MS
    maintain_ms: int = limits.MAINTAIN_MS
    presence_ms: int = limits.PRESENCE_MS


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a beat brought back.

    lost: of the leases asked about, those that are ours no longer.
    strays: held in our name by Redis, yet not among the leases asked about. They may be claims that are newer than the
        question; one that is a stray twice in a row and unknown to the worker was lost on its way: release it.
    next_ms: how long until something may be due on one of these queues (a dead worker's jobs); None: unknown.
    """

    lost: frozenset[LeaseRef] = frozenset()
    strays: tuple[Lease, ...] = ()
    next_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Maintained:
    """How many jobs one round of maintenance moved. `more`: the limit was reached, call again soon."""

    promoted: int = 0
    reclaimed: int = 0
    pruned: int = 0
    unparked: int = 0
    more: bool = False


class Engine(Protocol):
    """How one wire format does what producers and workers need."""

    @property
    def name(self) -> str: ...
    @property
    def features(self) -> frozenset[Feature]: ...
    @property
    def timing(self) -> Timing: ...

    def enqueue(self, jobs: Sequence[NewJob]) -> Steps[list[Enqueued]]:
        """Add jobs. The answers come in the order of the jobs. Raises `QueueFull` when Redis is out of memory."""
        ...

    def lease(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        lease_ms: int | None = None,
        slots: int = limits.MAX_HELD,
    ) -> Steps[Leased]:
        """Claim up to `limit` jobs, looking at the queues in the order given. Never blocks.

        `lease_ms` None: as long as the worker's heartbeat; else for this long (a lease by hand, without a keeper, in
        the name of a worker of its own). `slots`: how many jobs the worker runs at one time. What it claims ahead of
        them and has not begun does not count as crashed when it dies.
        """
        ...

    def wait(self, queues: Sequence[str], timeout_ms: int) -> Steps[str | None]:
        """Block until one of the queues may have work, and say which; None after `timeout_ms`. Takes nothing away.

        A hint: it may be lost, and a job may be gone by the time of the claim.
        """
        ...

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        """End leases. False: it was ours no longer, and nothing was changed."""
        ...

    def extend(self, lease: Lease, ms: int) -> Steps[bool]:
        """Let the job be held for `ms` from now. False: it was ours no longer."""
        ...

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Steps[Heartbeat]:
        """Keep all leases of the worker on these queues, and reclaim those of workers that died."""
        ...

    def leave(self, worker: str, queues: Sequence[str]) -> Steps[int]:
        """Give back all that the worker holds, to the front, attempts unchanged, and announce it no longer.

        Answers how many jobs were given back.
        """
        ...

    def maintain(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int = limits.TEND_LIMIT,
        raw_queues: Collection[str] = (),
    ) -> Steps[Maintained]:
        """Reclaim, promote, prune, and unpark what can be run here: at most `limit` of each on each queue.

        That is jobs of these tasks, and raw payloads of the queues for which there is a handler (`raw_queues`).
        """
        ...

    def announce(self, worker: WorkerView) -> Steps[None]:
        """Show the worker to the inspector for a while (`limits.PRESENCE_TTL_MS`)."""
        ...

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        """The job if it has ended or is unknown (None); else its view, and its end will be published for some seconds.

        The end is published on `result_channel`; the message may be lost, so ask again now and then.
        """
        ...

    def result_channel(self, queue: str, id: str) -> str: ...


class Inspector(Protocol):
    """Reading. Nothing here changes a job."""

    def queues(self) -> Steps[list[str]]:
        """The names of the queues that exist."""
        ...

    def queue(self, name: str) -> Steps[QueueView]: ...

    def job(self, queue: str, id: str) -> Steps[JobView | None]: ...

    def page(self, queue: str, state: State, offset: int = 0, limit: int = limits.PAGE_MAX) -> Steps[Page]:
        """Jobs in one state: those that wait in the order in which they will run, ended ones newest first."""
        ...

    def workers(self) -> Steps[list[WorkerView]]: ...


class Controller(Protocol):
    """Acting on jobs from outside."""

    def retry(self, queue: str, id: str) -> Steps[bool]:
        """Run a failed, broken, cancelled, scheduled or unroutable job now; its counts start again."""
        ...

    def discard(self, queue: str, id: str) -> Steps[bool]:
        """Remove a job that is not active, with all its records."""
        ...

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[bool]:
        """End a job that waits (ready, scheduled, unroutable) in `cancelled`."""
        ...

    def purge(self, queue: str, state: State) -> Steps[int]:
        """Remove all jobs in one state other than active; answers how many."""
        ...
