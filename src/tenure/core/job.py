"""A job as it is enqueued, as a worker holds it, and as the inspector shows it.

Values that exist once for every job are msgspec structs, which cost a tenth of frozen dataclasses (decision 0015). The
others are dataclasses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Struct

from tenure.core.features import Feature
from tenure.core.limits import SECOND
from tenure.core.partitions import place_of
from tenure.core.shape import PLAIN, Conflict, Progress, QueueSettings, Shape
from tenure.core.values import replace

NEXT_LOOKED: Final = 20
"""Ready jobs that are looked at for the time of the next one."""


class State(StrEnum):
    """The state of a job. A job in one of the last four has ended; its record stays until it expires.

    - `scheduled`: waits for its time: delayed, or between two attempts
    - `ready`: waits for a worker
    - `active`: held by a worker
    - `unroutable`: parked, because no worker offers its task
    - `completed`, `failed`, `broken`, `cancelled`: ended
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
        """True for `completed`, `failed`, `broken` and `cancelled`."""
        return self in ENDS


WAITING: Final = (State.READY, State.SCHEDULED, State.UNROUTABLE)
ENDS = frozenset({State.COMPLETED, State.FAILED, State.BROKEN, State.CANCELLED})


class JobSpec(Struct, frozen=True, gc=False, kw_only=True):
    """What is the same of a job before its enqueue, in Redis, and in the definition of a schedule.

    `task` None: a raw payload for the queue's handler. `timeout_ms` and `retries` None: the task's own, where the job
    runs; `timeout_ms` 0: no limit. `headers` None: it has none. A field with another value than its
    default needs the feature in its annotation: see `core.unsupported`.
    """

    task: Annotated[str | None, Feature.TASKS] = None
    timeout_ms: Annotated[int | None, Feature.TIMEOUT] = None
    retries: Annotated[int | None, Feature.RETRIES] = None
    shape: Shape = PLAIN
    headers: Annotated[Mapping[str, str] | None, Feature.HEADERS] = None

    def spec(self) -> dict[str, Any]:
        """Return these fields by name, for another job like this one."""
        return {name: getattr(self, name) for name in JobSpec.__struct_fields__}


class NewJob(JobSpec, frozen=True, gc=False):
    """A job to enqueue.

    `delay_ms` counts from the enqueue by Redis' clock; `run_at_ms` is a time since 1970; at most one of them is set.
    `own_id`: the caller chose the id, so a job with it may exist. `scheduled_ms`: the planned time of the tick of a
    schedule; None: it is no schedule's job.
    """

    queue: str
    id: str
    payload: bytes
    delay_ms: Annotated[int, Feature.DELAY] = 0
    run_at_ms: Annotated[int | None, Feature.DELAY] = None
    own_id: Annotated[bool, Feature.OWN_ID] = False
    scheduled_ms: int | None = None


class Enqueued(Struct, frozen=True, gc=False):
    """The result of enqueueing a `NewJob`.

    `id`: of an engine without `Feature.IDS`, the hash of the job's bytes, which names it while it waits; identical jobs
    share it, and an operation on that name takes one of them.

    `created` False without a `conflict`: a job with this id existed, and nothing changed. With a `conflict`, another
    job had the unique key, and `id` names that job. `REJECT` and `EXISTING` changed nothing; `REPLACE` and `POSTPONE`
    gave it the new payload; `RERUN` gave the payload to the job that waits to run again.
    """

    id: str
    created: bool
    conflict: Conflict | None = None


class JobRecord(JobSpec, frozen=True, gc=False):
    """A job as Redis stores it, without its history.

    `malformed`: why the bytes in Redis are not a record of Tenure, else empty; `payload` then has all the bytes.
    `delayed`: it was enqueued for a later time. `scheduled_ms`: see `NewJob`.
    """

    id: str
    queue: str
    payload: bytes
    enqueued_ms: int
    malformed: str = ""
    delayed: bool = False
    scheduled_ms: int | None = None


Token: TypeAlias = int | str
"""A fencing token from the engine. Only its engine converts or orders tokens; others compare them for equality.

Engines that can count use a number that grows with every claim of a job."""


