"""Make a running worker of an app: its engine, a driver, a keeper of its leases, its tasks and its handlers."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from msgspec import Struct, field
from msgspec.structs import replace

from tenure.client.client import new_id
from tenure.client.connections import driver_options, refuse_outside_of_fixtures
from tenure.core import limits, names
from tenure.core.engine import Feature, FullEngine
from tenure.core.errors import InvalidArgument, TenureError, Unreachable, invalid
from tenure.core.hints import did_you_mean
from tenure.core.task import TaskSpec
from tenure.manage.checks import inspect_all
from tenure.manage.preflight import Inspection
from tenure.processes.health import HEALTH_IDLE_MS, HEALTH_MS
from tenure.processes.link import KeeperLink, ParentSocket
from tenure.processes.messages import StatusReport, StopOrder, WorkerState
from tenure.processes.overdue import Timeouts
from tenure.processes.recycling import Wear
from tenure.protocols.registry import engine_spec_of, entry_of
from tenure.redis.aio import AsyncDriver
from tenure.redis.drivers import asyncio_driver
from tenure.redis.url import is_cluster
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.isolation.child import Launch
from tenure.runtime.log import Once, log_event
from tenure.runtime.observe.metrics import TimedDriver, WorkerMetrics
from tenure.runtime.ports import Driver
from tenure.runtime.shutdown import ExitStatus
from tenure.runtime.signals import on_signals
from tenure.runtime.worker import Worker

if TYPE_CHECKING:
    from tenure.app.instruments import Instruments
    from tenure.app.tasks import Task
    from tenure.core.events import Listener
    from tenure.core.schedules.schedule import ScheduleSpec
    from tenure.protocols.spec import WireProtocol
    from tenure.runtime.handlers.middleware import Middleware
    from tenure.runtime.lifespan import Lifespan
    from tenure.runtime.stored import StoredPayloads
    from tenure.settings import Settings

QUEUES_LOOKED_AT: Final = 100
"""Queues that a worker looks at when it starts: whether they are paused or unknown."""
MAX_NAMES: Final = 10
"""The most queues that a message names."""
NODE_PATIENCE_MS: Final = 1 * limits.SECOND
"""How long a worker's call waits for one node of a cluster, before the worker continues with queues on other nodes."""


class RunnableApp(Protocol):
    """What a worker and `app.testing()` need of an app."""

    protocol: WireProtocol | str
    instruments: Instruments

    @property
    def settings(self) -> Settings: ...
    @property
    def engine(self) -> FullEngine: ...
    @property
    def tasks(self) -> Mapping[str, Task[Any, Any, Any]]: ...
    @property
    def listeners(self) -> tuple[Listener, ...]: ...
    @property
    def layers(self) -> tuple[Middleware, ...]: ...
    @property
    def payloads(self) -> StoredPayloads | None: ...
    def specs(self) -> tuple[TaskSpec, ...]: ...
    def lifespan(self) -> Lifespan: ...
    def scheduled(self, source: str, queues: Collection[str]) -> tuple[ScheduleSpec, ...]: ...
    async def aclose(self) -> None: ...


@runtime_checkable
class ServesQueues(Protocol):
    """An app with workers that also serve queues that none of its tasks names."""

    @property
    def served_queues(self) -> Collection[str]: ...


class WorkerOptions(Struct, frozen=True):
    """The options of `tenure worker`, checked. `queues` empty: all that the app's tasks and handlers name.

    `grace` is in seconds. `max_jobs`, `max_memory` (MB): when the worker is recycled; `Finished.retired` is then True.
    A burst also ends while persistent jobs, which never complete, occupy every slot; `burst_wait`: for how many seconds
    it waits for queues that Redis refuses. `launch`: how a process for jobs
    is started, for tasks with `run_in="process"`. `signals`: stop on SIGINT and SIGTERM. `source`: the name of the app,
    `MODULE:APP`, to which the schedules of its code belong; empty: the module of the first task that has one.
    `closes_app`: close the app's connections at the end; not where the rest of a program uses them.
    `metrics`: count for the metrics of the parent process.
    """

    queues: tuple[str, ...] = ()
    concurrency: int = limits.CONCURRENCY
    burst: bool = False
    grace: float = limits.STOP_GRACE_MS / limits.SECOND
    weights: Mapping[str, int] = field(default_factory=dict)
    max_jobs: int | None = None
    max_memory: int | None = None
    launch: Launch | None = None
    signals: bool = True
    source: str = ""
    burst_wait: float = math.inf
    closes_app: bool = True
    metrics: bool = False

    def __post_init__(self) -> None:
        names.duration_ms(self.grace, "grace", least_ms=0, most_ms=limits.DAY)  # the command lets NaN pass


class Finished(Struct, frozen=True):
    """How a worker ended. `retired`: it was recycled, and another is to take its place."""

    status: ExitStatus
    retired: bool = False


