"""From an app to a running worker: its engine, a driver, a keeper process, its tasks and its handlers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from leasehold.app.app import Leasehold
from leasehold.app.preflight import Inspection, inspection
from leasehold.core import limits, names
from leasehold.core.errors import InvalidArgument, Unreachable
from leasehold.core.task import TaskSpec
from leasehold.processes.health import HealthOutputs, HealthReporter, HealthReporterThread
from leasehold.processes.keeper.handle import ProcessKeeper
from leasehold.processes.keeper.overdue import Timeouts
from leasehold.processes.link import SupervisorLink
from leasehold.processes.recycling import Wear
from leasehold.processes.report import Health, WorkerState, WorkerStatus
from leasehold.protocols.registry import engine_spec_of, entry_of, rights_of
from leasehold.redis.aio import AsyncDriver
from leasehold.runtime.isolation.child import Launch
from leasehold.runtime.log import Once, log_event
from leasehold.runtime.machine import Machine
from leasehold.runtime.ports import Env
from leasehold.runtime.worker import ExitStatus, Worker

BURST_PATIENCE_MS: Final = 10_000
"""How long a burst, which may be started together with its Redis, waits for it."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker is to run. `queues` empty: all that the app's tasks and handlers name. `grace` is in seconds.

    `weights`: how often a queue is looked at first while all have work, 1 where nothing is said. `burst`: stop when
    nothing is left. Persistent jobs are never done: a burst begins those it finds, and stops when nothing else is
    ready, also when they take up every slot and others wait. `max_jobs`, `max_memory` (MB): after about so many jobs,
    or when the process has grown so large, it finishes what it runs and ends; `Finished.retired` says so. `outlets`:
    where its health is told. `launch`: how a process for jobs is started, for tasks with `run_in="process"`.

        WorkerOptions(("critical", "default"), weights={"critical": 5})

    Raises `InvalidArgument`.
    """

    queues: tuple[str, ...] = ()
    concurrency: int = limits.CONCURRENCY
    burst: bool = False
    grace: float = limits.STOP_GRACE_MS / limits.SECOND
    weights: Mapping[str, int] = field(default_factory=dict)
    max_jobs: int | None = None
    max_memory: int | None = None
    outlets: HealthOutputs = field(default_factory=HealthOutputs)
    launch: Launch | None = None

    def __post_init__(self) -> None:
        for queue in self.queues:
            names.queue_name(queue)
        names.count(self.concurrency, "concurrency", least=1, most=limits.MAX_CONCURRENCY)
        for queue, weight in self.weights.items():
            names.queue_name(queue)
            names.count(weight, f"the weight of {queue!r}", least=1, most=limits.MAX_WEIGHT)
        names.duration_ms(self.grace, "grace", least_ms=0, most_ms=limits.DAY)
        if self.max_jobs is not None:
            names.count(self.max_jobs, "max_jobs", least=1, most=limits.MAX_RECYCLE_JOBS)
        if self.max_memory is not None:
            names.count(self.max_memory, "max_memory", least=1, most=limits.MAX_RECYCLE_MB)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a worker ended. `retired`: it was recycled, and another is to take its place."""

    status: ExitStatus
    retired: bool = False


async def inspect_redis(app: Leasehold, burst: bool) -> Inspection:
    """Look whether a worker can rely on this Redis. While it does not answer, log why and try again.

    Raises `AccessDenied`, and for a `burst` `Unreachable` after some seconds.
    """
    driver = _driver(app, BURST_PATIENCE_MS if burst else limits.START_PATIENCE_MS)
    told = Once()
    try:
        while True:
            try:
                return await driver.run(inspection(rights_of(app.engine)))
            except Unreachable as error:
                if burst:
                    raise
                if told.is_new(str(error)):
                    log_event(logging.WARNING, "redis_awaited", about=str(error))
    finally:
        await driver.close()


async def run_worker(
    app: Leasehold,
    options: WorkerOptions,
    tether: SupervisorLink | None = None,
    ended: Callable[[Finished], None] = lambda finished: None,
) -> Finished:
    """Run a worker until it is told to stop; with `burst`, until there is nothing left to do.

    On any other status than `OK` handlers may still be running: end the process at once. `tether`: the line to the
    supervisor that started this process. `ended` is called as soon as the worker has ended: what handlers left behind
    may hold the event loop from then on. Raises `NotConfigured` when the health port cannot be had.
    """
    engine = app.engine
    recipe = engine_spec_of(engine)
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
            keeper=ProcessKeeper(app.settings.url, recipe, timeouts_of(app.specs())),
            concurrency=options.concurrency,
            burst=options.burst,
            grace_ms=round(options.grace * limits.SECOND),
            weights=options.weights,
            worn=Wear(options.max_jobs, options.max_memory),
            launch=options.launch,
            durable=app.settings.durable,
            max_payload=_max_payload(app),
            listeners=app.listeners,
            middleware=app.layers,
            env=Env(machine=_machine_of(app)),
        )
        return await _Watched(worker, options.outlets, tether, app.settings.url.startswith("embedded:")).run(ended)
    finally:
        await driver.close()
        await app.aclose()