class LeaseRef(Struct, frozen=True, gc=False):
    """Names one lease: enough to extend it, or to check that it is still valid. `partition`: where the queue has it."""

    queue: str
    id: str
    token: Token
    partition: int = 0

    @property
    def place(self) -> str:
        return place_of(self.queue, self.partition)


class Lease(Struct, frozen=True, gc=False):
    """A worker's claim on a job. `attempt` counts from 1: earlier failures and crashes, plus this attempt.

    The record's id names the job. In an engine without `Feature.IDS`, it is new with every claim.

    `alone_ms`: how long the worker claims nothing else while the job runs, because several workers died while they ran
    this job. `group`: a worker's leases of a queue with the same group settle in one call, all or none; empty: none.
    `partition`: see `core.partitions`.
    """

    worker: str
    token: Token
    record: JobRecord
    failures: int
    crashes: int
    alone_ms: int = 0
    group: str = ""
    partition: int = 0

    @property
    def attempt(self) -> int:
        return self.failures + self.crashes + 1

    @property
    def ref(self) -> LeaseRef:
        return LeaseRef(self.record.queue, self.record.id, self.token, self.partition)

    @property
    def place(self) -> str:
        return place_of(self.record.queue, self.partition)


class Dropped(Struct, frozen=True):
    """An entry of a queue that was not a job, and why it was removed."""

    queue: str
    id: str
    reason: str


class Refused(Struct, frozen=True):
    """A queue from which Redis refused the claim, and why. `partition`: if only one of it was refused."""

    queue: str
    reason: str
    partition: int | None = None


