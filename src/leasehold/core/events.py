"""What a worker tells those who listen: one frozen value for each thing that happens. Never a payload, never a result.

    Event
    ├── JobEvent
    │   ├── Claimed         a job was taken on a lease
    │   ├── Started         an attempt began
    │   ├── Ended           an attempt ended, and Redis has noted how
    │   │   ├── Completed
    │   │   ├── Retried     it failed, and runs again later
    │   │   ├── Failed      it failed for good
    │   │   ├── Broken      it cannot be handled as it is
    │   │   ├── Cancelled
    │   │   ├── Released    it was handed back unchanged
    │   │   ├── Crashed     it took down the process that ran it, while the worker lives
    │   │   └── Unroutable  it was parked: no handler here
    │   └── Lost            it is ours no longer; whatever was done for it does not count
    └── WorkerEvent
        ├── WorkerStarted
        ├── WorkerStopping  nothing new is started from now on
        ├── WorkerStopped
        ├── RedisAway       Redis does not answer
        └── RedisBack       it answers again

Whoever listens to a class hears all that are below it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a worker. `at`: seconds since 1970, by the clock of the worker's machine."""

    worker: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """Something that happened to a job. `task` None: a raw payload. `attempt` counts from 1."""

    id: str
    queue: str
    task: str | None
    lane: str | None
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(JobEvent):
    """The worker took the job on a lease. It may be handed back before it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(JobEvent):
    """An attempt began, `waited` seconds after it was claimed."""

    waited: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(JobEvent):
    """An attempt ended after `seconds`, and Redis has noted how. 0 for one that was never started."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed(Ended):
    """The job is done. A persistent one runs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried(Ended):
    """The attempt failed, and the job runs again in `delay` seconds. `place`: where in your code, if that is known."""

    error_type: str
    place: str | None
    delay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Ended):
    """The job failed for good. `place`: where in your code, if that is known."""

    error_type: str
    place: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(Ended):
    """The job cannot be handled as it is: its bytes cannot be decoded, or it took down its process once too often.

    `place`: where, if that is known.
    """

    error_type: str
    place: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Ended):
    """The job was cancelled, for this reason (perhaps empty)."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(Ended):
    """The job was handed back unchanged, for another worker to run; the attempt does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed(Ended):
    """The job took down the process that ran it. It runs again, or a `Broken` follows: that was once too often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unroutable(Ended):
    """No handler here for the job: it is parked until a worker offers one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(JobEvent):
    """The job is ours no longer, noticed after `seconds`; what was done for it does not count, somebody else runs it.

    `noticed`: by what, one of heartbeat, settle, extend, progress. `certain` False: the answer to an earlier call was
    lost, and that call may have been the one that ended the job.
    """

    seconds: float
    noticed: str
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent(Event):
    """Something that happened to the worker as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(WorkerEvent):
    """The worker begins to claim jobs of these queues, and runs up to `slots` at one time."""

    queues: tuple[str, ...]
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopping(WorkerEvent):
    """Nothing new is started from now on. `running`: how many jobs may still finish."""

    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped(WorkerEvent):
    """The worker has ended. `given_back`: jobs that it still held, None when Redis did not answer in time.

    `unheard`: events that were dropped, because listeners were too slow.
    """

    given_back: int | None
    hard: bool
    unheard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAway(WorkerEvent):
    """Redis does not answer. The worker tries on, for as long as it takes."""

    error_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisBack(WorkerEvent):
    """Redis answers again, `away` seconds after the first attempt began that had no answer."""

    away: float


@dataclass(frozen=True, slots=True)
class Listener:
    """A function to be called with every event of these kinds; it may answer with something to be awaited."""

    kinds: tuple[type[Event], ...]
    function: Callable[[Any], object]

    @property
    def name(self) -> str:
        """What it is called, for a log line."""
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
"""What there is to hear. The other classes group these."""
