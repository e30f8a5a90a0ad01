"""What is known of a job: as it is enqueued, as it is held, and as it is looked at.

Of what every job passes through, an instance is made for each: those are msgspec's structs, which cost a tenth of what
frozen dataclasses do. The others are dataclasses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from leasehold.core.shape import PLAIN, Conflict, Progress, QueueSettings, Shape


class State(StrEnum):
    """The one place a job is in. The last four are ends; a job that has ended stays there until its record is pruned.

    scheduled   waits for its time (delayed, or between two attempts)
    ready       waits for a worker
    active      held by a worker
    unroutable  parked: no worker has offered its task yet
    completed, failed, broken, cancelled
    """

    SCHEDULED = "scheduled"
    READY = "ready"
    ACTIVE = "active"
    UNROUTABLE = "unroutable"
    COMPLETED = "completed"
    FAILED = "failed"
    BROKEN = "broken"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in ENDS


ENDS = frozenset({State.COMPLETED, State.FAILED, State.BROKEN, State.CANCELLED})


class NewJob(Struct, frozen=True, gc=False):
    """A job to be enqueued. `task` None: a raw payload for the queue's handler.

    `delay_ms` counts from Redis' clock at the enqueue; `run_at_ms` is a time since 1970; at most one of them is set.
    `timeout_ms` and `retries` None: what the task says where it runs; `timeout_ms` 0: no limit. `own_id`: the id was
    chosen by the caller and may exist already.
    """

    queue: str
    id: str
    payload: bytes
    task: str | None = None
    delay_ms: int = 0
    run_at_ms: int | None = None
    timeout_ms: int | None = None
    retries: int | None = None
    own_id: bool = False
    shape: Shape = PLAIN


class Enqueued(Struct, frozen=True, gc=False):
    """What became of a `NewJob`.

    `created` False and no `conflict`: a job with this id existed and nothing was changed. With a `conflict`, another
    job had its key: what was done, and `id` is that of the other. `REJECT` and `EXISTING`: nothing; `REPLACE` and
    `POSTPONE`: the other got the payload; `RERUN`: the one that waits to run again got it.
    """

    id: str
    created: bool
    conflict: Conflict | None = None


class JobRecord(Struct, frozen=True, gc=False):
    """A job as it lies in Redis, without its history.

    `timeout_ms` and `retries` None: what the task says where it runs; `timeout_ms` 0: no limit. `malformed` is not
    empty when the bytes in Redis are no record of ours: it says why, and `payload` has them whole.
    """

    id: str
    queue: str
    task: str | None
    payload: bytes
    enqueued_ms: int
    timeout_ms: int | None = None
    retries: int | None = None
    malformed: str = ""
    shape: Shape = PLAIN


Token: TypeAlias = int | str
"""A fencing token, as the engine gives it. Only its engine converts or orders tokens; others compare them for equality.

Engines that can count give a number that grows with every claim of a job."""


class LeaseRef(Struct, frozen=True, gc=False):
    """Names one lease: enough to keep it or to ask whether it is still ours."""

    queue: str
    id: str
    token: Token


class Lease(Struct, frozen=True, gc=False):
    """A claim on a job by a worker. `attempt` counts from 1: earlier failures and crashes, plus this one.

    `alone_ms`: for how long its worker claims nothing else while it runs, as it was running at several deaths of
    workers. `group`: a worker's leases of a queue with the same group settle in one call, all or none; empty: no group.
    """

    worker: str
    token: Token
    record: JobRecord
    failures: int
    crashes: int
    alone_ms: int = 0
    group: str = ""

    @property
    def attempt(self) -> int:
        return self.failures + self.crashes + 1

    @property
    def ref(self) -> LeaseRef:
        return LeaseRef(self.record.queue, self.record.id, self.token)


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something met in a queue that was not a job, and why it was left out."""

    queue: str
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A queue that Redis would not let us claim from, or look at, and why."""

    queue: str
    reason: str


@dataclass(frozen=True, slots=True)
class Leased:
    """The answer to a claim. `next_ms`: how long until something may be due without a wake-up; None: unknown.

    `refused`: queues that could not be looked at (another program's data in their place), while others could.
    `reserved`: the queue of a job that must run alone and waits for this worker: claim from that queue only, again and
    again, until it is answered no more.
    """

    leases: tuple[Lease, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    refused: tuple[Refused, ...] = ()
    next_ms: int | None = None
    reserved: str | None = None


def together(answers: Sequence[Leased]) -> Leased:
    """The answers of several claims as one."""
    if len(answers) == 1:
        return answers[0]
    return Leased(
        tuple(lease for answer in answers for lease in answer.leases),
        tuple(dropped for answer in answers for dropped in answer.dropped),
        tuple(refused for answer in answers for refused in answer.refused),
        min((answer.next_ms for answer in answers if answer.next_ms is not None), default=None),
        answers[-1].reserved if answers else None,
    )


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Why an attempt did not complete, as text: nothing is ever rebuilt from it."""

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as the inspector sees it. Times are milliseconds since 1970 by Redis' clock, None where not known."""

    id: str
    queue: str
    state: State
    task: str | None = None
    payload: bytes | None = None
    failures: int = 0
    crashes: int = 0
    enqueued_ms: int | None = None
    due_ms: int | None = None
    worker: str | None = None
    token: Token | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    expires_ms: int | None = None
    result: bytes | None = None
    error: ErrorInfo | None = None
    shape: Shape = PLAIN
    progress: Progress | None = None
    timeout_ms: int | None = None
    """None: what its task says; 0: no limit."""
    cancelling: str | None = None
    """Somebody asked for it to be cancelled while it ran: the reason that was given, perhaps empty."""
    waits: str | None = None
    """Of a job that is ready: why it may have to wait although workers are idle."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue in numbers. `counts` has every state; `totals` counts events since the queue's counters began.

    `parked_lanes`: lanes that are set aside; `blocked_lanes`: those in which a failed job keeps its place. The
    jobs of both are among the ready ones. `suspects`: ready jobs that crashed, of which a worker runs only some
    together, or one alone; `reserved`: the worker that runs one alone, or gets ready to. `newer_layout`: the
    queue's layout version, where a newer release has written it: workers of this release claim nothing from it.
    """

    name: str
    counts: dict[State, int]
    totals: dict[str, int] = field(default_factory=dict)
    settings: QueueSettings = field(default_factory=QueueSettings)
    parked_lanes: int = 0
    blocked_lanes: int = 0
    suspects: int = 0
    reserved: str | None = None
    newer_layout: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker as it last described itself, and how many jobs it holds.

    `alone`: it claims no job of any queue for now, since it or another worker of its machine runs a job alone, or gets
    ready to.
    """

    id: str
    queues: tuple[str, ...]
    host: str
    pid: int
    started_ms: int
    seen_ms: int
    concurrency: int
    active: int = 0
    quiet: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page of jobs in one state.

    `total`: how many jobs were in that state when it was read. `next`: the cursor for the next page; None at the end.
    """

    jobs: tuple[JobView, ...]
    total: int
    next: str | None = None
