"""Calls handlers in the process of a test as a worker does: with middleware, timeouts, the current job and hooks."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import secrets
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.job import Lease
from tenure.core.outcome import Completed, Outcome
from tenure.core.shape import Progress
from tenure.core.steps import Steps
from tenure.core.task import TaskSpec
from tenure.runtime.handlers.hooks import Hook, hook_of
from tenure.runtime.handlers.invoke import Caller
from tenure.runtime.handlers.middleware import Layers
from tenure.runtime.handlers.routes import Routes
from tenure.runtime.jobs.held import NO_RUNNER, Batch, Held, Outcomes, Phase, Stop
from tenure.runtime.jobs.job import JobServices, enter, job_of
from tenure.runtime.log import callback_failed
from tenure.runtime.observe.dispatcher import EventDispatcher
from tenure.runtime.ports import Env

if TYPE_CHECKING:
    from tenure.app.tasks import Task
    from tenure.client.client import Client
    from tenure.core.events import Listener
    from tenure.core.schedules.schedule import ScheduleSpec
    from tenure.protocols.spec import WireProtocol
    from tenure.runtime.handlers.middleware import Middleware
    from tenure.runtime.lifespan import Lifespan
    from tenure.runtime.stored import StoredPayloads
    from tenure.settings import Settings


class AppCode(Protocol):
    """What tests need of an app: its code and its settings."""

    protocol: WireProtocol | str

    @property
    def settings(self) -> Settings: ...
    @property
    def tasks(self) -> Mapping[str, Task[Any, Any, Any]]: ...
    @property
    def listeners(self) -> tuple[Listener, ...]: ...
    @property
    def layers(self) -> tuple[Middleware, ...]: ...
    def specs(self) -> tuple[TaskSpec, ...]: ...
    def lifespan(self) -> Lifespan: ...
    def scheduled(self, source: str, queues: Collection[str]) -> tuple[ScheduleSpec, ...]: ...
    @property
    def payloads(self) -> StoredPayloads | None: ...


LOOK_S: Final = 0.5
"""How often a drain checks whether a handler has extended its time."""
IMMEDIATE: Final = "immediate"
"""Stands for the worker of a call that Redis does not know."""


@dataclass(frozen=True, slots=True)
class UserCall:
    """A call of the user's code: awaited on the event loop, or made in a thread without one."""

    function: Callable[[], Any]
    on_loop: bool


Action: TypeAlias = "Steps[Any] | UserCall"
"""What the driver of a drain does next."""


