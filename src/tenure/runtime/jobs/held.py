"""What a worker holds: one entry for each lease, and what occupies a slot: one lease or a batch. Data, no decisions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Any, Final, Protocol, TypeAlias, final

from msgspec import Struct, structs

from tenure.core import limits
from tenure.core.flows import NewFlow
from tenure.core.job import Lease, LeaseRef, NewJob, Token
from tenure.core.outcome import Cancelled, Outcome
from tenure.core.shape import Until
from tenure.core.task import TaskSpec

OVERRUN_GRACE_MS: Final = 25 * limits.SECOND
"""How long after its timeout a handler keeps the lane, places and key of its job. Then its worker settles the job,
several heartbeats before `limits.OVERDUE_GRACE_MS` is over: the keeper would count a crash."""


class Phase(Enum):
    PENDING = "pending"
    RUNNING = "running"
    SETTLING = "settling"
    LOST = "lost"


# For the phases of every job: on Python 3.11, reading a member through its class takes ten times as long.
PENDING: Final = Phase.PENDING
RUNNING: Final = Phase.RUNNING
SETTLING: Final = Phase.SETTLING


class Stop(IntEnum):
    """Why the worker ended a handler before it ended by itself. Later reasons outweigh earlier ones."""

    CANCEL = 1
    """By a cancel request. What the handler returns still counts."""
    TIMEOUT = 2
    SILENCE = 3
    """No heartbeat went through for a lease's length: other workers may soon run jobs that must not run at the same
    time."""
    SHUTDOWN = 4
    LOST = 5


Key: TypeAlias = tuple[str, str, Token]
"""The fields of a `LeaseRef`. Making and hashing a `LeaseRef` several times for each job takes too long."""
Outcomes: TypeAlias = "list[tuple[Held, Outcome]]"
Ended: TypeAlias = "tuple[Held | Batch, Outcomes, float]"
"""A handler that has ended: its outcomes, and when it ended."""


class HandlerRunner(Protocol):
    """Calls the handlers of jobs. It reports each outcome once, after the handler has ended."""

    @property
    def given_up_s(self) -> float | None:
        """How long a handler may continue after a stop. Then the worker gives it up. 0: until its timeout. None: it
        is never given up, because the runner can end it."""
        ...

    def start(self, run: Any) -> None: ...

    def stop(self, run: Any, why: Stop) -> None:
        """Ask the handler to end, or end it."""
        ...


class NoRunner:
    """Stands for a runner before one is chosen, and where nothing stops an attempt from outside."""

    given_up_s: Final = None

    def start(self, run: Any) -> None:
        """Do nothing."""

    def stop(self, run: Any, why: Stop) -> None:
        """Do nothing."""


NO_RUNNER: Final = NoRunner()


class Run(Struct, eq=False, kw_only=True):
    """What occupies a slot. Times are seconds of the monotonic clock."""

    runner: HandlerRunner = NO_RUNNER
    began: bool = False
    started_at: float = 0.0
    ended_at: float = 0.0
    """When its outcome was known. Set only for listeners and for a log of all jobs."""
    ends_at: float = math.inf
    """For a batch, not later than the earliest deadline in it."""
    give_up_at: float = math.inf
    stop: Stop | None = None
    abandoned: bool = False
    rest: Callable[[], None] | None = None
    """Ends the pause of a persistent job that ended at once."""
    verdict: Outcomes | None = None
    """Outcomes that are decided, but settled only after the handler or the pause has ended."""
    settle_at: float = math.inf
    """When `verdict` is settled although the handler has not ended."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"  # no payloads in logs

    def begin(self) -> None:
        """Note that the handler is called: until then, a stop can still prevent that."""
        self.began = True

    def ends_by(self, at: float) -> None:
        """Set when the attempt times out; infinite: never."""
        self.ends_at = at

    def is_late(self, now: float) -> bool:
        """Whether its time is over, whether or not the worker has noticed: a handler may have blocked the loop."""
        return self.stop is Stop.TIMEOUT or (self.stop in (None, Stop.CANCEL) and now > self.ends_at)

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
        """Keep an outcome until the handler has ended, at most until `settle_at`."""
        self.verdict = [*(self.verdict or ()), (held, outcome)]
        self.settle_at = min(self.settle_at, held.timed_out_at + OVERRUN_GRACE_MS / limits.SECOND)

    def take_verdict(self) -> Outcomes:
        """Return the postponed outcomes, once."""
        verdict = self.decided()
        self.verdict, self.settle_at = None, math.inf
        return verdict

    def decided(self) -> Outcomes:
        """Return the postponed outcomes. A cancel request that came until now counts."""
        verdict = self.verdict or ()
        return [(held, outcome if held.cancelled is None else Cancelled(held.cancelled)) for held, outcome in verdict]

    def begin_rest(self, end: Callable[[], None], outcomes: Outcomes) -> None:
        self.ends_at = math.inf
        self.rest, self.verdict = end, outcomes

    def end_rest(self) -> None:
        self.rest = None


