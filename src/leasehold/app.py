"""The app: where tasks and handlers are registered, and the way in to everything else."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar, overload

from leasehold.client import Client
from leasehold.connections import Connections, Runner
from leasehold.core import limits, names
from leasehold.core.backoff import Backoff
from leasehold.core.engine import Feature
from leasehold.core.errors import InvalidArgument
from leasehold.core.task import BatchRule, TaskSpec
from leasehold.options import OF_SHAPE, UNSET, Options, ShapeOptions, Unset
from leasehold.panel import Control, Inspect
from leasehold.parameters import takes_one, takes_what_comes
from leasehold.protocols import FullEngine, Native, WireProtocol
from leasehold.queues import Queue
from leasehold.settings import Settings
from leasehold.tasks import Definition, Policy, RawHandler, Task, checked_function, default_name

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Unpack

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_QUEUE = "default"
_RESULT_TTL_S = limits.COMPLETED_TTL_MS / limits.SECOND


class TaskDecorator(Protocol):
    """What `@app.task(...)` returns: makes a `Task` of a function or of an async function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


class Leasehold:
    """A work queue on Redis. Nothing is sent, and Redis need not be there, until the first call that needs it.

        app = Leasehold()                                    # LEASEHOLD_URL, then REDIS_URL, then localhost

        @app.task(queue="images", timeout=30, retries=5)
        def thumbnail(path: str, size: int = 128) -> str: ...

        thumbnail.enqueue("cat.png").result(timeout=10)

    `url`: redis://, rediss://, unix:// or embedded:PATH. `namespace`: the beginning of all keys in Redis; apps with
    different ones do not meet. `protocol`: the wire format, `Native()` by default. `max_payload`: the largest encoded
    payload in bytes. `patience`: for how many seconds a call that found no Redis is sent again before it ends in
    `Unreachable`. What is not given comes from the environment, see `leasehold.settings`. One app may be used by any
    number of threads and event loops. Raises `InvalidArgument` and `NotConfigured` (a URL that cannot be read).
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        protocol: WireProtocol | None = None,
        max_payload: int | None = None,
        patience: float | None = None,
        connect_timeout: float | None = None,
        reply_timeout: float | None = None,
        runner: Runner | None = None,
    ) -> None:
        self.settings = Settings.load(
            url=url,
            namespace=namespace,
            max_payload=max_payload,
            patience=patience,
            connect_timeout=connect_timeout,
            reply_timeout=reply_timeout,
        )
        engine = _engine(protocol, self.settings)
        _check_url(self.settings.url)
        self._client = Client(self.settings, engine, runner or Connections(self.settings))
        self._tasks: dict[str, Task[Any, Any, Any]] = {}
        self._handlers: dict[str, RawHandler] = {}
        self.inspect = Inspect(self._client)
        self.control = Control(self._client)

    def __repr__(self) -> str:
        return f"<Leasehold namespace={self.settings.namespace!r} protocol={self.engine.name!r}>"

    @property
    def engine(self) -> FullEngine:
        """What speaks the wire protocol: steps for a driver."""
        return self._client.engine

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any, Any]]:
        """The registered tasks by name."""
        return MappingProxyType(self._tasks)

    @property
    def handlers(self) -> Mapping[str, RawHandler]:
        """The registered raw handlers by queue."""
        return MappingProxyType(self._handlers)

    def specs(self) -> tuple[TaskSpec, ...]:
        """All that a worker can run here. Raises `InvalidArgument` for annotations that cannot be resolved."""
        tasks = (task.spec for task in self._tasks.values())
        return (*tasks, *(handler.spec for handler in self._handlers.values()))

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        timeout: float | timedelta | Unset | None = UNSET,
        retries: int = limits.DEFAULT_RETRIES,
        backoff: Backoff | None = None,
        result_ttl: float | timedelta = _RESULT_TTL_S,
        **shape: Unpack[ShapeOptions],
    ) -> TaskDecorator: ...
    def task(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        timeout: float | timedelta | Unset | None = UNSET,
        retries: int = limits.DEFAULT_RETRIES,
        backoff: Backoff | None = None,
        result_ttl: float | timedelta = _RESULT_TTL_S,
        **shape: Unpack[ShapeOptions],
    ) -> Any:
        """Register a function or an async function as a task.

            @app.task
            def tidy() -> None: ...

            @app.task(queue="images", timeout=30, retries=5, backoff=Backoff(base=5))
            async def thumbnail(path: str, size: int = 128) -> str: ...

            @app.task(queue="watchers", persistent=True, unique=True)
            async def watch(shop: str) -> None: ...

        `name`: what jobs call it, `module.function` by default; producers and workers must agree. `timeout`: seconds
        for one attempt, None for no limit; an hour by default, and no limit for a persistent task. `retries`: how many
        more attempts after the first. `backoff`: how long to wait between them. `result_ttl`: for how many seconds the
        record of a completed job is kept, 0 for not at all.
        `lane`, `lane_limit`, `priority`, `unique` and `persistent`: what its jobs get, where `Task.using` says nothing
        else; see there. Raises `InvalidArgument`, also for a name that is taken and for annotations that JSON cannot
        hold.
        """
        policy = _policy(queue, timeout, retries, backoff, result_ttl, Options().using(OF_SHAPE, **shape).check())
        given = None if name is None else names.task_name(name)

        def register(function: Callable[..., Any]) -> Task[Any, Any, Any]:
            checked_function(function, "@app.task")
            chosen = given or default_name(function)
            if chosen in self._tasks:
                raise InvalidArgument(f"There is a task {chosen!r} already. Give one of them another name with name=.")
            task: Task[Any, Any, Any] = Task(Definition(self._client, chosen, function, policy), Options())
            self._tasks[chosen] = task
            return task

        return register if function is None else register(function)

    def handler(
        self,
        queue: str,
        *,
        timeout: float | timedelta | Unset | None = UNSET,
        retries: int = limits.DEFAULT_RETRIES,
        backoff: Backoff | None = None,
        result_ttl: float | timedelta = _RESULT_TTL_S,
        batch: int | None = None,
        linger: float | timedelta | None = None,
        one_lane: bool = False,
    ) -> Callable[[Callable[..., Any]], RawHandler]:
        """Register a function or an async function for the raw payloads of a queue. It takes the `Job`.

            @app.handler("emails", timeout=10)
            async def send(job: Job) -> None:
                await deliver(job.payload)          # bytes

            @app.handler("events", batch=50, linger=0.2)
            async def store(jobs: list[Job]) -> None:
                await insert([job.payload for job in jobs])

        `batch`: take up to so many jobs at once (1 to 500), as a list; `timeout` is that of the whole batch then. What
        the function returns is None (all are completed) or a list with one entry for each job: its result, or a `Retry`
        or `Fail`. What it raises counts for all jobs that were not answered before. `linger`: for how many seconds (up
        to 60) a job waits for others to fill the batch; 0 by default. `one_lane`: put only jobs together that follow
        each other in one lane, in its order.
        The other options are those of `task`. Raises `InvalidArgument`, also when the queue has a handler already, and
        when the annotation of the function says one job where a list comes, or the other way round.
        """
        if callable(queue):
            raise InvalidArgument('@app.handler needs the name of its queue: @app.handler("emails").')
        policy = _policy(queue, timeout, retries, backoff, result_ttl, Options())
        rule = _batch_rule(batch, linger, one_lane)
        if one_lane:
            self._client.require(Feature.LANES, "lanes")

        def register(function: Callable[..., Any]) -> RawHandler:
            checked_function(function, "@app.handler")
            takes_one(function, "@app.handler")
            takes_what_comes(function, rule is not None, "@app.handler")
            if policy.queue in self._handlers:
                raise InvalidArgument(f"Queue {policy.queue!r} has a handler already; expected one handler a queue.")
            handler = self._handlers[policy.queue] = RawHandler(function, policy, rule)
            return handler

        return register

    def queue(self, name: str) -> Queue:
        """A queue by its name: enqueue raw payloads, or lease jobs by hand. No traffic.

        app.queue("emails").enqueue(b"...")
        """
        checked = names.queue_name(name)
        return Queue(self._client, checked, lambda: self._raw_policy(checked))

    def close(self) -> None:
        """Close the connections of blocking code. The app may be used again: it connects anew."""
        self._client.runner.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop and of blocking code. The app may be used again."""
        await self._client.runner.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    def _raw_policy(self, queue: str) -> Policy | None:
        handler = self._handlers.get(queue)
        return None if handler is None else handler.policy


