"""What a user's tests do with an app: `app.testing()` runs due jobs, moves their times, and finds enqueued calls."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from tenure.app.attempts import Action, AppCode, UserCall
from tenure.app.drain import Drain, Drained
from tenure.app.tasks import Task
from tenure.app.ticks import SOURCE, PassedTime, pass_ticks
from tenure.client.call import TaskCall
from tenure.client.client import a_loop_runs, asynchronous, blocking
from tenure.client.connections import Connections
from tenure.client.large import NotedStore
from tenure.core import limits, names
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, PayloadInvalid, SyncOnLoop, UnsupportedFeature, invalid
from tenure.core.job import JobView, State
from tenure.core.shape import LaneState
from tenure.core.steps import Steps
from tenure.protocols.registry import engine_for

if TYPE_CHECKING:
    from tenure.client.client import Client

T = TypeVar("T")
Begin: TypeAlias = Callable[[], Generator[Action, Any, Any]]

DRAIN_LIMIT: Final = 10_000
"""Jobs that one drain runs by default."""
DRAIN_MOST: Final = 10_000_000
LOOK_LIMIT: Final = 10_000
"""Jobs that `enqueued` reads of a queue."""
CALLS_SHOWN: Final = 10
_STOPPED: Final = (LaneState.BUSY, LaneState.BLOCKED, LaneState.PARKED)
"""Lanes of which no job is in the page of ready jobs."""


@runtime_checkable
class MovesTime(Protocol):
    """An engine that can let time pass for its jobs."""

    def advance(self, queue: str, ms: int) -> Steps[None]:
        """Move delays, windows of unique keys and the lifetimes of records `ms` towards the past."""
        ...

    def advance_limits(self, ms: int) -> Steps[None]:
        """Let rates and rests of limits end `ms` sooner."""
        ...


class Testing:
    """Runs and finds the jobs of an app in tests. Made by `app.testing()`; see also the fixture `tenure_app`.

        jobs = app.testing()
        signup("ada@example.org")
        jobs.assert_enqueued(welcome, email="ada@example.org")
        jobs.drain()

    It works on the app's Redis and namespace. In async tests use the methods that begin with `a`.
    """

    __test__ = False  # not a class of tests

    def __init__(self, app: AppCode, client: Client, passed: PassedTime) -> None:
        self._app = app
        self._client = client
        self._passed = passed

    def __repr__(self) -> str:
        return f"<Testing of {self._app!r}>"

    def drain(self, *, limit: int = DRAIN_LIMIT, raises: bool = True) -> Drained:
        """Run the due jobs of all queues, and those that they enqueue, one after another. In async tests: `adrain`.

            assert app.testing().drain() == Drained(completed=2)
            with pytest.raises(ConnectionError):
                app.testing().drain()

        Jobs are claimed and settled in Redis as by a worker; their handlers run in this process, with middleware,
        listeners, hooks and the app's lifespan: sync ones in this thread, async ones on an event loop of this
        call. Jobs that are not due (delays, retries) stay, see `advance`. A persistent job runs once.

        `raises`: raise the first error of a handler, after its job is settled as in a worker (retried or failed);
        `Retry` and `JobCancelled` are no errors. `limit`: how many jobs may run. Raises `AssertionError` if more are
        due, `JobFailed` for a timeout, `PayloadInvalid` for a payload that does not fit, and the errors of Redis.
        """
        drain = Drain(self._app, self._client, limit=_limit(limit), raises=raises)
        self._client.run(self._ticks())
        drained: Drained = self._run(drain, "drain", drain.actions)
        return drained

    async def adrain(self, *, limit: int = DRAIN_LIMIT, raises: bool = True) -> Drained:
        """Async version of `drain`: async handlers run on the test's event loop, sync ones in a thread.

        await app.testing().adrain()
        """
        drain = Drain(self._app, self._client, limit=_limit(limit), raises=raises)
        await self._client.arun(self._ticks())
        drained: Drained = await self._arun(drain, drain.actions)
        return drained

    def immediate(self, call: TaskCall[T]) -> T:
        """Run a call now and return its result, encoded and decoded as if it had travelled. Uses no Redis.

            assert app.testing().immediate(thumbnail.call("cat.png")) == "cat-128.png"

        Raises what the task raises, `Retry` included. In async tests: `aimmediate`.
        """
        drain = Drain(self._app, self._client)
        data = self._run(drain, "immediate", lambda: drain.call(call))
        return self._decoded(call, data)

    async def aimmediate(self, call: TaskCall[T]) -> T:
        """Async version of `immediate`.

        await app.testing().aimmediate(thumbnail.call("cat.png"))
        """
        drain = Drain(self._app, self._client)
        data = await self._arun(drain, lambda: drain.call(call))
        return self._decoded(call, data)

    @blocking
    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Steps[None]:
        """Let this much time pass for the jobs of this namespace: run `drain` afterwards.

            remind.using(delay=3600).enqueue("ada")
            jobs.advance(hours=1)
            jobs.drain()

        Moves delays, retries, windows of unique keys, limits and the lifetimes of records by rewriting times in Redis.
        Enqueues a job for each tick of a schedule that comes in this time, those of the code included. The clocks of
        Redis and of this process stay, so `time.time()` in a handler does not move. Raises
        `InvalidArgument`, and `UnsupportedFeature` on the wire formats of other systems.
        """
        for part in (days, hours, minutes, seconds):
            names.duration_ms(part, "the time", least_ms=0, most_ms=limits.MAX_DELAY_MS)
        span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        ms = names.duration_ms(span, "the time", least_ms=1, most_ms=limits.MAX_DELAY_MS)
        engine = self._client.engine
        if not isinstance(engine, MovesTime):
            raise UnsupportedFeature(f"The protocol {engine.name} cannot move the times of its jobs.")
        self._passed.ms += ms
        yield from self._ticks()
        for queue in (yield from engine.queues()):
            yield from engine.advance(queue, ms)
        yield from engine.advance_limits(ms)

    aadvance = asynchronous(advance)

    @blocking
    def enqueued(self, task: Task[Any, Any, Any], /, **arguments: Any) -> Steps[list[JobView]]:
        """Return the jobs of a task that wait (ready, scheduled or unroutable), with these arguments among theirs.

            assert len(jobs.enqueued(welcome)) == 2
            [job] = jobs.enqueued(welcome, email="ada@example.org")

        Arguments are compared as the handler would get them, defaults included. Reads at most 10,000 jobs of a queue.
        Raises `InvalidArgument` for a name that is not a parameter of the task.
        """
        return self._find(task, arguments)

    aenqueued = asynchronous(enqueued)

    @blocking
    def assert_enqueued(self, task: Task[Any, Any, Any], /, **arguments: Any) -> Steps[JobView]:
        """Return the first job that `enqueued` finds. Raises `AssertionError` if there is none; it shows what waits.

        jobs.assert_enqueued(welcome, email="ada@example.org")
        """
        found = yield from self._find(task, arguments)
        if found:
            return found[0]
        waiting = yield from self._find(task, {})
        calls = [f"{task.name}{_shown(task, view)}" for view in waiting[:CALLS_SHOWN]]
        more = f" and {len(waiting) - len(calls)} more" if len(waiting) > len(calls) else ""
        wanted = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        raise AssertionError(f"No job {task.name}({wanted}) waits. Waiting: {', '.join(calls) or 'none'}{more}.")

    aassert_enqueued = asynchronous(assert_enqueued)

    @contextmanager
    def on_redis(self, url: str, *, namespace: str, temporary: bool = False) -> Iterator[Self]:
        """Let the app use this Redis and namespace inside the block, instead of those of its settings.

        with app.testing().on_redis("redis://localhost/15", namespace="test") as jobs: ...

        The fixture `tenure_app` does this for each test. Nothing is deleted in Redis. `temporary`: large payloads
        that the block has stored are deleted at its end. Use the app in one block at a time.
        """
        client = self._client
        before = client.settings, client.engine, client.runner
        store = client.large.store
        noted = None if store is None or not temporary else NotedStore(store)
        settings = replace(client.settings, url=url, namespace=namespace, durable=0)
        client.use(settings, engine_for(self._app.protocol, settings), Connections(settings, is_guarded=False))
        self._passed.reset()
        client.large.store = noted or store
        try:
            yield self
        finally:
            client.runner.close()
            client.use(*before)
            client.large.store = store
            self._passed.reset()
            if noted is not None:
                noted.delete_all()

    def _ticks(self) -> Steps[None]:
        queues = {spec.queue for spec in self._app.specs()}
        return pass_ticks(self._client, self._app.scheduled(SOURCE, queues), self._passed)

    # -------------------------------------------------------------------------------------------------------- driving

    def _run(self, drain: Drain, name: str, begin: Begin) -> Any:
        """Execute the actions of a generator in blocking code."""
        if a_loop_runs():
            raise SyncOnLoop(f"{name}() runs an event loop of its own. On a running one use `await ....a{name}()`.")
        with asyncio.Runner() as runner:
            runner.run(drain.begin())
            try:
                actions = _Actions(begin())
                for action in actions:
                    if not isinstance(action, UserCall):
                        actions.answer = self._client.run(action)
                    elif action.on_loop:
                        actions.answer = runner.run(action.function(), context=copy_context())
                    else:
                        actions.answer = copy_context().run(action.function)
                return actions.result
            finally:
                runner.run(drain.end())

    async def _arun(self, drain: Drain, begin: Begin) -> Any:
        """Execute the actions of a generator on the running event loop."""
        await drain.begin()
        try:
            actions = _Actions(begin())
            for action in actions:
                if not isinstance(action, UserCall):
                    actions.answer = await self._client.arun(action)
                elif action.on_loop:
                    actions.answer = await asyncio.create_task(action.function(), context=copy_context())
                else:
                    actions.answer = await asyncio.to_thread(action.function)
            return actions.result
        finally:
            await drain.end()

    def _decoded(self, call: TaskCall[T], data: bytes) -> T:
        result: T = self._app.tasks[call.task].results.decode(data)
        return result

    # ---------------------------------------------------------------------------------------------------- enqueued jobs

    def _find(self, task: Task[Any, Any, Any], arguments: dict[str, Any]) -> Steps[list[JobView]]:
        if not isinstance(task, Task):
            raise invalid("task", "a task of the app", names.shown(task))
        unknown = [name for name in arguments if name not in inspect.signature(task.__wrapped__).parameters]
        if unknown:
            raise InvalidArgument(f"Task {task.name} has no parameter {unknown[0]!r}.")
        engine, found = self._client.engine, {}
        large = self._client.large
        for queue in (yield from engine.queues()):
            for view in (yield from self._waiting(queue)):
                if view.task == task.name or view.task in task.accepts:
                    found[queue, view.id] = replace(view, payload=(yield from large.payload_of(view)))
        return [view for view in found.values() if _has(task, view, arguments)]

    def _waiting(self, queue: str) -> Steps[list[JobView]]:
        engine = self._client.engine
        views = yield from self._pages(queue, State.READY)
        if Feature.LANES in engine.features:
            lanes = [view.shape.lane for view in views if view.shape.lane is not None]
            for state in _STOPPED:
                cursor, is_first = 0, True
                while (is_first or cursor) and len(lanes) < LOOK_LIMIT:
                    page = yield from engine.lanes(queue, state, cursor)
                    lanes += [lane.name for lane in page.lanes]
                    cursor, is_first = page.cursor, False
            for lane in dict.fromkeys(lanes):
                views += yield from self._pages(queue, State.READY, lane)
        views += yield from self._pages(queue, State.SCHEDULED)
        if Feature.UNROUTABLE in engine.features:
            views += yield from self._pages(queue, State.UNROUTABLE)
        return views

    def _pages(self, queue: str, state: State, lane: str | None = None) -> Steps[list[JobView]]:
        views: list[JobView] = []
        after: str | None = None
        while len(views) < LOOK_LIMIT:
            page = yield from self._client.engine.page(queue, state, lane=lane, after=after)
            views += page.jobs
            after = page.next
            if after is None:
                break
        return views


class _Actions:
    """The actions of a generator, one after another. `answer`: what the last one returned, set by who executes them.

    `result`: what the generator returned in the end.
    """

    answer: Any = None
    result: Any = None

    def __init__(self, actions: Generator[Action, Any, Any]) -> None:
        self._actions = actions

    def __iter__(self) -> Iterator[Action]:
        while True:
            try:
                action = self._actions.send(self.answer)
            except StopIteration as end:
                self.result = end.value
                return
            yield action


def _limit(limit: object) -> int:
    return names.count(limit, "limit", least=1, most=DRAIN_MOST)


def _has(task: Task[Any, Any, Any], view: JobView, arguments: dict[str, Any]) -> bool:
    """Whether the job's arguments have these values."""
    if not arguments:
        return True
    try:
        found = _arguments(task, view)
    except PayloadInvalid:
        return False
    return all(name in found and found[name] == value for name, value in arguments.items())


def _arguments(task: Task[Any, Any, Any], view: JobView) -> dict[str, Any]:
    args, kwargs = task.decode(view.payload or b"")
    bound = inspect.signature(task.__wrapped__).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _shown(task: Task[Any, Any, Any], view: JobView) -> str:
    try:
        return f"({', '.join(f'{name}={value!r}' for name, value in _arguments(task, view).items())})"
    except PayloadInvalid:
        return "(arguments that do not fit)"
