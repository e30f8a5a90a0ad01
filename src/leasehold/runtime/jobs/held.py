"""What a worker holds, an entry a lease, and what occupies a slot: one lease or a batch. Data, no decisions."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from leasehold.core import limits
from leasehold.core.job import Lease, LeaseRef, Token
from leasehold.core.task import TaskSpec

if TYPE_CHECKING:
    from leasehold.core.outcome import Outcome


class Phase(Enum):
    PENDING = "pending"
    RUNNING = "running"
    SETTLING = "settling"
    LOST = "lost"


PENDING: Final = Phase.PENDING
RUNNING: Final = Phase.RUNNING
SETTLING: Final = Phase.SETTLING
"""For what every job passes through: on Python 3.11 a look at a member through its class costs ten times as much."""


class Stop(IntEnum):
    """Why we ended a handler before it ended by itself. The later ones outweigh those before them."""

    CANCEL = 1
    """Somebody asked for it. Until it has ended, what it returns counts."""
    TIMEOUT = 2
    SILENCE = 3
    """No heartbeat went through for a lease's length: others may take its persistent job over soon."""
    SHUTDOWN = 4
    LOST = 5


Key: TypeAlias = tuple[str, str, Token]
"""What a `LeaseRef` says, without its making and hashing, which every job would pay for several times."""


@dataclass(slots=True, eq=False)
class Run:
    """What occupies a slot. Times are seconds of the monotonic clock."""

    began: bool = field(init=False, default=False)
    started_at: float = field(init=False, default=0.0)
    ended_at: float = field(init=False, default=0.0)
    """Only where somebody wants to hear of it."""
    ends_at: float = field(init=False, default=math.inf)
    """For a batch, not later than the earliest deadline in it."""
    give_up_at: float = field(init=False, default=math.inf)
    stop: Stop | None = field(init=False, default=None)
    abandoned: bool = field(init=False, default=False)
    rest: Rest | None = field(init=False, default=None, repr=False)
    verdict: list[tuple[Held, Outcome]] | None = field(init=False, default=None, repr=False)
    """The outcomes of an attempt that is over, but is settled only after its handler has ended: other jobs wait."""

    def begin(self) -> None:
        """Note that the handler is called: until then, a stop can still prevent that."""
        self.began = True

    def ends_by(self, at: float) -> None:
        """Set when the attempt times out; infinite: never."""
        self.ends_at = at

    def request_stop(self, why: Stop) -> None:
        """Note why the worker ends the handler. The strongest reason counts."""
        if self.stop is None or why > self.stop:
            self.stop = why

    def give_up_by(self, at: float) -> None:
        self.give_up_at = min(self.give_up_at, at)

    def abandon(self) -> bool:
        """Note that the handler continues after its attempt. False: that was noted before."""
        self.give_up_at = math.inf
        before, self.abandoned = self.abandoned, True
        return not before

    def postpone(self, held: Held, outcome: Outcome) -> None:
        """Keep an outcome until the handler has ended."""
        self.verdict = [*(self.verdict or ()), (held, outcome)]

    def begin_rest(self, rest: Rest) -> None:
        self.ends_at = math.inf
        self.rest = rest

    def end_rest(self) -> list[tuple[Held, Outcome]]:
        """End the pause. Answers what is to be settled."""
        rest, self.rest = self.rest, None
        assert rest is not None
        rest.timer.cancel()
        return rest.outcomes


@dataclass(slots=True, eq=False)
class Rest:
    """The pause after a persistent job that ended at once, and what is settled when it is over."""

    timer: asyncio.TimerHandle
    outcomes: list[tuple[Held, Outcome]]


