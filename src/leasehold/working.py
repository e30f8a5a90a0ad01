"""From an app to a running worker: its engine, a driver, a keeper process, its tasks and its handlers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from leasehold.app import Leasehold
from leasehold.core import limits, names
from leasehold.core.errors import InvalidArgument, UnsupportedFeature
from leasehold.engines.native import NativeEngine
from leasehold.keeping import ProcessKeeper
from leasehold.preflight import Inspection, inspection
from leasehold.redis.aio import AsyncDriver
from leasehold.runtime.worker import ExitStatus, Worker


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker is to run. `queues` empty: all that the app's tasks and handlers name. `grace` is in seconds.

    `weights`: how often a queue is looked at first while all have work, 1 where nothing is said. `burst`: stop when
    nothing is left. Persistent jobs are never done: a burst begins those it finds, and stops when nothing else is
    ready, also when they take up every slot and others wait.

        WorkerOptions(("critical", "default"), weights={"critical": 5})

    Raises `InvalidArgument`.
    """

    queues: tuple[str, ...] = ()
    concurrency: int = limits.CONCURRENCY
    burst: bool = False
    grace: float = limits.STOP_GRACE_MS / limits.SECOND
    weights: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for queue in self.queues:
            names.queue_name(queue)
        names.count(self.concurrency, "concurrency", least=1, most=limits.MAX_CONCURRENCY)
        for queue, weight in self.weights.items():
            names.queue_name(queue)
            names.count(weight, f"the weight of {queue!r}", least=1, most=limits.MAX_WEIGHT)
        names.duration_ms(self.grace, "grace", least_ms=0, most_ms=limits.DAY)


async def inspect_redis(app: Leasehold) -> Inspection:
    """Look whether a worker can rely on this Redis. Raises `Unreachable` and `AccessDenied` within some seconds."""
    driver = _driver(app, limits.START_PATIENCE_MS)
    try:
        return await driver.run(inspection())
    finally:
        await driver.close()


async def run_worker(app: Leasehold, options: WorkerOptions) -> ExitStatus:
    """Run a worker until it is told to stop; with `burst`, until there is nothing left to do.

    On any other `ExitStatus` than `OK` handlers may still be running: end the process at once.
    """
    engine = app.engine
    if not isinstance(engine, NativeEngine):
        raise UnsupportedFeature(f"No worker can keep leases of the protocol {engine.name!r} yet.")
    if app.settings.url.removeprefix("embedded:").strip("/") == "":
        raise InvalidArgument(
            "The URL is `embedded:` without a path: each process would get an empty Redis of its own. Give a path that "
            "producers and workers share, as in embedded:./leasehold-data."
        )
    tasks = {spec.name: spec for spec in app.specs() if spec.name is not None}
    handlers = {spec.queue: spec for spec in app.specs() if spec.name is None}
    driver = _driver(app, limits.PATIENCE_MS)
    try:
        worker = Worker(
            engine,
            driver,
            tasks,
            handlers,
            options.queues or queues_of(app),
            keeper=ProcessKeeper(app.settings.url, engine.namespace, engine.config),
            concurrency=options.concurrency,
            burst=options.burst,
            grace_ms=round(options.grace * limits.SECOND),
            weights=options.weights,
        )
        return await worker.run()
    finally:
        await driver.close()
        await app.aclose()


def queues_of(app: Leasehold) -> Sequence[str]:
    """All queues that the app's tasks and handlers name, each once. Raises `InvalidArgument` when there is none."""
    queues = tuple(dict.fromkeys(spec.queue for spec in app.specs()))
    if not queues:
        raise InvalidArgument(
            "The app has no tasks and no handlers, so there is nothing to run. Expected functions with @app.task or "
            "@app.handler in the module of the app, or in modules that it imports."
        )
    return queues


def _driver(app: Leasehold, patience_ms: int) -> AsyncDriver:
    settings = app.settings
    return AsyncDriver(
        settings.url,
        patience_ms=patience_ms,
        connect_timeout_ms=round(settings.connect_timeout * limits.SECOND),
        reply_timeout_ms=round(settings.reply_timeout * limits.SECOND),
    )
