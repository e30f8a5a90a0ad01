"""The events of a worker: a frozen value for each. Events never contain payloads or results.

    Event
    ├── JobEvent
    │   ├── Claimed         a worker leased the job
    │   ├── Started         an attempt began
    │   ├── Ended           an attempt ended, and Redis has recorded how
    │   │   ├── Completed
    │   │   ├── Retried     the attempt failed, and the job runs again later
    │   │   ├── Failed      the job failed for good
    │   │   ├── Broken      the job cannot be processed
    │   │   ├── Cancelled
    │   │   ├── Released    the job returned to its queue unchanged
    │   │   ├── Crashed     the job's process died, and the worker lives
    │   │   └── Unroutable  the job is parked: this worker has no handler for it
    │   └── Lost            the worker lost the lease; the outcome does not count
    └── WorkerEvent
        ├── WorkerStarted
        ├── WorkerStopping  the worker starts no more jobs
        ├── WorkerStopped
        ├── RedisAway       Redis does not respond
        └── RedisBack       Redis responds again

A listener of a class receives the events of all its subclasses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events. `at`: seconds since 1970, by the clock of the worker's machine."""

    worker: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """Base of the events of a job. `task` None: a raw payload. `attempt` counts from 1."""

    id: str
    queue: str
    task: str | None
    lane: str | None
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(JobEvent):
    """The worker leased the job. It may still release the job before it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(JobEvent):
    """An attempt began, `waited` seconds after the claim.

    `queued`: seconds since the enqueue, by the worker's clock; None if the job was delayed or tried before, or if the
    wire format has no such time.
    """

    waited: float
    queued: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(JobEvent):
    """An attempt ended after `seconds`, and Redis has recorded how. `seconds` is 0 if the attempt never started."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed(Ended):
    """The job is done. A persistent one runs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(Ended):
    """The attempt failed, and the job runs again in `delay` seconds. `place`: where in your code, if known.

    Also for an attempt that does not count: `error_type` is then `Snooze` or `RateLimited`.
    """

    error_type: str
    place: str | None
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Ended):
    """The job failed for good. `place`: where in your code, if known."""

    error_type: str
    place: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(Ended):
    """The job cannot be processed: its bytes cannot be decoded, or it crashed too many processes.

    `place`: where in your code, if known.
    """

    error_type: str
    place: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Ended):
    """The job was cancelled. `reason` may be empty."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(Ended):
    """The job returned to its queue unchanged. The attempt does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed(Ended):
    """The job's process died. The job runs again; after too many crashes a `Broken` event follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unroutable(Ended):
    """This worker has no handler for the job. The job is parked until a worker offers one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(JobEvent):
    """The worker lost the lease, and noticed after `seconds`. Another worker runs the job; this outcome does not count.

    `noticed`: which call found it, one of heartbeat, settle, extend, progress. `certain` False: the reply to an earlier
    call was lost, and that call may have ended the job.
    """

    seconds: float
    noticed: str
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent(Event):
    """Base of the events of the worker itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(WorkerEvent):
    """The worker begins to claim jobs of these queues. It runs at most `slots` at a time."""

    queues: tuple[str, ...]
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopping(WorkerEvent):
    """The worker starts no more jobs. `running`: how many jobs may still finish."""

    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped(WorkerEvent):
    """The worker has ended. `given_back`: how many jobs it released, None if Redis did not respond in time.

    `unheard`: how many events were dropped because listeners were too slow.
    """

    given_back: int | None
    hard: bool
    unheard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAway(WorkerEvent):
    """Redis does not respond. The worker retries until it does."""

    error_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisBack(WorkerEvent):
    """Redis responds again, `away` seconds after the first unanswered attempt began."""

    away: float


@dataclass(frozen=True, slots=True)
class Listener:
    """A function that is called with every event of these kinds. It may return an awaitable."""

    kinds: tuple[type[Event], ...]
    function: Callable[[Any], object]

    @property
    def name(self) -> str:
        """The function's name, for log lines."""
        return str(getattr(self.function, "__qualname__", type(self.function).__qualname__))


EVENTS: Final[tuple[type[Event], ...]] = (
    Claimed,
    Started,
    Completed,
    Retried,
    Failed,
    Broken,
    Cancelled,
    Released,
    Crashed,
    Unroutable,
    Lost,
    WorkerStarted,
    WorkerStopping,
    WorkerStopped,
    RedisAway,
    RedisBack,
)
"""All event classes that can occur. The other classes group them."""