class Attempts:
    """Runs attempts one at a time, while `begin` and `end` hold the app's lifespan open."""

    def __init__(self, app: AppCode, client: Client) -> None:
        self._app = app
        self._client = client
        self._lifespan = app.lifespan()
        self.errors: list[BaseException] = []
        """What the handler of the last attempt raised."""
        self._answers: Outcomes = []
        """Of jobs of a batch that ended before the batch."""

    async def begin(self) -> None:
        """Begin the lifespan, on the loop that runs the app's async code."""
        env, app = Env(), self._app
        self._layers = Layers(app.layers, slots=1)
        specs = [self._noting(self._layers.around(spec)) for spec in app.specs()]
        self.routes = Routes(specs, app.settings.payload_limit)
        self._caller = Caller(random.random, env.clock, payloads=app.payloads)
        self._services = JobServices(
            asyncio.get_running_loop(),
            env.clock,
            random.random,
            self._extend,
            self._progress,
            self._answer,
            self._extend_now,
        )
        # On the loop a worker refuses `job.extend()`, which would block it.
        self._loop_services = replace(self._services, extend_now=None)
        self._events = EventDispatcher(app.listeners, f"test-{secrets.token_hex(4)}", env)
        await self._lifespan.begin()
        self._dispatching = asyncio.create_task(self._events.run())

    async def end(self) -> None:
        """End the lifespan."""
        try:
            await self._lifespan.end()
        finally:
            self._layers.close()
            self._dispatching.cancel()
            with suppress(asyncio.CancelledError):
                await self._dispatching

    def run(self, leases: Sequence[Lease], spec: TaskSpec) -> Generator[Action, Any, Outcomes]:
        """Run one job, or the jobs of a batch, and return the outcomes, which are not settled."""
        now = self._services.clock()
        members = [_held(lease, spec, now) for lease in leases]
        run: Held | Batch = members[0]
        if spec.batch is not None:
            run = Batch(spec, members, members[0].persistent)
            run.started_at = now
            for held in members:
                held.batch = run
        services = self._loop_services if spec.is_async else self._services
        run.prepare(services, NO_RUNNER, now)
        self._events.started(run)
        self.errors, self._answers = [], []
        if spec.is_async:
            outcomes: Outcomes = yield UserCall(lambda: self._on_loop(run), on_loop=True)
        else:
            outcomes = yield UserCall(lambda: self._caller.in_thread(run), on_loop=False)
            yield UserCall(_turn, on_loop=True)  # a thread passes the answers for jobs of a batch to the loop
        for held in members:
            held.end_at(self._services.clock())
        return [*self._answers, *outcomes]

    def report(self, outcomes: Outcomes) -> Generator[Action, Any, None]:
        """After the settlement: call listeners and hooks."""
        self._events.settled(outcomes)
        for held, outcome in outcomes:
            if self._app.payloads is not None and isinstance(outcome, Completed):
                yield UserCall(partial(self._app.payloads.delete, held), on_loop=False)
        yield UserCall(self._events.flushed, on_loop=True)
        for held, outcome in outcomes:
            hook = hook_of(held, outcome)
            if hook is not None:
                call = _Hook(hook, held)
                yield UserCall(call.awaited, on_loop=True) if hook.is_async else UserCall(call.called, on_loop=False)

    async def _on_loop(self, run: Held | Batch) -> Outcomes:
        decided: Outcomes = []

        async def call() -> None:
            decided.extend((await self._caller.on_loop(run))[1])

        task = asyncio.create_task(call())
        try:
            # The handler may extend its time meanwhile.
            while not task.done() and (left := run.ends_at - self._services.clock()) > 0:
                await asyncio.wait({task}, timeout=None if math.isinf(left) else min(left, LOOK_S))
            if not task.done():
                run.request_stop(Stop.TIMEOUT)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return decided

    def _noting(self, spec: TaskSpec) -> TaskSpec:
        """The same task, with functions that also note the error that they raise."""
        function, decode = spec.function, spec.decode

        def called(*arguments: Any, **named: Any) -> Any:
            with _Noted(self):
                return function(*arguments, **named)

        async def awaited(*arguments: Any, **named: Any) -> Any:
            with _Noted(self):
                return await function(*arguments, **named)

        def decoded(payload: bytes) -> Any:
            assert decode is not None
            with _Noted(self):
                return decode(payload)

        return replace(spec, function=awaited if spec.is_async else called, decode=None if decode is None else decoded)

    async def _extend(self, held: Held, ms: int) -> bool:
        return self._extend_now(held, ms)

    def _extend_now(self, held: Held, ms: int) -> bool:
        held.extend(self._services.clock() + ms / limits.SECOND)
        return True

    def _progress(self, held: Held, progress: Progress) -> None:
        if Feature.PROGRESS in self._client.engine.features and held.lease.worker != IMMEDIATE:
            self._client.run(self._client.engine.progress(held.lease, progress))

    def _answer(self, held: Held, outcome: Outcome) -> None:
        self._answers.append((held, outcome))


class _Noted:
    """Notes the error that its block raises."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        if error is not None:
            self._attempts.errors.append(error)


@dataclass(frozen=True, slots=True)
class _Hook:
    """A call of a hook."""

    hook: Hook
    held: Held

    def called(self) -> None:
        enter(self.held)
        try:
            self.hook(job_of(self.held))
        except Exception as error:
            self._log(error)

    async def awaited(self) -> None:
        enter(self.held)
        try:
            await self.hook(job_of(self.held))  # type: ignore[misc]
        except Exception as error:
            self._log(error)

    def _log(self, error: Exception) -> None:
        record = self.held.lease.record
        about = {"queue": record.queue, "task": record.task, "id": record.id}
        callback_failed("hook", error, self.hook.function, logging.ERROR, **about)


def _held(lease: Lease, spec: TaskSpec, now: float) -> Held:
    record = lease.record
    held = Held(lease, (record.queue, record.id, lease.token), spec, now, persistent=record.shape.persistent)
    held.phase, held.started_at = Phase.RUNNING, now
    return held


async def _turn() -> None:
    await asyncio.sleep(0)
