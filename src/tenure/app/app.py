"""The app: registers tasks and handlers, and gives access to queues, inspection and control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from tenure.app.definitions import DEFAULT_QUEUE, DefinesTasks, Definition
from tenure.app.earlier import check_free
from tenure.app.flows import WithFlows
from tenure.app.handlers import RawHandler, batch_rule, check_parameter, checked_function, redefines
from tenure.app.hooks import LifespanFunction, WithHooks
from tenure.app.instruments import Instruments
from tenure.app.policy import Defaults, Policy, RunOptions, TaskDefaults, rules_of
from tenure.app.router import Router
from tenure.app.tasks import Task, default_name, scheduled_by
from tenure.app.ticks import PassedTime
from tenure.client.client import Client
from tenure.client.connections import Connections, Runner
from tenure.client.large import checked_store
from tenure.client.limit import LimitsOption, checked_limits
from tenure.client.limits import Limits
from tenure.client.options import NO_TIMEOUT_MS, check_names
from tenure.client.queue import Queue
from tenure.client.schedules import Schedules
from tenure.core import limits, names
from tenure.core.encoding.conversion import Codec, Conversion
from tenure.core.engine import Feature, FullEngine
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.hints import APP_METHODS, pointing
from tenure.core.partitions import MAX_PARTITIONS
from tenure.core.run_in import Place, RunsIn
from tenure.core.schedules.schedule import ScheduleSpec
from tenure.core.task import TaskSpec
from tenure.core.values import replace
from tenure.protocols.registry import engine_for
from tenure.protocols.spec import WireProtocol
from tenure.settings import Credentials, Settings, check_url

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Unpack

    from tenure.app.embed import AppWorker, WorkerArguments
    from tenure.app.testing import Testing
    from tenure.core.stores import PayloadStore
    from tenure.manage.control import BulkControl
    from tenure.manage.inspect import JobSearch
    from tenure.runtime.stored import StoredPayloads

P = ParamSpec("P")
R = TypeVar("R")


class Tenure(DefinesTasks, WithHooks, WithFlows):
    """A work queue on Redis. It connects at the first call that needs Redis.

        app = Tenure()                                    # TENURE_URL, then REDIS_URL, then localhost

        @app.task(queue="images", timeout=30, retries=5)
        def thumbnail(path: str, size: int = 128) -> str: ...

        thumbnail.enqueue("cat.png").result(timeout=10)

    `url`: redis://, rediss://, redis+sentinel://, redis+cluster://, unix:// or embedded:PATH. `namespace`: the prefix
    of all keys in Redis; apps with different namespaces do not see each other. `protocol`: the wire format, as
    `RedisWorkQueue(prefix="jobs")` or as text, "redis-work-queue:jobs"; `Native()` by default. `max_payload`: the
    largest encoded payload in bytes. `patience`: for how many seconds a call is retried before it raises `Unreachable`.
    `credentials`: a function that returns the user and the password, called for each new connection. `durable`: how
    many replicas must have each enqueued job and each outcome. `sync_on_loop`: what a blocking call on a running event
    loop does: "warn", "error" or "allow". `defaults`: the defaults of tasks and handlers. `lifespan`: a function of the
    app that makes a context manager around each worker process, as with `contextlib.asynccontextmanager`; see
    `on_startup`. `codecs`: how arguments and results of other types travel, see `Codec`. `large`: where payloads above
    `max_payload` go, as `FileStore("/srv/payloads")`; else they are refused.

    Arguments left out come from the environment, see `tenure.settings`. Threads and event loops can share an app.
    Raises `InvalidArgument` and `NotConfigured` (a URL that cannot be read).
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        protocol: WireProtocol | str | None = None,
        max_payload: int | None = None,
        patience: float | None = None,
        connect_timeout: float | None = None,
        reply_timeout: float | None = None,
        credentials: Credentials | None = None,
        durable: int | None = None,
        sync_on_loop: str | None = None,
        runner: Runner | None = None,
        defaults: TaskDefaults | None = None,
        lifespan: LifespanFunction | None = None,
        codecs: Sequence[Codec] | None = None,
        large: PayloadStore | None = None,
    ) -> None:
        super().__init__(lifespan)
        settings = Settings.load(
            url=url,
            namespace=namespace,
            protocol=protocol if isinstance(protocol, str) else getattr(protocol, "text", None),
            max_payload=max_payload,
            patience=patience,
            connect_timeout=connect_timeout,
            reply_timeout=reply_timeout,
            credentials=credentials,
            durable=durable,
            sync_on_loop=sync_on_loop,
        )
        self.protocol: WireProtocol | str = settings.protocol if protocol is None else protocol  # as it was given
        check_url(settings.url, is_given=url is not None)
        self._client = Client(
            settings,
            engine_for(self.protocol, settings),
            runner or Connections(settings),
            middleware=self._enqueue_middleware,
            conversion=Conversion(() if codecs is None else codecs),
            large=checked_store(large),
        )
        self._tasks: dict[str, Task[Any, Any, Any]] = {}
        self._handlers: dict[str, RawHandler] = {}
        self._defaults = Defaults(defaults)
        self._passed = PassedTime()
        self._one_worker = Lock()
        self.schedules = Schedules(self._client, self._tasks)
        self.limits = Limits(self._client, self._tasks)
        self.instruments = Instruments(self, self._middleware, self._client.around)

    if not TYPE_CHECKING:
        __getattr__ = pointing(APP_METHODS)

    def __repr__(self) -> str:
        return f"<Tenure namespace={self.settings.namespace!r} protocol={self.engine.name!r}>"

    @cached_property
    def inspect(self) -> JobSearch:
        """Reads queues, jobs and workers, and searches jobs."""
        from tenure.manage.inspect import JobSearch  # here: producers and workers do without

        return JobSearch(self._client)

    @cached_property
    def control(self) -> BulkControl:
        """Changes queues, jobs and workers."""
        from tenure.manage.control import BulkControl

        return BulkControl(self._client, self._tasks)

    @property
    def payloads(self) -> StoredPayloads | None:
        """What reads the large payloads of this app's jobs; None without a store. For workers."""
        from tenure.runtime.stored import StoredPayloads

        return None if self._client.large.store is None else StoredPayloads(self._client.large.store)

    @property
    def settings(self) -> Settings:
        """The settings: arguments, then the environment, then the defaults."""
        return self._client.settings

    @property
    def engine(self) -> FullEngine:
        """The engine of the wire protocol. Its operations are steps for a driver."""
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
        """Return all tasks and handlers. Raises `InvalidArgument` for annotations that cannot be resolved."""
        found = [spec for task in self._tasks.values() for spec in task.specs]
        found += [handler.spec for handler in self._handlers.values()]
        lacking = "" if Feature.SNOOZE in self.engine.features else self.engine.name
        limits, follow = self.limits.declared(), self._client.following
        return tuple(replace(one, limits=limits, protocol_without_snooze=lacking, follow=follow) for one in found)

    def include(self, router: Router, *, prefix: str = "", queue: str | None = None) -> None:
        """Add the tasks of a router: see `Router`. Those that the router defines later are added at once.

            app.include(billing.router, prefix="billing.", queue="billing")

        `prefix`: the beginning of the names of its tasks; names in `accepts` stay as they are. `queue`: of its tasks
        that name none. Raises `InvalidArgument`, also if the router is included already, and `UnsupportedFeature`.
        """
        if not isinstance(router, Router):
            raise invalid("router", "a Router", type(router).__name__)
        if not isinstance(prefix, str):
            raise invalid("prefix", "a str", type(prefix).__name__)
        usual = DEFAULT_QUEUE if queue is None else self._queue_name(queue)
        router._join(self, lambda task, definition: self._bind(task, definition, prefix, usual))

    def _check(self, definition: Definition) -> None:
        if definition.given.queue:
            self._queue_name(definition.given.queue)
        if definition.given.schedules:
            self._client.require(Feature.SCHEDULES)

    def _add(self, task: Task[Any, Any, Any], definition: Definition) -> None:
        self._bind(task, definition)

    def _bind(
        self, task: Task[Any, Any, Any], definition: Definition, prefix: str = "", queue: str = DEFAULT_QUEUE
    ) -> None:
        """Make a task that was defined one of this app."""
        self._check(definition)
        name = names.task_name(prefix + (definition.name or default_name(task.__wrapped__)))
        others = {key: one for key, one in self._tasks.items() if one is not task}
        taken = {key: one.accepts for key, one in others.items() if not redefines(one.__wrapped__, task.__wrapped__)}
        check_free(name, definition.given.earlier, taken)
        task._bind(self._client, name, definition.policy(queue, self._defaults))
        for key in self._tasks.keys() - others.keys():
            del self._tasks[key]  # its router is included again
        self._tasks[name] = task

    def handler(
        self,
        queue: str,
        *,
        batch: int | None = None,
        linger: float | timedelta | None = None,
        one_lane: bool = False,
        run_in: RunsIn | None = None,
        max_memory: int | None = None,
        **options: Unpack[RunOptions],
    ) -> Callable[[Callable[..., Any]], RawHandler]:
        """Register a function or an async function for the raw payloads of a queue. Its argument is the `Job`.

            @app.handler("emails", timeout=10)
            async def send(job: Job) -> None:
                await deliver(job.payload)          # bytes

            @app.handler("events", batch=50, linger=0.2)
            async def store(jobs: list[Job]) -> None:
                await insert([job.payload for job in jobs])

        `batch`: take up to this many jobs at once (1 to 500), as a list; `timeout` then holds for the whole batch. The
        function returns None (all are completed) or a list with one entry for each job: its result, or a `Retry` or
        `Fail`. An error applies to all jobs without an outcome so far. `linger`: how many seconds (0 to 60, 0 by
        default) a job waits for others to fill the batch. `one_lane`: a batch has only consecutive jobs of one lane, in
        their order.

        `task` describes the other options. Raises `InvalidArgument`, also if the queue already has a
        handler, or if the function's annotation is one job where it gets a list, or the other way round.
        """
        if callable(queue):
            raise InvalidArgument('@app.handler needs the name of its queue: @app.handler("emails").')
        rule, place = batch_rule(batch, linger, one_lane), Place.of(run_in, max_memory)
        policy = Policy(self._queue_name(queue), rules_of(options), self._defaults, place=place, batch=rule)
        if one_lane:
            self._client.require(Feature.LANES)

        def register(function: Callable[..., Any]) -> RawHandler:
            checked_function(function, "@app.handler")
            place.check(function, "@app.handler", rule)
            check_parameter(function, batched=rule is not None)
            if policy.queue in self._handlers and not redefines(self._handlers[policy.queue].__wrapped__, function):
                raise InvalidArgument(f"Queue {policy.queue!r} already has a handler. A queue can have one.")
            handler = self._handlers[policy.queue] = RawHandler(function, policy, self._client.conversion)
            return handler

        return register

    def queue_defaults(self, queue: str, *, limits: LimitsOption = None, **options: Unpack[RunOptions]) -> None:
        """Set the defaults for the tasks and the handler of a queue.

            app.queue_defaults("emails", timeout=10, retries=8, retry_on=(ConnectionError, TimeoutError))

        Call it before or after defining the tasks, but before a worker starts. A second call changes only the options
        that it names. The queue of the task counts, also for a job that `using(queue=...)` sends elsewhere.

        `limits`: a list of `Limit` for all jobs that this app enqueues to the queue, besides the limits of their tasks;
        such jobs have no priority. Raises `InvalidArgument` and `UnsupportedFeature`.
        """
        if limits is not None:
            self._client.set_queue_limits(self._queue_name(queue), checked_limits(limits))
        self._defaults.set(self._queue_name(queue), rules_of(options))

    def queue_options(self, queue: str, *, partitions: int) -> None:
        """Spread a queue over 1 to 256 slots of a cluster, from its first use on; see docs/howto/partitions.md.

        app.queue_options("orders", partitions=16)
        """
        names.count(partitions, "partitions", least=1, most=MAX_PARTITIONS)
        port = self._client.needed(self.engine.partitions, Feature.PARTITIONS)
        port.want_partitions(self._queue_name(queue), partitions)

    def queue(self, name: str) -> Queue:
        """Return a queue, to enqueue raw payloads or lease jobs. Sends nothing.

        app.queue("emails").enqueue(b"...")
        """
        checked = self._queue_name(name)

        def persistent_timeout_ms() -> int:
            handler = self._handlers.get(checked)
            return NO_TIMEOUT_MS if handler is None else handler.policy.own.get("timeout_ms", NO_TIMEOUT_MS)

        return Queue(self._client, checked, persistent_timeout_ms)

    def clean_payloads(self, older_than: float | timedelta = 86_400) -> dict[str, int]:
        """Delete the large payloads that no job names, `older_than` seconds after they were stored.

            app.clean_payloads()        # {"deleted": 3, "used": 12, "unknown": 0}

        Jobs delete their payloads when they complete; what crashes, discarded and expired jobs left is deleted here.
        Returns how many payloads were deleted, are in use, and belong to queues that this Redis does not know, which
        stay. Raises `InvalidArgument` for an app without `large`, and what the store raises.
        """
        age_ms = names.duration_ms(older_than, "older_than", least_ms=0, most_ms=limits.MAX_DELAY_MS)
        counts = Counter(self._client.large.clean(self.engine, self._client.run, age_ms / limits.SECOND))
        return {"deleted": 0, "used": 0, "unknown": 0} | counts

    def testing(self) -> Testing:
        """Return what tests need: run due jobs in this process, move their times, look for enqueued calls.

        def test_signup(tenure_app):
            jobs = tenure_app(app)               # app.testing(), on a Redis of the test
            signup("ada@example.org")
            jobs.assert_enqueued(welcome, email="ada@example.org")
            jobs.drain()
        """
        from tenure.app.testing import Testing

        return Testing(self, self._client, self._passed)

    def worker(self, **options: Unpack[WorkerArguments]) -> AppWorker:
        """Return a worker for this process and its event loop; see docs/howto/embed.md.

            async with app.worker(queues=["mails"], concurrency=8):
                await serve()                       # running jobs have 20 seconds to end after it

        The options are as for `tenure worker`. `queues`: all of the app's tasks and handlers by default.
        `concurrency`: how many jobs run at one time (16). `burst`: end when no job is ready. `grace`: how many seconds
        running jobs may continue after a stop (20). `weights`: as {"mails": 5}. `signals`: SIGTERM and SIGINT stop the
        worker, only in the main thread; by default it handles no signals. `wait_for_redis`: for how many seconds the
        start waits for Redis, by default the app's `patience`. `allow_eviction`: start also on a Redis that may evict
        jobs. Raises `InvalidArgument`; when entered, also what its start raises.
        """
        from tenure.app.embed import OF_WORKER, AppWorker

        check_names(options, OF_WORKER)
        return AppWorker(self, self._one_worker, **options)

    def run_worker(self, **options: Unpack[WorkerArguments]) -> None:
        """Run a worker in this process until it is stopped; with `burst=True`, until no job is ready.

            app.run_worker(burst=True)

        The options are as for `worker`. Ctrl-C stops it gracefully, a second one at once; `KeyboardInterrupt` is then
        raised as usual. Raises `WorkerFailed`, what its start raises, and `SyncOnLoop` where an event loop runs.
        """
        self.worker(**options).run()

    async def arun_worker(self, **options: Unpack[WorkerArguments]) -> None:
        """Async version of `run_worker`."""
        await self.worker(**options).arun()

    def close(self) -> None:
        """Close the connections of blocking code. The app can be used again: it then reconnects."""
        self._client.runner.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop and of blocking code. The app can be used again."""
        await self._client.runner.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def scheduled(self, source: str, queues: Collection[str]) -> tuple[ScheduleSpec, ...]:
        """Return the schedules in code on these queues. Raises `InvalidArgument` for a name that two of them have."""
        return tuple(spec for spec in scheduled_by(self._tasks.values(), source) if spec.queue in queues)

    def _queue_name(self, queue: object) -> str:
        """Check a queue's name, also for the keys of the protocol in use."""
        checked = names.queue_name(queue)
        self.engine.prefix(checked)
        return checked
