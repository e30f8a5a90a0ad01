"""The interface of an engine: how one wire format keeps jobs in Redis.

An engine does no I/O: its operations are `Steps` that a driver runs. Producers and workers need an `Engine`, clients
that inspect and control jobs a `FullEngine`.

Rules, each a conformance test: `settle` is conditional and idempotent; `lease` never returns more than its limit; a
crash before or after any call leaves every job where `maintain` finds it within one period; a worker writes nothing
after it has lost the lease.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

from tenure.core import limits
from tenure.core.features import Feature as Feature
from tenure.core.features import Trait as Trait
from tenure.core.job import Enqueued, JobView, Lease, Leased, LeaseRef, NewJob, Page, QueueView, Refused, State
from tenure.core.outcome import Outcome
from tenure.core.ports import Ports
from tenure.core.shape import CancelAnswer, CancelCount, QueueSettings, Shape
from tenure.core.steps import Steps
from tenure.core.waiting import Wait
from tenure.core.why import JobFacts
from tenure.core.worker_view import WorkerView

BEAT_MS: Final = 500
"""A worker that holds jobs sends a heartbeat this often."""
LEASE_MS: Final = 1_800
"""A worker without a heartbeat for this long is suspected."""
GRACE_MS: Final = 800
"""A suspected worker that is still silent after this time loses its jobs: 2.6 s after its last heartbeat."""
MAINTAIN_MS: Final = 5_000
"""How often a worker does the housekeeping of its queues."""
PRESENCE_MS: Final = 10_000
"""How often a worker shows itself to the inspector."""
SHOW_STACKS: Final = b"\0stacks"
"""The message that asks a worker for the stacks of its handlers. No queue has such a name."""
AUDIT_MAX: Final = 1_000
"""Entries of the audit that are kept."""
STEADY_MS: Final = 15 * limits.SECOND
"""A job that has run for longer is not blamed for a death that follows the start of another job."""


class Alone(StrEnum):
    """Whether a worker can run a job alone now, and the kind of that claim: see decision 0008."""

    NOW = "x"
    """Nothing runs in the worker that could be to blame for its death."""
    BESIDE = "y"
    """Suspects run that have run for long: the death of the worker would not be the job's own for certain."""
    NO = ""
    """Something runs that started less than `Timing.steady_ms` ago, all slots are busy, or it is the turn of others."""


class Timing(Struct, frozen=True):
    """How often an engine wants to be called, in milliseconds."""

    beat_ms: int = BEAT_MS
    lease_ms: int = LEASE_MS
    grace_ms: int = GRACE_MS
    idle_wait_ms: int = limits.IDLE_WAIT_MS
    maintain_ms: int = MAINTAIN_MS
    presence_ms: int = PRESENCE_MS
    steady_ms: int = STEADY_MS


class CancelAsked(Struct, frozen=True):
    """A request to cancel a held job, and its reason."""

    ref: LeaseRef
    reason: str = ""


class HeartbeatReply(Struct, frozen=True):
    """The reply to a heartbeat.

    lost: of the given leases, those that the worker has lost.
    orphaned: other leases of this worker in Redis, in the order of their claims. It may be newer than the heartbeat;
        an orphan that two heartbeats in a row report and that the worker does not know was lost on its way: release it.
    next_ms: how long until something may be due on one of these queues (a dead worker's jobs); None: unknown.
    cancelled: the cancel requests for the given leases, repeated with every heartbeat.
    paused: of the queues on which the worker holds jobs, those that are paused.
    """

    lost: frozenset[LeaseRef] = frozenset()
    orphaned: tuple[Lease, ...] = ()
    next_ms: int | None = None
    cancelled: tuple[CancelAsked, ...] = ()
    paused: frozenset[str] = frozenset()


class Maintained(Struct, frozen=True):
    """How many jobs one round of maintenance moved. `more`: the limit was reached, call again soon.

    `poisoned`: jobs that ended in `broken` since the last call, because they crashed too often; each is named once, and
    not at all when the answer is lost. `next_ms`: how long until the next round should be; -1 for no wish. `tick_ms`:
    until a schedule of the queues is due; None: they have no schedules. `refused`: other queues that do not take the
    jobs that are on their way to them.
    """

    promoted: int = 0
    reclaimed: int = 0
    pruned: int = 0
    unparked: int = 0
    more: bool = False
    poisoned: tuple[JobView, ...] = ()
    next_ms: int = -1
    tick_ms: int | None = None
    refused: tuple[Refused, ...] = ()