def _engine(protocol: object, settings: Settings) -> FullEngine:
    if protocol is None:
        return Native().engine(settings)
    if isinstance(protocol, type) or not callable(getattr(protocol, "engine", None)):
        kind = protocol.__name__ if isinstance(protocol, type) else type(protocol).__name__
        raise InvalidArgument(f"protocol is a {kind}; expected a wire protocol such as Native().")
    engine: FullEngine = protocol.engine(settings)  # type: ignore[attr-defined]
    return engine


def _check_url(url: str) -> None:
    # Here and not at the top: to import the package must not cost what parsing URLs needs.
    from leasehold.redis.target import Target

    Target.parse(url)


def _policy(
    queue: str, timeout: object, retries: object, backoff: Backoff | None, result_ttl: object, options: Options
) -> Policy:
    if backoff is not None and not isinstance(backoff, Backoff):
        raise InvalidArgument(f"backoff is a {type(backoff).__name__}; expected one such as Backoff(base=5).")
    return Policy(
        queue=names.queue_name(queue),
        timeout_ms=_timeout_ms(timeout, options),
        retries=names.count(retries, "retries"),
        backoff=backoff or Backoff(),
        result_ttl_ms=names.duration_ms(result_ttl, "result_ttl", least_ms=0, most_ms=limits.MAX_RESULT_TTL_MS),
        own_timeout=timeout is not UNSET,
        options=options,
    )


def _timeout_ms(timeout: object, options: Options) -> int | None:
    if timeout is UNSET:
        return None if options.persistent else limits.DEFAULT_TIMEOUT_MS
    return None if timeout is None else names.duration_ms(timeout, "timeout")


def _batch_rule(batch: object, linger: object, one_lane: object) -> BatchRule | None:
    if not isinstance(one_lane, bool):
        raise InvalidArgument(f"one_lane is a {type(one_lane).__name__}; expected True or False.")
    if batch is None:
        if linger is not None or one_lane:
            field = "one_lane" if linger is None else "linger"
            raise InvalidArgument(f"{field} is given without batch; expected the size of a batch, as in batch=50.")
        return None
    size = names.count(batch, "batch", least=1, most=limits.MAX_BATCH_SIZE)
    linger_ms = 0 if linger is None else names.duration_ms(linger, "linger", least_ms=0, most_ms=limits.MAX_LINGER_MS)
    return BatchRule(size, linger_ms, one_lane)
