"""Claims due jobs, in a test, and lets the parts of a worker run and settle them, one after another."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tenure.client.call import TaskCall
from tenure.core import limits
from tenure.core.errors import InvalidArgument, JobFailed, RedisError, invalid
from tenure.core.job import ErrorInfo, JobRecord, Lease
from tenure.core.outcome import Broken, Completed, Crashed, Failed, Outcome, Retried
from tenure.core.shape import Progress
from tenure.core.signals import JobCancelled, RateLimited, Retry, Snooze
from tenure.core.steps import Steps, Watcher
from tenure.core.task import TaskSpec
from tenure.core.values import replace
from tenure.runtime.assembly import JobParts, UserCode, WorkerSettings
from tenure.runtime.context import WorkerContext
from tenure.runtime.handlers.threads import Pools
from tenure.runtime.intake import Intake
from tenure.runtime.jobs.beats import Kept
from tenure.runtime.jobs.held import Ended, Held, Outcomes
from tenure.runtime.jobs.overrun import WATCH_MS
from tenure.runtime.jobs.reports import Reports, Subscriber
from tenure.runtime.jobs.table import Inflight
from tenure.runtime.loops import MonitoredDriver
from tenure.runtime.observe.dispatcher import EventDispatcher
from tenure.runtime.ports import Env, WorkerLimits

if TYPE_CHECKING:
    from tenure.app.run import RunnableApp
    from tenure.client.client import Client

T = TypeVar("T")

IMMEDIATE: Final = "immediate"
"""Stands for the worker of a call that Redis does not know."""


@dataclass(frozen=True, slots=True)
class Drained:
    """How many attempts ended in each way.

    assert app.testing().drain() == Drained(completed=3)
    """

    completed: int = 0
    retried: int = 0
    failed: int = 0
    broken: int = 0
    cancelled: int = 0
    unroutable: int = 0
    crashed: int = 0


class Drain(Subscriber):
    """One drain. To be made on the event loop that async handlers run on. `pools`: where sync code of the user runs.

    Jobs run one at a time, and each is settled before the next one starts. A persistent job that has returned keeps
    its slot until the end of the drain: once it is settled it is ready again.
    """

    def __init__(self, app: RunnableApp, client: Client, pools: Pools, *, limit: int = 1, raises: bool = True) -> None:
        self._app = app
        self._client = client
        self._limit = limit
        self._raises = raises
        self._worker = f"test-{secrets.token_hex(8)}"
        self._lifespan = app.lifespan()
        self._queues_seen: tuple[str, ...] = ()
        self._ran = 0
        self._counts: Counter[str] = Counter()
        self._errors: list[BaseException] = []
        """What handlers have raised."""
        self._decided: Outcomes = []
        self._settled: Outcomes = []
        self._has_ended = asyncio.Event()
        self._env = env = Env(limits=WorkerLimits(rest_ms=limits.DAY))
        self._inflight = Inflight(limits.MAX_HELD)
        self._events = EventDispatcher(app.listeners, self._worker, env)
        self._link = _Link(client)
        reports = Reports([self._events, self])
        # No lease gets too old to start: a debugger may hold the drain up. Redis shows a loss at the settlement.
        kept = Kept(math.inf, env.lease_clock)
        context = WorkerContext(
            self._worker,
            (),
            client.engine,
            MonitoredDriver(self._link, env, reports),
            env,
            self._inflight,
            Intake(lambda queues: None, kept, frozenset(), env),
            reports,
            payloads=app.payloads,
            pools=pools,
            raised=self._note,
        )
        code = UserCode(list(map(_in_this_process, app.specs())), app.listeners, app.layers)
        settings = WorkerSettings((), max_payload=app.settings.payload_limit)
        self._parts = JobParts(context, code, settings, self._progress, extend=self._extend)

    async def run(self) -> Drained:
        """Run jobs until a look at all queues finds none."""
        async with self._open():
            found = True
            while found:
                found = False
                for queue in await self._link.run(self._queues()):
                    while leases := await self._link.run(self._claim(queue)):
                        await self._run(leases)
                        found = True
        return Drained(**self._counts)

    async def call(self, call: TaskCall[Any]) -> bytes:
        """Run one call without Redis, and return its encoded result. Raises what the handler raises."""
        if not isinstance(call, TaskCall):
            raise invalid("call", "a call of a task, as in add.call(1, 2)", type(call).__name__)
        task = self._app.tasks.get(call.task)
        if task is None:
            raise InvalidArgument(f"The call is of task {call.task}, which this app does not have.")
        now_ms, options = round(time.time() * limits.SECOND), call.options
        record = JobRecord(
            IMMEDIATE,
            task.queue,
            call.payload,
            now_ms,
            task=task.name,
            timeout_ms=options.timeout_ms,
            retries=options.retries,
            headers=options.headers or None,
        )
        lease = Lease(IMMEDIATE, 1, record, 0, 0)
        spec = self._parts.routes.route(lease)
        assert spec is not None
        async with self._open():
            self._inflight.add(lease, spec, self._env.clock())
            self._parts.executor.dispatch()
            await self._until_ended()
        [(_, outcome)] = self._decided
        if isinstance(outcome, Completed):
            return outcome.result
        raise next(iter(self._errors), _failure(lease, outcome))

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        """Hold the app's lifespan open. At the end: settle the persistent jobs, and release what has not ended."""
        await self._lifespan.begin()
        dispatching = asyncio.create_task(self._events.run())
        try:
            yield
        finally:
            try:
                await self._leave()
            finally:
                await self._lifespan.end()
                dispatching.cancel()
                self._parts.close()

    async def _leave(self) -> None:
        self._parts.canceller.end_all()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._until_ended(), self._env.limits.cancel_ms / limits.SECOND)
        if self._queues_seen:
            await self._settle()
            await self._link.run(self._client.engine.leave(self._worker, self._queues_seen))

    # -------------------------------------------------------------------------------------------------------- claiming

    def _queues(self) -> Steps[list[str]]:
        known = yield from self._client.engine.queues()
        queues = list(dict.fromkeys([*(spec.queue for spec in self._app.specs()), *sorted(known)]))
        tasks, raw_queues = self._parts.routes.offered(True)
        yield from self._client.engine.maintain(queues, tasks, raw_queues=raw_queues)
        self._queues_seen = tuple(queues)
        return queues

    def _claim(self, queue: str) -> Steps[tuple[Lease, ...]]:
        """Claim one job, or the jobs of one batch. One call may not get past cancelled jobs, so it repeats."""
        rule = self._parts.routes.batch_rules().get(queue)
        size = 1 if rule is None else rule.size
        of_lane = {queue: size} if rule is not None and rule.one_lane else None
        engine, held = self._client.engine, self._inflight.snapshot()
        if held:
            yield from engine.heartbeat(self._worker, list(self._inflight.queues()), list(held))
        for _ in range(limits.LEASE_LOOKS):
            leased = yield from engine.lease(self._worker, [queue], size, None, limits.MAX_HELD, of_lane)
            if leased.leases or leased.next_ms != 0:
                return leased.leases
        return ()

    async def _run(self, leases: Sequence[Lease]) -> None:
        """Run the jobs of one claim."""
        for group in self._groups(leases):
            self._ran += len(group)
            if self._ran > self._limit:
                raise AssertionError(
                    f"drain() has run {self._limit:,} jobs, and more are due, the next in queue "
                    f"{group[0].record.queue!r}. Does a task enqueue itself? Or pass a higher limit."
                )
            self._parts.executor.accept(group, 0.0)
            await self._until_ended()
            await self._settle()
            self._raise()

    def _groups(self, leases: Sequence[Lease]) -> Iterable[Sequence[Lease]]:
        """Return the leases in groups that run together: a batch, or one job."""
        groups: dict[object, list[Lease]] = {}
        for lease in leases:
            spec, shape = self._parts.routes.route(lease), lease.record.shape
            if spec is None or spec.batch is None or shape.persistent:
                groups[lease.ref] = [lease]
            else:
                groups.setdefault(shape.lane if spec.batch.one_lane else None, []).append(lease)
        return groups.values()

    async def _until_ended(self) -> None:
        """Wait until no handler runs. End those that time out."""
        while any(run.rest is None for run in self._inflight.running):
            self._has_ended.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), WATCH_MS / limits.SECOND)
            self._parts.canceller.watch(self._env.clock())

    async def _settle(self) -> None:
        """Write the outcomes to Redis, and wait for listeners and hooks."""
        await self._parts.settler.settle_due()
        if self._link.refusal is not None:
            raise self._link.refusal
        for held, outcome in self._settled:
            if self._app.payloads is not None and isinstance(outcome, Completed):
                await asyncio.to_thread(self._app.payloads.delete, held)
        await self._events.flushed()
        if self._parts.hooks is not None:
            await self._parts.hooks.flushed()

    def _raise(self) -> None:
        """Raise what the handlers raised, unless they asked for a retry or for their cancellation."""
        errors, self._errors, settled, self._settled = self._errors, [], self._settled, []
        for error in errors:
            if not isinstance(error, (Exception, SystemExit)):  # Ctrl-C, or pytest.fail
                raise error
            if self._raises and not isinstance(error, (Retry, Snooze, RateLimited, JobCancelled)):
                raise error
        for held, outcome in settled if self._raises and not errors else ():
            asked = isinstance(outcome, Retried) and outcome.error.type in _DEFERRED
            if isinstance(outcome, (Retried, Failed, Broken, Crashed)) and not asked:
                raise _failure(held.lease, outcome)

    # --------------------------------------------------------------------------------------------- reports and services

    def finished(self, ended: Sequence[Ended]) -> None:
        for _, outcomes, _ in ended:
            self._decided += outcomes
        self._has_ended.set()

    def _note(self, error: BaseException) -> None:
        if not isinstance(error, asyncio.CancelledError):  # as a timeout ends a handler
            self._errors.append(error)

    def settled(self, items: Outcomes) -> None:
        self._settled += items
        self._counts.update(name for _, outcome in items if (name := type(outcome).__name__.lower()) in _COUNTED)

    async def _extend(self, held: Held, ms: int) -> bool:
        held.extend(self._env.clock() + ms / limits.SECOND)
        return True

    def _progress(self, held: Held, progress: Progress) -> None:
        results = self._client.engine.results
        if results is not None and held.lease.worker != IMMEDIATE:
            self._client.run(results.progress(held.lease, progress))