class Leased(Struct, frozen=True):
    """The answer to a claim. `next_ms`: how long until a job may be due without a wake-up; None: unknown.

    `refused`: queues that could not be read because they hold data of another program. `suspect_queue`: the queue of a
    job that has to run alone, for which this worker is asked to prepare.
    """

    leases: tuple[Lease, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    refused: tuple[Refused, ...] = ()
    next_ms: int | None = None
    suspect_queue: str | None = None


def together(answers: Sequence[Leased]) -> Leased:
    """Merge the answers of several claims."""
    if len(answers) == 1:
        return answers[0]
    return Leased(
        tuple(lease for answer in answers for lease in answer.leases),
        tuple(dropped for answer in answers for dropped in answer.dropped),
        tuple(refused for answer in answers for refused in answer.refused),
        min((answer.next_ms for answer in answers if answer.next_ms is not None), default=None),
        answers[-1].suspect_queue if answers else None,
    )


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Why an attempt did not complete, as text. No object is ever rebuilt from it.

    `attempt`: its number, from 1. `at_ms`: when it ended, in milliseconds since 1970 by Redis' clock. Both are None
    where they are not known. Errors that differ only in these two are equal.
    """

    type: str
    message: str
    traceback: str = ""
    attempt: int | None = field(default=None, compare=False)
    at_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as the inspector shows it. Times are milliseconds since 1970 by Redis' clock, None if unknown.

        view = app.inspect.job("images", job.id)
        print(view.state, view.enqueued_at)             # the same time as `enqueued_ms`, as a `datetime` (UTC)

    `payload` and `result`: JSON, or the bytes of a raw payload; `JobHandle.result` decodes a result. `due_ms`: when a
    scheduled job becomes ready. `started_ms`: when its worker claimed it. `worker` and `token`: of the last claim.
    `expires_ms`: when the record of an ended job is deleted. `error`: of the last failed attempt. `delayed`: it was
    enqueued for a later time. Payload, result and headers may hold secrets, so the `repr` leaves them out.
    """

    id: str
    queue: str
    state: State
    task: str | None = None
    payload: bytes | None = field(default=None, repr=False)
    failures: int = 0
    crashes: int = 0
    enqueued_ms: int | None = None
    due_ms: int | None = None
    worker: str | None = None
    token: Token | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    expires_ms: int | None = None
    result: bytes | None = field(default=None, repr=False)
    error: ErrorInfo | None = None
    shape: Shape = PLAIN
    progress: Progress | None = None
    timeout_ms: int | None = None
    """None: the task's own; 0: no limit."""
    cancelling: str | None = None
    """The reason of a cancel request that arrived while the job ran (perhaps empty); None: no request."""
    waits: str | None = None
    """For a ready job: why it may have to wait although workers are idle."""
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    """None: it has none. They are not kept after the job has completed."""
    earlier_errors: tuple[ErrorInfo, ...] = ()
    """The errors of earlier attempts, the newest first: at most nine, and 32 KiB with `error`. Empty in
    pages, and on wire formats that do not keep them."""
    scheduled_for_ms: int | None = None
    """The planned time of the schedule's tick that made the job; None if no schedule did."""
    delayed: bool = False

    @property
    def enqueued_at(self) -> datetime | None:
        """Return `enqueued_ms` as a `datetime` (UTC)."""
        return _utc(self.enqueued_ms)

    @property
    def due_at(self) -> datetime | None:
        """Return `due_ms` as a `datetime` (UTC)."""
        return _utc(self.due_ms)

    @property
    def started_at(self) -> datetime | None:
        """Return `started_ms` as a `datetime` (UTC)."""
        return _utc(self.started_ms)

    @property
    def ended_at(self) -> datetime | None:
        """Return `ended_ms` as a `datetime` (UTC)."""
        return _utc(self.ended_ms)

    @property
    def expires_at(self) -> datetime | None:
        """Return `expires_ms` as a `datetime` (UTC)."""
        return _utc(self.expires_ms)

    @property
    def scheduled_for(self) -> datetime | None:
        """Return `scheduled_for_ms` as a `datetime` (UTC)."""
        return _utc(self.scheduled_for_ms)


def _utc(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / SECOND, UTC)


@dataclass(frozen=True, slots=True)
class Repartition:
    """A change of the number of a queue's partitions that is under way: from `before` to `number`.

    `left`: how many jobs and records were still where they belonged before, when workers looked through all of them
    last; None: they have not done so yet.
    """

    before: int
    number: int
    left: int | None


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue in numbers. `counts` has every state; `totals` counts events since the queue's counters began.

    `parked_lanes`: how many lanes are parked; `blocked_lanes`: how many a failed job blocks. The jobs of both count as
    ready. `limited`: ready jobs that wait for a limit (with over 1,000 lanes: the jobs of 1,000). `suspects`: ready
    jobs that crashed; a worker runs only a few of them together, or one alone. `newer_layout`: the queue's layout
    version, if a newer release has written it; workers of this release claim nothing from it. `oldest_ms`: when the job
    that is next was enqueued; None: none waits, or the format has no such time. `ready_ms`: since when it has been
    ready, at least: Redis does not keep that time of a job that was delayed or tried before, and then the jobs behind
    it show it; None: none waits, or it is not known. `partitions`: see `app.queue_options`; 1: none. `repartition`: a
    change of their number that is under way. `unreachable`: the partitions on lost nodes of a cluster; all other
    numbers, and `settings.max_length`, are without them. `outgoing`: follow-up jobs, and word for flows, that other
    queues have not taken; `outgoing_ms`: since when.
    """

    name: str
    counts: dict[State, int]
    totals: dict[str, int] = field(default_factory=dict)
    settings: QueueSettings = field(default_factory=QueueSettings)
    parked_lanes: int = 0
    blocked_lanes: int = 0
    suspects: int = 0
    limited: int = 0
    newer_layout: int | None = None
    oldest_ms: int | None = None
    ready_ms: int | None = None
    partitions: int = 1
    repartition: Repartition | None = None
    unreachable: tuple[int, ...] = ()
    outgoing: int = 0
    outgoing_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A page of jobs in one state.

    `total`: how many jobs were in that state. `next`: the cursor of the next page; None at the end.
    """

    jobs: tuple[JobView, ...]
    total: int
    next: str | None = None


def with_next(view: QueueView, ready: Page) -> QueueView:
    """Return the view with the times of the jobs that come first, given the first `NEXT_LOOKED` ready ones."""
    first = ready.jobs[0].enqueued_ms if ready.jobs else None
    known = (job.enqueued_ms for job in ready.jobs if not (job.delayed or job.failures or job.crashes))
    return replace(view, oldest_ms=first, ready_ms=next(known, None))
