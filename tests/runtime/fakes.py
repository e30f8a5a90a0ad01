"""An engine, a driver and a keeper in memory, for tests of the worker: no Redis, no processes, and faults on demand."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from msgspec import structs

from leasehold.core.backoff import Backoff
from leasehold.core.clock import lease_clock
from leasehold.core.engine import Alone, CancelAsked, HeartbeatReply, Maintained, Timing
from leasehold.core.errors import LeaseholdError, WrongState
from leasehold.core.job import JobRecord, JobView, Lease, Leased, LeaseRef, Refused, Token, WorkerView
from leasehold.core.outcome import Outcome, Released, Retried, Unroutable
from leasehold.core.shape import PLAIN, Progress, Shape
from leasehold.core.steps import Steps
from leasehold.core.task import TaskSpec
from leasehold.core.waiting import Wait, Wake
from leasehold.runtime import KeeperGone, Worker, current_job
from leasehold.runtime.ports import Env, WorkerLimits


def one_call(call: Callable[[], Any]) -> Generator[Any, Any, Any]:
    """Steps of one call, whose reply is the answer."""
    return (yield call)


@dataclass
class Settled:
    lease: Lease
    outcome: Outcome


@dataclass
class FakeEngine:
    """Jobs in lists. Its steps yield plain functions, sync or async, which the fake driver calls."""

    timing: Timing = field(default_factory=lambda: Timing(beat_ms=20, idle_wait_ms=200, maintain_ms=50, presence_ms=50))
    name: str = "fake"
    features: frozenset[Any] = frozenset()
    ready: dict[str, deque[Lease]] = field(default_factory=lambda: defaultdict(deque))
    held: dict[LeaseRef, Lease] = field(default_factory=dict)
    settled: list[Settled] = field(default_factory=list)
    refused: list[Settled] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    orders: list[tuple[str, ...]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    parked: list[Lease] = field(default_factory=list)
    raw_queues: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=set)
    """The tasks whose parked jobs the last maintenance asked for."""
    poisoned: list[JobView] = field(default_factory=list)
    """What the next maintenance tells of."""
    spoilt: set[str] = field(default_factory=set)
    """Queues, and jobs of a lane with a foreign key in its place: Redis refuses calls about those, with `refusal`."""
    refusal: LeaseholdError = field(default_factory=lambda: WrongState("a key holds something else than expected"))
    trouble: dict[int, LeaseholdError] = field(default_factory=dict)
    """What becomes of a call that settles, by its number from 1."""
    ghosts: int = 0
    """Claims that find nothing and ask for another at once."""
    left: int | None = None
    crashed: set[str] = field(default_factory=set)
    announced: list[WorkerView] = field(default_factory=list)
    quiet: bool = False
    """What workers are told when they announce themselves."""
    paused: bool = False
    """Whether claims find nothing."""
    told: list[tuple[str, Progress]] = field(default_factory=list)
    asked: dict[str, str] = field(default_factory=dict)
    """Held jobs that are to be cancelled: id -> reason."""
    alone: set[str] = field(default_factory=set)
    """Jobs that are to run alone."""
    companies: list[Alone] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    reserved: int = 0
    """How often a job that is to run alone was kept for who claimed."""
    limits: list[int] = field(default_factory=list)
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

    def add(self, *ids: str, queue: str = "q", task: str | None = "t", **more: Any) -> None:
        counts = {"failures": more.pop("failures", 0), "crashes": more.pop("crashes", 0)}
        for id in ids:
            limits = (more.get("timeout_ms"), more.get("retries"))
            shape: Shape = more.get("shape", PLAIN)
            record = JobRecord(id, queue, task, more.get("payload", b""), 0, *limits, more.get("malformed", ""), shape)
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
            self.orders.append(tuple(queues))
            self.limits.append(limit)
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
            for queue in queues:
                lonely = next((lease for lease in self.ready[queue] if lease.record.id in self.alone), None)
                if lonely is not None and alone in (Alone.NOW, Alone.BESIDE) and not got:
                    self.ready[queue].remove(lonely)
                    lonely = structs.replace(lonely, alone_ms=self.timing.steady_ms)
                    return Leased((self._take(lonely, worker),), refused=refused)
                if lonely is not None and alone is not Alone.NO:
                    self.reserved += 1
                    return Leased(tuple(got), refused=refused, reserved=queue)
                others = [lease for lease in self.ready[queue] if lease is not lonely]
                for lease in others[: limit - len(got) if queue not in self.spoilt else 0]:
                    self.ready[queue].remove(lease)
                    got.append(self._take(lease, worker))
            return Leased(tuple(got), refused=refused)

        return one_call(lease)

    def _take(self, lease: Lease, worker: str) -> Lease:
        number = len(self._claims) + 1
        token = self.token_of(number)
        self._claims[token] = number
        claimed = structs.replace(lease, worker=worker, token=token, group=self.group)
        self.held[claimed.ref] = claimed
        return claimed

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

        return one_call(wait)

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        def settle() -> list[bool]:
            self.batches.append(len(settlements))
            if len(self.batches) in self.trouble:
                raise self.trouble.pop(len(self.batches))
            if self.spoilt.intersection(name for lease, _ in settlements for name in (lease.ref.queue, lease.ref.id)):
                self._changed.set()
                raise self.refusal
            answers = [self._settle_one(lease, outcome) for lease, outcome in settlements]
            back = [lease for lease, outcome in settlements if isinstance(outcome, Released)]
            for lease in sorted(back, key=lambda lease: self._claims[lease.token], reverse=True):
                self.ready[lease.record.queue].appendleft(lease)
            self._note("settle")
            return answers

        return one_call(settle)

    def _settle_one(self, lease: Lease, outcome: Outcome) -> bool:
        if self.held.pop(lease.ref, None) is None:
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
        return one_call(lambda: lease.ref in self.held)

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
            return Maintained(poisoned=told)

        return one_call(maintain)

    def announce(self, worker: WorkerView) -> Steps[bool]:
        def announce() -> bool:
            self.announced.append(worker)
            self._note("announce")
            return self.quiet

        return one_call(announce)

    def heartbeat(self, worker: str, queues: Sequence[str], leases: Sequence[LeaseRef]) -> Steps[HeartbeatReply]:
        def heartbeat() -> HeartbeatReply:
            self._note("heartbeat")
            return HeartbeatReply(cancelled=self.asks([ref for ref in leases if ref.queue in queues]))

        return one_call(heartbeat)

    def asks(self, leases: Sequence[LeaseRef]) -> tuple[CancelAsked, ...]:
        return tuple(CancelAsked(ref, self.asked[ref.id]) for ref in leases if ref.id in self.asked)

    def progress(self, lease: Lease, progress: Progress) -> Steps[bool]:
        def progress_() -> bool:
            self.told.append((lease.record.id, progress))
            self._note("progress")
            return lease.ref in self.held

        return one_call(progress_)

    def signal_channel(self, worker: str) -> str:
        return f"signal:{worker}"


class FakeDriver:
    """Calls what the fake engine's steps yield. `fault` runs before each call and may raise or wait."""

    def __init__(self) -> None:
        self.fault: Callable[[str], Any] | None = None
        self.after: Callable[[str], Any] | None = None
        self.channels: dict[str, list[asyncio.Queue[bytes]]] = defaultdict(list)
        self.subscribed = asyncio.Event()

    def watch(self, watcher: Any) -> None:
        self.watcher = watcher

    def subscribe(self, channel: str) -> FakeMessages:
        return FakeMessages(self, channel)

    def publish(self, channel: str, message: str) -> None:
        for queue in self.channels[channel]:
            queue.put_nowait(message.encode())

    async def run(self, steps: Any) -> Any:
        call = next(steps)
        name = call.__name__
        await self._hook(self.fault, name)
        answer = call()
        if asyncio.iscoroutine(answer):
            answer = await answer
        await self._hook(self.after, name)
        try:
            steps.send(answer)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("fake steps make one call")

    async def _hook(self, hook: Callable[[str], Any] | None, name: str) -> None:
        if hook is not None and (waiting := hook(name)) is not None:
            await waiting