class _Link:
    """Runs the calls of a drain over the client's connections. `refusal`: an error that the settler would wait for."""

    refusal: RedisError | None = None

    def __init__(self, client: Client) -> None:
        self._client = client
        self.subscribe = client.runner.asubscribe

    async def run(self, steps: Steps[T]) -> T:
        try:
            return await self._client.arun(steps)
        except RedisError as error:
            self.refusal = error
            raise

    def watch(self, watcher: Watcher) -> None:
        """Do nothing: the drain raises its errors."""


_DEFERRED: Final = (Retry.__name__, Snooze.__name__, RateLimited.__name__)
_CRASH: Final = ErrorInfo("Crashed", "its task on the event loop was cancelled, by other code than Tenure")
_COUNTED: Final = frozenset(field.name for field in fields(Drained))


def _in_this_process(spec: TaskSpec) -> TaskSpec:
    """The same task, for this process; a batch does not wait for more jobs."""
    batch = None if spec.batch is None else replace(spec.batch, linger_ms=0)
    return replace(spec, batch=batch, run_in=None)


def _failure(lease: Lease, outcome: Outcome) -> JobFailed:
    state, record = type(outcome).__name__.lower(), lease.record
    error = _CRASH if isinstance(outcome, Crashed) else getattr(outcome, "error", ErrorInfo("", ""))
    return JobFailed(state, error.type, error.message, error.traceback, id=record.id, task=record.task)