@final
class Held(Run, eq=False):
    """One lease in this process. `number` is its place in the order of the claims."""

    lease: Lease
    key: Key
    spec: TaskSpec
    claimed_at: float
    number: int = 0
    asked_at: float = 0.0
    """When the claim was sent, by `Env.lease_clock`: the lease may have been running since then."""
    persistent: bool = False
    """Copied from the record's shape into a field, because it is read several times for each job."""
    phase: Phase = PENDING
    timeout_s: float | None = None
    extended_to: float | None = None
    cancelled: str | None = None
    """The reason of a cancel request, perhaps empty; None without a request."""
    follow: tuple[NewJob, ...] = ()
    flows: tuple[NewFlow, ...] = ()
    """Jobs and flows that are enqueued when this one completes."""
    answered: bool = False
    """The handler has decided its outcome before the batch ended."""
    services: Any = None
    """The `JobServices` of its `Job`, which imports this class, so that the type is not named here."""
    job: Any = None
    """The `Job`, once the handler has asked for it."""
    batch: Batch | None = None

    def prepare(self, services: Any, runner: HandlerRunner, now: float) -> None:
        """The lease has a slot. Its time begins."""
        self.services = services
        self.runner = runner
        own_ms = self.lease.record.timeout_ms
        timeout_ms = self.spec.timeout_ms if own_ms is None else own_ms
        if timeout_ms:  # 0: no limit
            self.timeout_s = timeout_s = timeout_ms / limits.SECOND
            self.ends_at = now + timeout_s

    def begin_in_process(self, now: float) -> None:
        """A job process calls the handler. Its time begins only now: starting the process takes a while."""
        self.began = True
        self.started_at = now
        if self.timeout_s is not None:
            self.ends_at = now + self.timeout_s

    def forget_jobs(self) -> None:
        """Drop what the handler got."""
        self.job = None

    def end_at(self, now: float) -> None:
        self.ended_at = now

    def read_payload(self, payload: bytes) -> None:
        """Replace the payload in Redis by the store's payload."""
        self.lease = structs.replace(self.lease, record=structs.replace(self.lease.record, payload=payload))

    def request_cancel(self, reason: str) -> None:
        self.cancelled = reason

    def extend(self, ends_at: float) -> None:
        """Let its attempt continue until `ends_at`."""
        self.timeout_s = None
        self.ends_at = self.extended_to = ends_at
        if self.batch is not None:
            self.batch.ends_by(min(self.batch.ends_at, ends_at))

    @property
    def seconds(self) -> float | None:
        """How long the attempt took; None: it was never started, or is not measured."""
        return max(0.0, self.ended_at - self.started_at) if self.started_at and self.ended_at else None

    @property
    def ref(self) -> LeaseRef:
        return self.lease.ref

    @property
    def run(self) -> Held | Batch:
        """What occupies the slot that this lease runs in."""
        return self if self.batch is None else self.batch

    @property
    def members(self) -> Sequence[Held]:
        return (self,)

    def open(self) -> Sequence[Held]:
        """The leases that the end of the handler is about."""
        return (self,)

    @property
    def timeout_ms(self) -> int | None:
        """The job's timeout, else its task's. None or 0: no limit."""
        own_ms = self.lease.record.timeout_ms
        return self.spec.timeout_ms if own_ms is None else own_ms

    @property
    def overdue_at(self) -> float:
        """When the keeper gives the lease up: its attempt was over long ago, so this process must hang. Never
        once there is an outcome, however long that waits for Redis."""
        if self.phase is Phase.SETTLING or self.run.rest is not None:
            return math.inf
        return self.timed_out_at + limits.OVERDUE_GRACE_MS / limits.SECOND

    @property
    def timed_out_at(self) -> float:
        """When its attempt is over, also after `ends_at` was cleared. Infinite: it has no timeout."""
        if self.extended_to is not None:
            return self.extended_to
        if not self.timeout_ms:
            return math.inf
        began_at = self.claimed_at if self.phase is Phase.PENDING else self.run.started_at
        return began_at + self.timeout_ms / limits.SECOND

    @property
    def must_be_alone(self) -> bool:
        """Whether its lane, its places at limits or its unique key belong to its handler: no other worker may run the
        job, or one that waits for these, while its handler still runs here. Its outcome waits for the handler's end."""
        shape = self.lease.record.shape
        holds_key = shape.unique is not None and shape.unique.until is Until.ENDED
        return self.persistent or shape.lane is not None or bool(shape.limits) or holds_key

    @property
    def over(self) -> bool:
        """Whether its attempt is over, so that what its handler does will not count."""
        run = self.run
        return self.phase is Phase.LOST or run.abandoned or (run.stop is not None and run.stop is not Stop.CANCEL)


@final
class Batch(Run, eq=False):
    """Leases that run in one call of a handler, in the order of their claims."""

    spec: TaskSpec
    members: list[Held]
    persistent: bool = False

    def prepare(self, services: Any, runner: HandlerRunner, now: float) -> None:
        """The batch has a slot. The time of its members begins."""
        self.runner = runner
        for held in self.members:
            held.prepare(services, runner, now)
        self.ends_at = min(held.ends_at for held in self.members)

    def forget_jobs(self) -> None:
        """Drop what the handler got."""
        self.members = []

    def leave_out(self, held: Sequence[Held]) -> None:
        """Run without these members: their outcomes are decided."""
        self.members = [one for one in self.members if one not in held]

    def is_late(self, now: float) -> bool:
        if self.stop is not Stop.TIMEOUT and now > self.ends_at:  # the earliest may have been answered
            self.ends_at = min((held.ends_at for held in self.open()), default=math.inf)
        return Run.is_late(self, now)

    def open(self) -> Sequence[Held]:
        """The members without a decided outcome."""
        return [held for held in self.members if held.phase is Phase.RUNNING and not held.answered]

    @property
    def pointless(self) -> bool:
        """Whether every member is answered, lost, or to be cancelled."""
        return all(held.cancelled is not None for held in self.open())