async def inspect_redis(app: RunnableApp, wait_s: float | None) -> Inspection:
    """Check Redis for a worker. While it does not respond, log why and try again.

    Raises `AccessDenied`, and `Unreachable` after `wait_s` seconds; None: it tries without end.
    """
    driver = _driver(app, limits.START_PATIENCE_MS if wait_s is None else round(wait_s * limits.SECOND))
    reported = Once()
    try:
        while True:
            try:
                # A wait without a reply: Redis may have been restarted just now; a worker copes with that.
                return await inspect_all(driver, app.engine, is_cluster(app.settings.url), lambda error: ())
            except Unreachable as error:
                if wait_s is not None:
                    raise
                if reported.is_new(str(error)):
                    log_event("redis_lost", what="start", error=str(error))
    finally:
        await driver.close()


async def run_worker(
    app: RunnableApp,
    options: WorkerOptions,
    parent: ParentSocket | None = None,
    ended: Callable[[Finished], None] = lambda finished: None,
    created: Callable[[Worker], None] = lambda worker: None,
) -> Finished:
    """Run a worker until it is stopped; with `burst`, until no job is ready.

    On any status but `OK`, handlers may still be running: end the process at once. `parent`: the socket to the parent
    process. Without one the worker starts a process that keeps its leases. `ended` is called as soon as the worker has
    ended: tasks that handlers left behind may block the event loop from then on. `created` is called with the worker
    before it runs, so that the caller can stop it.
    """
    _check_url(app.settings.url)
    driver = _driver(app, limits.PATIENCE_MS)
    workers: list[Worker] = []
    metrics = WorkerMetrics() if options.metrics else None
    keeper = _keeper_of(app, parent, workers, metrics)
    try:
        settings = replace(_settings_of(app, options), metrics=metrics)
        _report_unnamed(app, options.queues)
        await _report_queues(app, driver, settings.queues)
        schedules = app.scheduled(settings.source, settings.queues)
        if metrics is not None:
            metrics.begin(app.specs(), settings.queues)
        code = UserCode(app.specs(), app.listeners, app.layers, app.payloads, schedules)
        link: Driver = driver
        for called in (*app.instruments.redis_calls, *(() if metrics is None else [metrics.redis_called])):
            link = TimedDriver(link, called)
        worker = Worker(app.engine, link, code, settings, keeper=keeper)
        workers.append(worker)
        created(worker)
        reporting = asyncio.create_task(_report(worker, keeper))
        status = ExitStatus.FAILED
        try:
            lifespan = app.lifespan()
            with on_signals(worker.stop) if options.signals else contextlib.nullcontext():
                await lifespan.begin()
            status = await worker.run()
            if status is not ExitStatus.HARD:
                await lifespan.end()
        finally:
            finished = Finished(status, worker.retiring is not None)
            ended(finished)
            reporting.cancel()
        return finished
    finally:
        await driver.close()
        if options.closes_app:
            await app.aclose()


def _settings_of(app: RunnableApp, options: WorkerOptions) -> WorkerSettings:
    return WorkerSettings(
        options.queues or queues_of(app),
        options.concurrency,
        options.weights,
        options.burst,
        round(options.grace * limits.SECOND),
        burst_wait_s=options.burst_wait,
        worn=Wear(options.max_jobs, options.max_memory),
        launch=options.launch,
        signals=options.signals,
        durable=app.settings.durable,
        max_payload=_max_payload(app),
        log_errors=names.log_errors(app.settings.log_errors),
        logs_each_job=bool(app.settings.log_jobs),
        source=options.source or _source_of(app),
        new_id=new_id,
    )


def _source_of(app: RunnableApp) -> str:
    """Return a name for an app that has none: the module of the first task with a schedule; empty: no task has one."""
    return next((task.__module__ for task in app.tasks.values() if task.has_schedules), "")


def check_weights(field: str, weights: Iterable[str], served: Sequence[str]) -> None:
    """Raise `InvalidArgument` for a weight of a queue that this worker does not serve."""
    for queue in weights:
        if queue not in served:
            hint = did_you_mean(str(queue), served).strip()
            raise invalid(field, f"of a queue of this worker ({_listed(served)})", names.shown(queue), hint)


def _report_unnamed(app: RunnableApp, queues: Sequence[str]) -> None:
    """Log each queue that nothing in the app names: a typing error, or the queue of `using(queue=...)`."""
    named = tuple(dict.fromkeys(spec.queue for spec in app.specs()))
    for queue in queues:
        if queue not in named:
            text = f"No task or handler of the app names the queue {queue!r}; those that are named: {_listed(named)}."
            log_event("check_failed", about="queue", queue=queue, found=text)


def _listed(queues: Sequence[str]) -> str:
    more = ", ..." if len(queues) > MAX_NAMES else ""
    return (", ".join(map(repr, queues[:MAX_NAMES])) or "none") + more


