"""What a user's tests do with an app: `app.testing()` runs due jobs, moves their times, and finds enqueued calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar, runtime_checkable

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
from tenure.core.job import WAITING, JobView, State
from tenure.core.steps import Steps
from tenure.core.values import replace
from tenure.manage.search import Search, Selection
from tenure.protocols.registry import engine_for
from tenure.runtime.handlers.inline import run_inline
from tenure.runtime.handlers.threads import Pools, ThreadPool

if TYPE_CHECKING:
    from tenure.app.run import RunnableApp
    from tenure.client.client import Client

T = TypeVar("T")

DRAIN_LIMIT: Final = 10_000
"""Jobs that one drain runs by default."""
DRAIN_MOST: Final = 10_000_000
CALLS_SHOWN: Final = 10


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

    def __init__(self, app: RunnableApp, client: Client, passed: PassedTime) -> None:
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
        most = _limit(limit)
        self._client.run(self._ticks())
        return _run("drain", lambda pools: self._drain(pools, limit=most, raises=raises).run())

    async def adrain(self, *, limit: int = DRAIN_LIMIT, raises: bool = True) -> Drained:
        """Async version of `drain`: async handlers run on the test's event loop, sync ones in a thread.

        await app.testing().adrain()
        """
        most = _limit(limit)
        await self._client.arun(self._ticks())
        return await self._drain(limit=most, raises=raises).run()

    def immediate(self, call: TaskCall[T]) -> T:
        """Run a call now and return its result, encoded and decoded as if it had travelled. Uses no Redis.

            assert app.testing().immediate(thumbnail.call("cat.png")) == "cat-128.png"

        Raises what the task raises, `Retry` included. In async tests: `aimmediate`.
        """
        return self._decoded(call, _run("immediate", lambda pools: self._drain(pools).call(call)))

    async def aimmediate(self, call: TaskCall[T]) -> T:
        """Async version of `immediate`.

        await app.testing().aimmediate(thumbnail.call("cat.png"))
        """
        return self._decoded(call, await self._drain().call(call))

    @blocking
    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> Steps[None]:
        """Let this much time pass for the jobs of this namespace: run `drain` afterwards.

            remind.using(delay=3600).enqueue("ada")
            jobs.advance(hours=1)
            jobs.drain()

        Moves delays, retries, windows of unique keys, limits and the lifetimes of records by rewriting times in Redis.
        Enqueues a job for each tick of a schedule that comes in this time, also of schedules in the code. The clocks of
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
        """Return the first job that `enqueued` finds. Raises `AssertionError` without one; it shows what waits.

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
        """Let the app use this Redis and namespace inside the block, instead of its settings.

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

    def _drain(self, pools: Pools = ThreadPool, **options: Any) -> Drain:
        return Drain(self._app, self._client, pools, **options)

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
        states = [state for state in WAITING if state is not State.UNROUTABLE or Feature.UNROUTABLE in engine.features]
        searches = [Search(engine, Selection(task=name), 0, heads=False) for name in (task.name, *task.accepts)]
        for queue in (yield from engine.queues()):
            for state in states:
                for search in searches:
                    views, _ = yield from search.matching(queue, state)
                    for view in views:
                        payload = yield from self._client.large.payload_of(view)
                        found[queue, view.id] = replace(view, payload=payload)
        return [view for view in found.values() if _has(task, view, arguments)]


def _run(name: str, begin: Callable[[Pools], Coroutine[Any, Any, T]]) -> T:
    if a_loop_runs():
        raise SyncOnLoop(f"{name}() runs an event loop of its own. On a running one use `await ....a{name}()`.")
    return run_inline(begin)


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
