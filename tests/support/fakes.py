"""A fake engine in memory, for tests of the worker and of the client, and the client's fake driver: no Redis."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import structs

from tenure.core.engine import Alone, CancelAsked, Feature, HeartbeatReply, Maintained, Timing, Trait
from tenure.core.errors import TenureError, WrongState
from tenure.core.job import (
    Enqueued,
    ErrorInfo,
    JobRecord,
    JobView,
    Lease,
    Leased,
    LeaseRef,
    NewJob,
    Page,
    Refused,
    State,
    Token,
)
from tenure.core.minutes import Ends, Minutes
from tenure.core.outcome import Outcome, Released, Retried, Unroutable
from tenure.core.shape import CancelAnswer, CancelCount, LanePage, LaneView, Progress, QueueSettings, Shape
from tenure.core.steps import Steps
from tenure.core.unsupported import check_job
from tenure.core.waiting import Wait, Wake
from tenure.core.worker_view import WorkerView


def one_call(call: Callable[[], Any]) -> Generator[Any, Any, Any]:
    """Steps of one call, whose reply is the answer."""
    return (yield call)


class Settled(NamedTuple):
    lease: Lease
    outcome: Outcome


@dataclass
class FakeEngine:
    """Jobs in lists, and a record of the calls. Its steps yield plain functions, sync or async, for a fake driver."""

    timing: Timing = field(
        default_factory=lambda: Timing(lease_ms=60_000, beat_ms=20, idle_wait_ms=200, maintain_ms=50, presence_ms=50)
    )
    name: str = "fake"
    features: frozenset[Any] = frozenset({Feature.PROGRESS})
    traits: frozenset[Trait] = frozenset({Trait.RETRY_DELAY})
    ready: dict[str, deque[Lease]] = field(default_factory=lambda: defaultdict(deque))
    held: dict[LeaseRef, Lease] = field(default_factory=dict)
    settled: list[Settled] = field(default_factory=list)
    refused: list[Settled] = field(default_factory=list)
    ended: list[tuple[str, Ends]] = field(default_factory=list)
    """The reports of ended jobs."""
    calls: list[str] = field(default_factory=list)
    orders: list[tuple[str, ...]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    parked: list[Lease] = field(default_factory=list)
    raw_queues: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=set)
    """The tasks whose parked jobs the last maintenance asked for."""
    poisoned: list[JobView] = field(default_factory=list)
    next_ms: int = -1
    """What the next maintenance tells of."""
    spoilt: set[str] = field(default_factory=set)
    """Queues, and jobs of a lane with a foreign key in its place: Redis refuses calls about those, with `refusal`."""
    refusal: TenureError = field(default_factory=lambda: WrongState("a key holds something else than expected"))
    trouble: dict[int, TenureError] = field(default_factory=dict)
    """What becomes of a call that settles, by its number from 1."""
    ghosts: int = 0
    """Claims that find nothing and ask for another at once."""
    left: int | None = None
    crashed: set[str] = field(default_factory=set)
    announced: list[WorkerView] = field(default_factory=list)
    is_quiet: bool = False
    """What workers are told when they announce themselves."""
    paused: bool = False
    """Whether claims find nothing."""
    told: list[tuple[str, Progress]] = field(default_factory=list)
    cancels: dict[str, str] = field(default_factory=dict)
    """Held jobs that are to be cancelled: id -> reason."""
    cancel_channels: dict[str, str] = field(default_factory=dict)
    """Channels of other clients' requests to cancel, and their queues."""
    noted: list[tuple[str, str, bytes]] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    """The calls of a client, with their arguments."""
    enqueued: list[NewJob] = field(default_factory=list)
    others: dict[str, Enqueued] = field(default_factory=dict)
    """What the unique key of a job led to, where that is another job."""
    leases: list[Lease] = field(default_factory=list)
    """What the next claims get, one each, in place of what is ready. They do not come back."""
    late: Lease | None = None
    """What comes while a client waits."""
    views: list[JobView | None] = field(default_factory=list)
    a_page: Page = field(default_factory=lambda: Page((), 0))
    holds: bool = True
    """False: each lease is lost."""
    alone: set[str] = field(default_factory=set)
    """Jobs that are to run alone."""
    companies: list[Alone] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    prepared: int = 0
    """How often a worker was asked to prepare for a job that is to run alone."""
    limits_asked: list[int] = field(default_factory=list)
    of_lanes: list[dict[str, int]] = field(default_factory=list)
    token_of: Callable[[int], Token] = int
    """The token of a claim, by its number from 1. Tests with text tokens give another one."""
    group: str = ""
    """What the leases of claims settle together as."""
    waits: Callable[[Sequence[str], int], Wait] | None = None
    """How workers wait; None: by a blocking call."""
    _claims: dict[Token, int] = field(default_factory=dict)
    """Tokens in the order of the claims."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    schedules = None

    def _having(self, feature: Feature) -> Any:
        return self if feature in self.features else None

    partitions = property(lambda self: self._having(Feature.PARTITIONS))
    results = property(lambda self: self._having(Feature.PROGRESS))
    requests = property(lambda self: self._having(Feature.CANCEL))
    presence = property(lambda self: self._having(Feature.QUIET) and self._having(Feature.STACKS))
    history = property(lambda self: self._having(Feature.HISTORY))
    lanes = property(lambda self: self._having(Feature.LANES))
    limits = property(lambda self: self._having(Feature.LIMITS))
    delays = property(lambda self: self._having(Feature.DELAY))
    flows = property(lambda self: self._having(Feature.FLOWS))
    settings = property(lambda self: self._having(Feature.PAUSE))

    def text_of(self, job: NewJob) -> str:
        return f"{job.queue}/{job.task}/{job.payload.hex()}"

    def add(self, *ids: str, queue: str = "q", task: str | None = "t", **more: Any) -> None:
        counts = {"failures": more.pop("failures", 0), "crashes": more.pop("crashes", 0)}
        payload = more.pop("payload", b"")
        for id in ids:
            record = JobRecord(id, queue, payload, 0, task=task, **more)
            self.ready[queue].append(Lease("", 0, record, **counts))
        self._woken.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is true of the engine, looking whenever it changed."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def lose(self, id: str) -> LeaseRef:
        """Take a held job away from its worker."""
        ref = next(ref for ref in self.held if ref.id == id)
        del self.held[ref]
        return ref

    def outcomes(self, id: str) -> list[Outcome]:
        return [one.outcome for one in self.settled if one.lease.record.id == id]

    def _note(self, call: str) -> None:
        self.calls.append(call)
        self._changed.set()

    def lease(
        self,
        worker: str,
        queues: Sequence[str],
        limit: int,
        lease_ms: int | None = None,
        slots: int = 1,
        of_lane: Mapping[str, int] | None = None,
        alone: Alone = Alone.NOW,
    ) -> Steps[Leased]:
        def lease() -> Leased:
            self._note("lease")
            self.asked.append(("lease", worker, tuple(queues), limit, lease_ms))
            if self.leases:
                canned = self.leases.pop(0)
                self.held[canned.ref] = canned
                return Leased((canned,))
            self.orders.append(tuple(queues))
            self.limits_asked.append(limit)
            self.of_lanes.append(dict(of_lane or {}))
            got: list[Lease] = []
            if self.paused:
                return Leased()
            if self.ghosts:
                self.ghosts -= 1
                return Leased(next_ms=0)
            refused = tuple(Refused(queue, str(self.refusal)) for queue in queues if queue in self.spoilt)
            if refused and len(queues) == 1:
                raise self.refusal
            self.companies.append(alone)
            self.slots.append(slots)
            suspect_queue = None
            for queue in queues:
                lonely = next((lease for lease in self.ready[queue] if lease.record.id in self.alone), None)
                if lonely is not None and alone is not Alone.NO and not got:
                    self.ready[queue].remove(lonely)
                    lonely = structs.replace(lonely, alone_ms=self.timing.steady_ms)
                    return Leased((self._take(lonely, worker),), refused=refused)
                if lonely is not None:
                    self.prepared += 1
                    suspect_queue = queue
                others = [lease for lease in self.ready[queue] if lease is not lonely]
                for lease in others[: limit - len(got) if queue not in self.spoilt else 0]:
                    self.ready[queue].remove(lease)
                    got.append(self._take(lease, worker))
            return Leased(tuple(got), refused=refused, suspect_queue=suspect_queue)

        return one_call(lease)

    def _take(self, lease: Lease, worker: str) -> Lease:
        number = len(self._claims) + 1
        token = self.token_of(number)
        self._claims[token] = number
        claimed = structs.replace(lease, worker=worker, token=token, group=self.group)
        self.held[claimed.ref] = claimed
        return claimed

    def note_limit(self, template: str, queue: str) -> None: ...

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Wait:
        return Wake(self.wake(queues, timeout_ms)) if self.waits is None else self.waits(queues, timeout_ms)

    def wake(self, queues: Sequence[str], timeout_ms: int) -> Steps[str | None]:
        async def wait() -> str | None:
            self._note("wait")
            if not any(self.ready[queue] for queue in queues):  # as a wake-up that was left in Redis
                self._woken.clear()
            try:
                await asyncio.wait_for(self._woken.wait(), timeout_ms / 1000)
            except TimeoutError:
                return None
            return next((queue for queue in queues if self.ready[queue]), queues[0])

        def come() -> None:
            self.asked.append(("wait", timeout_ms))
            assert self.late is not None
            self.leases.append(self.late)

        return one_call(wait if self.late is None else come)

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        def settle() -> list[bool]:
            self.batches.append(len(settlements))
            if len(self.batches) in self.trouble:
                raise self.trouble.pop(len(self.batches))
            if self.spoilt.intersection(name for lease, _ in settlements for name in (lease.ref.queue, lease.ref.id)):
                self._changed.set()
                raise self.refusal
            answers = [self._settle_one(lease, outcome) for lease, outcome in settlements]
            back = [
                lease for lease, outcome in settlements if type(outcome) is Released and lease.token in self._claims
            ]
            for lease in sorted(back, key=lambda lease: self._claims[lease.token], reverse=True):
                self.ready[lease.record.queue].appendleft(lease)
            self._note("settle")
            return answers

        return one_call(settle)

    def _settle_one(self, lease: Lease, outcome: Outcome) -> bool:
        if self.held.pop(lease.ref, None) is None or not self.holds:
            self.refused.append(Settled(lease, outcome))
            return False
        self.settled.append(Settled(lease, outcome))
        if isinstance(outcome, Retried) and outcome.delay_ms == 0:
            self.ready[lease.record.queue].append(structs.replace(lease, failures=lease.failures + 1))
            self._woken.set()
        if isinstance(outcome, Unroutable):
            self.parked.append(lease)
        return True

    def extend(self, lease: Lease, ms: int) -> Steps[bool]:
        return self._answer(lambda: self.holds and lease.ref in self.held, "extend", lease.record.id, ms)

    def leave(self, worker: str, queues: Sequence[str], crashed: bool = False) -> Steps[int]:
        def leave() -> int:
            self.left = len(self.held)
            self.crashed = {ref.id for ref in self.held} if crashed else set()
            self.held.clear()
            self._note("leave")
            return self.left

        return one_call(leave)

    def maintain(
        self, queues: Sequence[str], tasks: Sequence[str], limit: int = 200, raw_queues: Collection[str] = ()
    ) -> Steps[Maintained]:
        self.raw_queues = set(raw_queues)

        def maintain() -> Maintained:
            self.offered = set(tasks)
            self._note("maintain")
            if self.spoilt.intersection(queues):
                raise self.refusal
            told, self.poisoned = tuple(self.poisoned), []
            return Maintained(poisoned=told, next_ms=self.next_ms)

        return one_call(maintain)

    def note_ends(self, queue: str, ends: Ends) -> Steps[None]:
        def note_ends() -> None:
            self.ended.append((queue, ends))

        return one_call(note_ends)

    def announce(self, worker: WorkerView) -> Steps[bool]:
        def announce() -> bool:
            self.announced.append(worker)
            self._note("announce")
            return self.is_quiet

        return one_call(announce)

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Steps[HeartbeatReply]:
        def heartbeat() -> HeartbeatReply:
            self._note("heartbeat")
            return HeartbeatReply(cancelled=self.asks([ref for ref in leases if ref.queue in queues]))

        return one_call(heartbeat)

    def asks(self, leases: Sequence[LeaseRef]) -> tuple[CancelAsked, ...]:
        return tuple(CancelAsked(ref, self.cancels[ref.id]) for ref in leases if ref.id in self.cancels)

    def progress(self, lease: Lease, progress: Progress) -> Steps[bool]:
        def progress_() -> bool:
            self.told.append((lease.record.id, progress))
            self.asked.append(("progress", lease.record.id, progress))
            self._note("progress")
            return self.holds and lease.ref in self.held

        return one_call(progress_)

    def signal_channel(self, worker: str) -> str:
        return f"signal:{worker}"

    def request_channels(self, queues: Sequence[str]) -> Mapping[str, str]:
        return {channel: queue for channel, queue in self.cancel_channels.items() if queue in queues}

    def note_request(self, worker: str, queue: str, message: bytes) -> Steps[bool]:
        def note() -> bool:
            self.noted.append((worker, queue, message))
            found = message.decode() in {lease.record.id for lease in self.held.values()}
            if found:
                self.cancels[message.decode()] = "theirs"
            return found

        return one_call(note)

    # ------------------------------------------------------------------------------------------------- for clients

    def engine(self, settings: Any) -> Any:
        return self

    def prefix(self, queue: str) -> str:
        return queue

    def enqueue(self, jobs: Any) -> Steps[list[Enqueued]]:
        def enqueue() -> list[Enqueued]:
            for job in jobs:
                check_job(self.name, frozenset(Feature) - self.features, job)
            known = {job.id for job in self.enqueued}
            self.enqueued += jobs
            return [self.others.get(job.id) or Enqueued(job.id, job.id not in known) for job in jobs]

        return one_call(enqueue)

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        return self._answer(lambda: self.views.pop(0), "result", queue, id)

    def result_channel(self, queue: str, id: str) -> str:
        return f"ended:{queue}:{id}"

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        return one_call(lambda: self.views[0])

    def queue(self, name: str) -> Steps[Any]:
        raise AssertionError("the name was to be refused")

    def retry(self, queue: str, id: str, payload: bytes | None = None, reshaped: Shape | None = None) -> Steps[bool]:
        raise AssertionError("the name was to be refused")

    def reschedule(self, queue: str, id: str, **change: Any) -> Steps[bool]:
        return self._answer(lambda: True, "reschedule", queue, id, change)

    def discard(self, queue: str, id: str) -> Steps[bool]:
        raise AssertionError("the id was to be refused")

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        return self._answer(lambda: CancelAnswer.REQUESTED, "cancel", queue, id, reason)

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        return self._answer(lambda: CancelCount(2, 1), "cancel_all", queue, lane, reason)

    def settings_of(self, queue: str) -> Steps[QueueSettings]:
        return self._answer(lambda: QueueSettings(), "settings", queue)

    def minutes(self, queue: str) -> Steps[Minutes]:
        return self._answer(lambda: Minutes(), "minutes", queue)

    def configure(self, queue: str, **given: Any) -> Steps[QueueSettings]:
        asked = {name: value for name, value in given.items() if value is not None}
        return self._answer(lambda: QueueSettings(**asked), "configure", queue, asked)

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        return self._answer(lambda: True, "park_lane", queue, lane)

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        return self._answer(lambda: False, "resume_lane", queue, lane)

    def quiet(self, worker: str, quiet: bool = True) -> Steps[bool]:
        return self._answer(lambda: True, "quiet", worker, quiet)

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        return self._answer(lambda: "a lane", "lane", queue, lane)

    def lane_page(self, queue: str, state: Any, cursor: int = 0, limit: int = 100) -> Steps[LanePage]:
        return self._answer(lambda: "lanes", "lanes", queue, state, cursor, limit)

    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = 100,
        lane: str | None = None,
        after: str | None = None,
    ) -> Steps[Any]:
        return self._answer(lambda: self.a_page, "page", queue, state, offset, limit, lane, after)

    def purge(self, queue: str, state: State) -> Steps[int]:
        return self._answer(lambda: 3, "purge", queue, state)

    def _answer(self, answer: Callable[[], Any], *asked: Any) -> Steps[Any]:
        def call() -> Any:
            self.asked.append(asked)
            return answer()

        return one_call(call)


def recorder() -> FakeEngine:
    """An engine with every feature, for tests of a client."""
    return FakeEngine(features=frozenset(Feature), late=held("late"))


class FakeRunner:
    """Runs the steps of the fake engine for a client, and records to which channels it subscribes."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def run(self, steps: Steps[Any]) -> Any:
        try:
            call: Any = next(steps)
            while True:
                call = steps.send(call())
        except StopIteration as stop:
            return stop.value

    async def arun(self, steps: Steps[Any]) -> Any:
        return self.run(steps)

    @contextlib.contextmanager
    def subscribe(self, *channels: str) -> Any:
        self.log += channels
        try:
            yield self
        finally:
            self.log.append("left")

    @contextlib.asynccontextmanager
    async def asubscribe(self, channel: str) -> Any:
        with self.subscribe(channel):
            yield AsyncMessages(self)

    def get(self, timeout_s: float) -> bytes | None:
        self.log.append(timeout_s)
        return None

    def close(self) -> None:
        self.log.append("close")

    async def aclose(self) -> None:
        self.log.append("aclose")


class AsyncMessages:
    def __init__(self, runner: FakeRunner) -> None:
        self.runner = runner

    async def get(self, timeout_s: float) -> bytes | None:
        return self.runner.get(timeout_s)


def held(id: str, payload: bytes = b"x") -> Lease:
    return Lease("hand", 7, JobRecord(id, "q", payload, 0), failures=1, crashes=1)


def view(state: State, result: bytes | None = None, error: ErrorInfo | None = None) -> JobView:
    return JobView("id", "q", state, result=result, error=error)


def double(a: int, b: int = 1) -> int:
    return a * 2 * b