@final
@dataclass(slots=True, eq=False)
class Held(Run):
    """One lease in this process. `number` is its place in the order of the claims."""

    lease: Lease
    key: Key
    spec: TaskSpec
    claimed_at: float
    number: int = 0
    asked_at: float = 0.0
    """When the claim was sent, by `Env.lease_clock`: from then on its lease may have been running out."""
    persistent: bool = False
    """Said here once: it is asked at every turn of every job."""
    phase: Phase = field(init=False, default=PENDING)
    timeout_s: float | None = field(init=False, default=None)
    extended_to: float | None = field(init=False, default=None)
    """Until when its handler has asked to go on."""
    cancelled: str | None = field(init=False, default=None)
    """Somebody asked for it to be cancelled: the reason, perhaps empty."""
    answered: bool = field(init=False, default=False)
    """Its handler has answered for it, before the batch ended."""
    job: Any = field(init=False, default=None)
    """The `Job` that its handler gets. `Job` is built on this class, so this one does not name it."""
    batch: Batch | None = field(init=False, default=None, repr=False)

    def prepare(self, job: Any, now: float) -> None:
        """The lease has a slot. Its time begins."""
        self.job = job
        timeout_ms = self.timeout_ms
        if timeout_ms:  # 0: no limit
            self.timeout_s = timeout_ms / limits.SECOND
            self.ends_at = now + self.timeout_s

    def begin_in_process(self, now: float) -> None:
        """A job process calls the handler. Its time begins only now: to start the process takes a while."""
        self.began = True
        self.started_at = now
        if self.timeout_s is not None:
            self.ends_at = now + self.timeout_s

    def forget_jobs(self) -> None:
        """Drop what the handler got."""
        self.job = None

    def end_at(self, now: float) -> None:
        """Note when the attempt ended, for the listeners."""
        self.ended_at = now

    def request_cancel(self, reason: str) -> None:
        self.cancelled = reason

    def extend(self, ends_at: float) -> None:
        """Its attempt may continue until a moment."""
        self.timeout_s = None
        self.ends_at = self.extended_to = ends_at
        if self.batch is not None:
            self.batch.ends_by(min(self.batch.ends_at, ends_at))

    @property
    def ref(self) -> LeaseRef:
        return self.lease.ref

    @property
    def run(self) -> Held | Batch:
        """What occupies the slot that this lease runs in."""
        return self if self.batch is None else self.batch

    @property
    def timeout_ms(self) -> int | None:
        """How long it may run: what the job says, else its task. None or 0: no limit."""
        own_ms = self.lease.record.timeout_ms
        return self.spec.timeout_ms if own_ms is None else own_ms

    @property
    def overdue_at(self) -> float:
        """When the keeper gives it up, if it is still held then: its time has been over for so long that this process
        must be wedged. Never once there is an outcome, however long that has to wait for Redis."""
        if self.phase is Phase.SETTLING or self.run.rest is not None:
            return math.inf
        ends_at = self.extended_to
        if ends_at is None:
            if not self.timeout_ms:
                return math.inf
            began_at = self.claimed_at if self.phase is Phase.PENDING else self.run.started_at
            ends_at = began_at + self.timeout_ms / limits.SECOND
        return ends_at + limits.OVERDUE_GRACE_MS / limits.SECOND

    @property
    def over(self) -> bool:
        """Whether its attempt is over, so that what its handler does will not count."""
        run = self.run
        return self.phase is Phase.LOST or run.abandoned or (run.stop is not None and run.stop is not Stop.CANCEL)


@final
@dataclass(slots=True, eq=False)
class Batch(Run):
    """Leases that one call of a handler is for, in the order of their claims."""

    spec: TaskSpec
    members: list[Held]
    persistent: bool = False
    jobs: list[Any] = field(init=False, default_factory=list)

    def prepare(self, jobs: list[Any], now: float) -> None:
        """The batch has a slot. The time of its members begins."""
        self.jobs = jobs
        for held, job in zip(self.members, jobs, strict=True):
            held.prepare(job, now)
        self.ends_at = min(held.ends_at for held in self.members)

    def forget_jobs(self) -> None:
        """Drop what the handler got."""
        self.jobs, self.members = [], []

    def open(self) -> list[Held]:
        """Those whose outcome is not decided."""
        return [held for held in self.members if held.phase is Phase.RUNNING and not held.answered]

    @property
    def pointless(self) -> bool:
        """Whether there is nobody left in it to work for: all answered, lost, or asked to be cancelled."""
        return all(held.cancelled is not None for held in self.open())
