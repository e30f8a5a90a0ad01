"""What the model and the processes of a simulation speak of: jobs as they are seen, operations, flows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tenure.core.job import NewJob, State
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable

ENDED_BY: Final[Mapping[type[Outcome], State | None]] = {
    Completed: State.COMPLETED,
    Failed: State.FAILED,
    Broken: State.BROKEN,
    Cancelled: State.CANCELLED,
    Retried: State.SCHEDULED,
    Unroutable: State.UNROUTABLE,
    Released: State.READY,
    Crashed: State.READY,
}
"""The state of a job after each outcome, if nothing else is said."""


class Violation(AssertionError):
    """The queue did what it must not do."""


def require(condition: object, what: str) -> None:
    if not condition:
        raise Violation(what)


@dataclass(frozen=True, slots=True)
class Seen:
    """A job as the inspector shows it."""

    state: State
    worker: str | None = None
    token: int | str | None = None
    crashes: int = 0
    expires_ms: int | None = None
    is_cancelling: bool = False


@dataclass(slots=True)
class Doing:
    """An operation. `ids`: jobs that it acts on. `adds`: jobs that it may add. `settles`: outcomes by job, with the
    token of the lease. `did`: jobs that it has changed.

    `over`: it has returned its answer, and may do nothing more. `failed`: a call of it had no reply.
    """

    kind: str
    actor: str
    began: int
    ids: set[str] = field(default_factory=set)
    adds: dict[str, NewJob] = field(default_factory=dict)
    settles: dict[str, tuple[int | str, Outcome]] = field(default_factory=dict)
    did: set[str] = field(default_factory=set)
    over: bool = False
    failed: bool = False


@dataclass(slots=True)
class Job:
    """What the model knows of a job. `number`: grows along its line. `begun`: it was claimed since it came into its
    line, so it keeps its place."""

    new: NewJob
    number: int
    seen: Seen | None
    due: int = 0
    begun: bool = False
    tokens: list[int | str] = field(default_factory=list)
    ends: Counter[State] = field(default_factory=Counter)

    @property
    def state(self) -> State | None:
        return self.seen.state if self.seen else None


@dataclass(slots=True)
class Group:
    """A flow: its members in their order, the jobs that follow its end, and whether all of it may be cancelled."""

    queue: str
    members: list[NewJob]
    success: NewJob
    end: NewJob
    is_chain: bool
    over_ms: int
    sealed: bool = False
    stopping: bool = False

    def may_stop(self, now: int) -> bool:
        return self.stopping or self.over_ms <= now