async def _report_queues(app: RunnableApp, driver: AsyncDriver, queues: Sequence[str]) -> None:
    """Log which queues are paused, and to which nothing was enqueued lately: a worker of these stays idle."""
    with contextlib.suppress(TenureError):  # the worker itself logs it, and waits
        known = await driver.run(app.engine.queues())
        for queue in queues[:QUEUES_LOOKED_AT]:
            if queue not in known:
                log_event("queue_unknown", queue=queue, namespace=app.settings.namespace)
            elif Feature.PAUSE in app.engine.features and (await driver.run(app.engine.settings_of(queue))).paused:
                log_event("queue_paused", queue=queue)


def _keeper_of(
    app: RunnableApp, parent: ParentSocket | None, workers: Sequence[Worker], metrics: WorkerMetrics | None
) -> KeeperLink:
    """Return the link to the process that keeps the leases. Its requests go to the worker, as soon as there is one."""

    def stop(order: StopOrder) -> None:
        for worker in workers:
            if order.retires:
                worker.retire("fewer workers are needed")
            else:
                worker.stop_hard() if order.hard else worker.stop_gracefully()

    def retire() -> None:
        for worker in workers:
            worker.retire("its parent is gone")

    spec, timeouts = engine_spec_of(app.engine), timeouts_of(app.specs())
    return KeeperLink(
        app.settings.url,
        spec,
        timeouts,
        parent=parent,
        credentials=app.settings.credentials,
        credentials_s=app.settings.connect_timeout,
        stop=stop,
        parent_lost=retire,
        measured=None if metrics is None else metrics.take,
    )


def _check_url(url: str) -> None:
    if url.removeprefix("embedded:").strip("/") == "":
        raise InvalidArgument(
            "The URL is `embedded:` without a path: each process would get an empty Redis of its own. Give a path that "
            "producers and workers share, as in embedded:./tenure-data."
        )


async def _report(worker: Worker, keeper: KeeperLink) -> None:
    """Send the status to the parent: each new state at once, every second while jobs are held, else more rarely."""
    ready = asyncio.ensure_future(worker.until_ready())
    stopping = asyncio.ensure_future(worker.until_stopping())
    changes = {ready, stopping}
    try:
        while True:
            is_idle = ready.done() and not stopping.done() and worker.is_idle
            timeout_s = (HEALTH_IDLE_MS if is_idle else HEALTH_MS) / limits.SECOND
            busy = asyncio.ensure_future(worker.until_busy() if is_idle else asyncio.sleep(timeout_s))
            ended, _ = await asyncio.wait({*changes, busy}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            busy.cancel()
            changes -= ended
            if ended != {busy} or not is_idle:  # a job that has just begun is reported a second later
                keeper.tell(_status_of(worker, ready.done()))
    finally:
        for task in (ready, stopping, busy):
            task.cancel()


def _status_of(worker: Worker, was_ready: bool) -> StatusReport:
    state = WorkerState.RUNNING if was_ready else WorkerState.STARTING
    if worker.retiring is not None:
        state = WorkerState.RETIRING
    elif worker.stopping:
        state = WorkerState.STOPPING
    trouble = worker.trouble or ""
    return StatusReport(os.getpid(), state, worker.good_at, worker.active, worker.id, trouble, worker.slots)


def queues_of(app: RunnableApp) -> Sequence[str]:
    """Return all queues of the app's tasks and handlers, each once. Raises `InvalidArgument` if it has no queue."""
    named = dict.fromkeys(spec.queue for spec in app.specs())
    queues = tuple(named | dict.fromkeys(app.served_queues if isinstance(app, ServesQueues) else ()))
    if not named:
        raise InvalidArgument(
            "The app has no tasks and no handlers, so there is nothing to run. Expected functions with @app.task or "
            "@app.handler in the module of the app or in modules that it imports, or app.include(router)."
        )
    return queues


def _max_payload(app: RunnableApp) -> int | None:
    """Return the largest payload that a worker runs, in bytes; None: any. Other programs have limits of their own."""
    is_shared = entry_of(app.engine).has_foreign_clients
    return app.settings.max_payload if is_shared else app.settings.payload_limit


def timeouts_of(specs: Sequence[TaskSpec]) -> Timeouts:
    """Return the timeouts of jobs without their own."""
    return Timeouts(
        {spec.name: spec.timeout_ms or 0 for spec in specs if spec.name is not None},
        {spec.queue: spec.timeout_ms or 0 for spec in specs if spec.name is None},
    )


def _driver(app: RunnableApp, patience_ms: int) -> AsyncDriver:
    refuse_outside_of_fixtures(app.settings.url)
    options = driver_options(app.settings, patience_ms)
    return asyncio_driver(app.settings.url, node_patience_ms=NODE_PATIENCE_MS, **options)
