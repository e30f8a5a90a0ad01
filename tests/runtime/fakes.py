"""A driver and a keeper in memory, for tests of the worker: no Redis, no processes, and faults on demand."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from tenure.core.backoff import Backoff
from tenure.core.clock import lease_clock
from tenure.core.engine import CancelAsked, HeartbeatReply
from tenure.core.job import Lease, LeaseRef
from tenure.core.outcome import Outcome, Released, TimedOut
from tenure.core.task import TaskSpec
from tenure.core.values import replace
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.jobs.job import current_job
from tenure.runtime.ports import Env, Exclusive, KeeperGone, WorkerLimits
from tenure.runtime.worker import Worker
from tests.support.fakes import FakeEngine


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
        self.exclusive: list[list[Exclusive]] = []
        self.replaced = 0
        self.starts = 0
        self.stopped = False
        self.left: bool | None = None
        """Whether the jobs that were left to it count as crashed; None: none were left."""
        self.good_at = clock()
        """When the last good beat of all queues was sent."""
        self.mute = False
        """While set, the reports that are read do not say that anything is kept."""
        self._ready = ready
        self._queues: Sequence[str] = ()
        self._heard = asyncio.Event()

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
        orphaned: Sequence[Lease] = (),
        cancelled: Sequence[CancelAsked] = (),
        paused: Sequence[str] = (),
    ) -> None:
        wishes, queues = tuple(cancelled), frozenset(paused)
        self.reports.put_nowait(HeartbeatReply(frozenset(lost), tuple(orphaned), cancelled=wishes, paused=queues))

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

    def keep(self, queues: frozenset[str]) -> None:
        self.kept.append(queues)

    def guard(self, pids: Sequence[int], exclusive: Sequence[Exclusive] = ()) -> None:
        self.guarded.append(list(pids))
        self.exclusive.append(list(exclusive))

    def replace(self) -> None:
        self.replaced += 1
        self.die()

    async def heard(self, count: int) -> None:
        """Wait until the worker has acted on so many reports from now on."""
        until = len(self.shown) + count
        while len(self.shown) < until:
            self._heard.clear()
            await self._heard.wait()

    async def stop(self, *, left: bool = False, crashed: bool = False, outcomes: TimedOut = ()) -> None:
        self.stopped = True
        self.outcomes = outcomes
        if left:
            self.left = crashed
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
        code = UserCode(specs, options.pop("listeners", ()), options.pop("middleware", ()))
        if numbers := options.pop("limits", None):
            options["env"] = replace(options.get("env") or Env(), limits=WorkerLimits(**numbers))
        defaults: dict[str, Any] = {"concurrency": 2, "grace_ms": 2_000, "signals": False, "queues": ["q"]}
        worker_type: Any = options.pop("worker_type", Worker)
        env = options.pop("env", None)
        settings = WorkerSettings(**defaults | options)
        self.worker = worker_type(self.engine, self.driver, code, settings, keeper=self.keeper, env=env)
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

    async def ends(self, *ids: str) -> list[Outcome]:
        """Wait until the first attempt of each job has ended, and return how.

        A release is no end: on a machine that stands still the worker may release a job before its handler begins.
        """

        def ends() -> list[Outcome]:
            ended = [one for one in reversed(self.engine.settled) if one.outcome != Released()]
            first = {one.lease.record.id: one.outcome for one in ended}
            return [first[id] for id in ids if id in first]

        await self.engine.until(lambda: len(ends()) == len(ids))
        return ends()


async def warmed_up(rig: Rig, gate: Gate) -> None:
    """Wait until the worker has seen that its jobs are short, and claims ahead. Then close the gate."""
    gate.open.set()
    ids = [f"short{number}" for number in range(20)]
    rig.engine.add(*ids)
    await rig.ends(*ids)
    gate.begun = asyncio.Queue()
    gate.open.clear()