class Engine(Ports, Protocol):
    """The operations of producers and workers on one wire format, and the ports that it has."""

    @property
    def name(self) -> str: ...
    @property
    def features(self) -> frozenset[Feature]: ...
    @property
    def traits(self) -> frozenset[Trait]: ...
    @property
    def timing(self) -> Timing: ...

    def enqueue(self, jobs: Sequence[NewJob]) -> Steps[list[Enqueued]]:
        """Add jobs. The answers come in the order of the jobs.

        Raises `QueueFull` when Redis is out of memory, or when not all of them fit below the queue's maximum length.
        """

    def lease(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        lease_ms: int | None = None,
        slots: int = limits.MAX_HELD,
        of_lane: Mapping[str, int] | None = None,
        alone: Alone = Alone.NOW,
    ) -> Steps[Leased]:
        """Claim up to `limit` jobs, looking at the queues in the order given. Never blocks.

        `of_lane`: for each queue, how many consecutive jobs of a lane may be claimed together, as one batch of one
        task; 1 for other queues. `lease_ms`: how long a manual lease lasts, without a keeper, in the name of a worker
        of its own; None: as long as the worker sends heartbeats. `slots`: how many jobs the worker runs at a time.
        Jobs that it claims beyond them and has not started do not count as crashed when it dies. `alone`: whether a job
        may be claimed that has to run alone. No other job is claimed with it, and the worker claims nothing else for
        `Lease.alone_ms`.
        """

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Wait:
        """How this worker waits for at most `timeout_ms`. If it can wait for one queue only, it is the first."""

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        """End leases. False: the worker had lost it, and nothing was changed.

        All members of a group (`Lease.group`) are in one call. They end together: one lost lease is the answer for all.
        """

    def extend(self, lease: Lease, ms: int) -> Steps[bool]:
        """Extend the lease to `ms` from now. False: the worker had lost it."""

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Steps[HeartbeatReply]:
        """Extend all leases of the worker on these queues, and reclaim the leases of workers that died."""

    def leave(self, worker: str, queues: Sequence[str], crashed: bool = False) -> Steps[int]:
        """Release all jobs of the worker to the front, attempts unchanged, and remove its announcement.

        `crashed`: the caller knows that the worker is dead, so each job that it may have been running counts a crash.
        Return how many jobs were released, or ended in `broken` for too many crashes.
        """

    def maintain(
        self,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int = limits.TEND_LIMIT,
        raw_queues: Collection[str] = (),
    ) -> Steps[Maintained]:
        """Reclaim, promote, prune and unpark at most `limit` jobs each on each queue.

        Unparked are jobs of these tasks, and raw payloads of the queues that have a handler (`raw_queues`).
        """

    def announce(self, worker: WorkerView) -> Steps[bool]:
        """Show the worker to the inspector for a while (the engine's `PRESENCE_TTL_MS`). True: it is to be quiet."""

    def signal_channel(self, worker: str) -> str:
        """The channel of messages to a worker: the name of a queue with a job to cancel (send a heartbeat for it), or
        empty (announce the worker), for which heartbeats and announcements stand in when a message is lost; or
        `SHOW_STACKS`."""


class FullEngine(Engine, Protocol):
    """An engine that can also be inspected and controlled."""

    def prefix(self, queue: str) -> str:
        """The beginning of the keys of a queue. Raises `InvalidArgument` for a name that no queue can have here."""

    # Reading. Nothing here changes a job.

    def queues(self) -> Steps[list[str]]:
        """The names of the queues that exist."""

    @property
    def layout(self) -> int:
        """The newest version of the layout that this release reads."""

    def layout_of(self, queue: str) -> Steps[int]:
        """The highest layout version that any release has written to a queue; see `NewerLayout`."""

    def queue(self, name: str) -> Steps[QueueView]: ...

    def settings_of(self, queue: str) -> Steps[QueueSettings]: ...

    def job(self, queue: str, id: str) -> Steps[JobView | None]: ...

    def facts(self, queue: str, id: str) -> Steps[JobFacts | None]:
        """Read a job, and what keeps it from running; None: unknown."""

    def sample(self, queue: str, cursor: str, limit: int) -> Steps[tuple[list[str], str]]:
        """List about `limit` jobs that have not ended, in any order, from a cursor on ("0": the beginning), and the
        next cursor ("0": the end). A job may come twice."""

    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = limits.PAGE_MAX,
        lane: str | None = None,
        after: str | None = None,
        heads: bool = False,
    ) -> Steps[Page]:
        """Jobs in one state: waiting ones in the order in which they will run, ended ones newest first.

        The ready jobs include only the next job of a lane that waits for its turn. With `lane` (and `READY`): the jobs
        that wait in that lane. `after`: the cursor of the page before (`Page.next`), from which `offset` counts. A walk
        from cursor to cursor shows each job that stays in the state exactly once (a ready one at least once). A page
        before the last one may have fewer jobs than `limit`, or none. `heads`: payloads and results are not needed:
        a format that can leave them out does.
        """

    def workers(self) -> Steps[list[WorkerView]]: ...

    def announced(self) -> Steps[list[WorkerView]]:
        """The same workers, in one call: without how many jobs they hold."""

    # Acting on jobs from outside.

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        """Run a failed, broken, cancelled, scheduled or unroutable job now, with its attempt counters reset.

        `reshaped`: with a new payload, a shape with the limits, the share and the unique key that the job gets (no
        key: it keeps its own); None: it keeps all three. Raises `NotUnique` if another job has that key.
        """

    def discard(self, queue: str, id: str) -> Steps[bool]:
        """Remove a job that is not active, with all its records."""

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        """End a job that waits (ready, scheduled, unroutable) in `cancelled`; ask the worker of one that runs."""

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        """The same for all jobs of the queue, or of one lane, that have not ended."""

    def purge(self, queue: str, state: State) -> Steps[int]:
        """Remove all jobs in one state other than active; answers how many."""