def _machine_of(app: Leasehold) -> Machine | None:
    """The locks that the workers of this app share on a machine: of one namespace on one Redis. None: there is no
    directory for temporary files."""
    name = f"{app.settings.url.rpartition('@')[2]} {app.settings.namespace}"
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    try:
        return Machine(Path(tempfile.gettempdir(), f"leasehold-{os.getuid()}-{digest}"))
    except FileNotFoundError:
        return None


class _Watched:
    """A worker that tells how it is: its supervisor, a file, a port, as far as there are any."""

    def __init__(self, worker: Worker, outlets: HealthOutputs, tether: SupervisorLink | None, embedded: bool) -> None:
        self._worker = worker
        self._outlets = outlets
        self._tether = tether
        self._embedded = embedded
        self._ready = False

    async def run(self, ended: Callable[[Finished], None]) -> Finished:
        worker, tether = self._worker, self._tether
        if tether is not None:
            loop = asyncio.get_running_loop()
            tether.attach(lambda: _on(loop, worker.drain), lambda: _on(loop, worker.stop_hard))
        teller = HealthReporter(lambda: Health.of([self._condition()], time.monotonic()), self._outlets)
        changes = asyncio.create_task(self._follow_changes())
        status = ExitStatus.FAILED
        # In a thread: a handler that holds up this loop must not make the worker look dead.
        with HealthReporterThread(teller, self._tell) if tether or self._outlets else nullcontext():
            try:
                status = await worker.run()
            finally:
                finished = Finished(status, worker.retiring is not None)
                ended(finished)
        changes.cancel()
        return finished

    async def _follow_changes(self) -> None:
        """What others wait for is told at once, not with the next round."""
        await self._worker.until_ready()
        self._ready = True
        self._tell()
        await self._worker.until_stopping()
        self._tell()

    def _tell(self) -> None:
        if self._tether is not None:
            self._tether.tell(self._condition())

    def _condition(self) -> WorkerStatus:
        worker = self._worker
        state = WorkerState.RUNNING if self._ready else WorkerState.STARTING
        if worker.retiring is not None:
            state = WorkerState.RETIRING
        elif worker.stopping:
            state = WorkerState.STOPPING
        about = (worker.active, worker.id, self._embedded, worker.trouble or "")
        return WorkerStatus(os.getpid(), state, worker.good_at, *about)


def _on(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: the worker has ended
        loop.call_soon_threadsafe(act)


def queues_of(app: Leasehold) -> Sequence[str]:
    """All queues that the app's tasks and handlers name, each once. Raises `InvalidArgument` when there is none."""
    queues = tuple(dict.fromkeys(spec.queue for spec in app.specs()))
    if not queues:
        raise InvalidArgument(
            "The app has no tasks and no handlers, so there is nothing to run. Expected functions with @app.task or "
            "@app.handler in the module of the app, or in modules that it imports."
        )
    return queues


def _max_payload(app: Leasehold) -> int | None:
    """The largest payload that a worker takes, in bytes; None: any. Other programs have limits of their own."""
    is_shared = entry_of(app.engine).has_foreign_clients
    return app.settings.max_payload if is_shared else app.settings.payload_limit


def timeouts_of(specs: Sequence[TaskSpec]) -> Timeouts:
    """How long jobs of these tasks and handlers may run that have no timeout of their own."""
    return Timeouts(
        {spec.name: spec.timeout_ms or 0 for spec in specs if spec.name is not None},
        {spec.queue: spec.timeout_ms or 0 for spec in specs if spec.name is None},
    )


def _driver(app: Leasehold, patience_ms: int) -> AsyncDriver:
    settings = app.settings
    return AsyncDriver(
        settings.url,
        patience_ms=patience_ms,
        connect_timeout_ms=round(settings.connect_timeout * limits.SECOND),
        reply_timeout_ms=round(settings.reply_timeout * limits.SECOND),
    )