class FakeMessages:
    """A subscription of the fake driver."""

    def __init__(self, driver: FakeDriver, channel: str) -> None:
        self._driver = driver
        self._channel = channel
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()

    async def __aenter__(self) -> FakeMessages:
        await self._driver._hook(self._driver.fault, "subscribe")
        self._driver.channels[self._channel].append(self._queue)
        self._driver.subscribed.set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._driver.channels[self._channel].remove(self._queue)

    async def get(self, timeout_s: float) -> bytes | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._queue.get()
        except TimeoutError:
            return None


class FakeKeeper:
    """Reports what a test puts into it. Ready at once, unless told otherwise.

    `every_s`: a good beat follows whenever no other report did for as long. A test that may last longer than a keeper
    may be silent needs them. None: no beats but those of the test.
    """

    def __init__(
        self, *, ready: bool = True, clock: Callable[[], float] = lease_clock, every_s: float | None = None
    ) -> None:
        self.clock = clock
        self._every_s = every_s
        self.reports: asyncio.Queue[tuple[HeartbeatReply, float] | HeartbeatReply | Exception | None] = asyncio.Queue()
        self.shown: list[dict[LeaseRef, float]] = []
        self.kept: list[frozenset[str]] = []
        self.guarded: list[list[int]] = []
        self.kills = 0
        self.starts = 0
        self.stopped = False
        self.bequeathed: bool | None = None
        """Whether what was left to it counts as crashed; None: nothing was."""
        self.ended = False
        """Whether it cannot be left anything any more."""
        self.good_at = clock()
        """When the last good beat of all queues was sent."""
        self.mute = False
        """While set, the reports that are read do not say that anything is kept."""
        self._ready = ready
        self._queues: Sequence[str] = ()
        self._heard = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return None

    @property
    def kept_at(self) -> dict[str, float]:
        return dict.fromkeys(self._queues, self.good_at)

    async def start(self, worker: str, queues: Sequence[str]) -> None:
        self.starts += 1
        self._queues = queues
        if self._ready:
            self.beat()

    def beat(
        self,
        *,
        lost: Sequence[LeaseRef] = (),
        strays: Sequence[Lease] = (),
        cancelled: Sequence[CancelAsked] = (),
        paused: Sequence[str] = (),
    ) -> None:
        wishes, queues = tuple(cancelled), frozenset(paused)
        self.reports.put_nowait(HeartbeatReply(frozenset(lost), tuple(strays), cancelled=wishes, paused=queues))

    def said(self, sent_at: float) -> None:
        """A beat that was sent at this time, whenever it is read."""
        self.reports.put_nowait((HeartbeatReply(), sent_at))

    def die(self) -> None:
        self.reports.put_nowait(KeeperGone("died"))

    async def report(self) -> HeartbeatReply | None:
        said: Any = HeartbeatReply()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._every_s):
                said = await self.reports.get()
        if isinstance(said, Exception):
            raise said
        if isinstance(said, tuple):
            beat, self.good_at = said
            return beat
        if not self.mute:
            self.good_at = self.clock()
        return said

    def show(self, leases: Mapping[LeaseRef, float]) -> None:
        self.shown.append(dict(leases))
        self._heard.set()

    def bequeath(self, crashed: bool) -> bool:
        if self.ended:
            return False
        self.bequeathed = crashed
        return True

    def keep(self, queues: frozenset[str]) -> None:
        self.kept.append(queues)

    def guard(self, pids: Sequence[int]) -> None:
        self.guarded.append(list(pids))

    def kill(self) -> None:
        self.kills += 1
        self.die()

    async def heard(self, count: int) -> None:
        """Wait until the worker has acted on so many reports from now on."""
        until = len(self.shown) + count
        while len(self.shown) < until:
            self._heard.clear()
            await self._heard.wait()

    async def stop(self) -> None:
        self.stopped = True
        self.die()


def task(function: Callable[..., Any], **options: Any) -> TaskSpec:
    """A task called `t` without arguments, whose retries come at once."""
    settings: dict[str, Any] = {
        "name": "t",
        "queue": "q",
        "function": function,
        "is_async": asyncio.iscoroutinefunction(function),
        "encode_result": lambda value: repr(value).encode(),
        "decode": lambda payload: ((), {}),
        "backoff": Backoff.fixed(0),
    }
    return TaskSpec(**(settings | options))


class Gate:
    """A handler that says when it began and waits to be let go."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.open = asyncio.Event()
        self.cancelled: list[str] = []

    async def __call__(self) -> None:
        job = current_job()
        assert job is not None
        self.begun.put_nowait(job.id)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(job.id)
            raise


def gated(gate: Gate, **options: Any) -> TaskSpec:
    return task(gate, is_async=True, **options)


class Rig:
    """A worker on fakes, run as a task. Use it as `async with`: it is stopped at the end, whatever happened.

    `limits`: numbers of its `WorkerLimits`. `worker_type`: a class in place of `Worker`.
    """

    def __init__(self, function: Callable[..., Any] | TaskSpec, **options: Any) -> None:
        spec = function if isinstance(function, TaskSpec) else task(function)
        self.engine: FakeEngine = options.pop("engine", None) or FakeEngine()
        self.driver = FakeDriver()
        self.keeper: FakeKeeper = options.pop("keeper", None) or FakeKeeper()
        specs = [spec, *options.pop("more", [])]
        named = {spec.name: spec for spec in specs if spec.name is not None}
        raw = {spec.queue: spec for spec in specs if spec.name is None}
        if numbers := options.pop("limits", None):
            options["env"] = replace(options.get("env") or Env(), limits=WorkerLimits(**numbers))
        options = {"concurrency": 2, "grace_ms": 2_000, "signals": False, "queues": ["q"]} | options
        queues = options.pop("queues")
        worker_type: Any = options.pop("worker_type", Worker)
        self.worker = worker_type(self.engine, self.driver, named, raw, queues, keeper=self.keeper, **options)
        self.done: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> Self:
        self.done = asyncio.get_running_loop().create_task(self.worker.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.done is not None
        if not self.done.done():
            self.worker.stop()
            self.worker.stop()
        await self.done

    async def ended(self) -> Any:
        assert self.done is not None
        return await asyncio.shield(self.done)

    async def settled(self, count: int) -> list[Settled]:
        await self.engine.until(lambda: len(self.engine.settled) >= count)
        return self.engine.settled
