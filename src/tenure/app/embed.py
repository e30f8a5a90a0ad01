"""A worker inside a program: `async with app.worker(...)` and `app.run_worker(...)`."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, NoReturn, Protocol, Self, TypedDict

from tenure.app.run import Finished, RunnableApp, WorkerOptions, check_weights, inspect_redis, queues_of, run_worker
from tenure.client.client import a_loop_runs
from tenure.core import limits, names
from tenure.core.errors import InvalidArgument, NotConfigured, SyncOnLoop, WorkerFailed, invalid
from tenure.manage.preflight import log
from tenure.runtime.lifespan import LifespanFailed
from tenure.runtime.log import log_event
from tenure.runtime.shutdown import ExitStatus
from tenure.runtime.signals import on_signals
from tenure.runtime.worker import Worker

PAGE: Final = "docs/howto/embed.md"
GRACE_S: Final = limits.STOP_GRACE_MS / limits.SECOND


class WorkerArguments(TypedDict, total=False):
    """The options of `Tenure.worker` and `Tenure.run_worker`."""

    queues: Sequence[str] | None
    concurrency: int
    burst: bool
    grace: float | timedelta
    weights: Mapping[str, int] | None
    signals: bool
    wait_for_redis: float | timedelta | None
    allow_eviction: bool


OF_WORKER: Final = frozenset(WorkerArguments.__annotations__)


class EmbeddableApp(RunnableApp, Protocol):
    """What a worker needs of the app that it runs in."""

    def queue(self, name: str) -> object: ...


class AppWorker:
    """A worker of this app in this process. Made by `app.worker()`; use it once.

    async with app.worker(queues=["mails"], concurrency=8) as worker:
        await serve()
    """

    def __init__(
        self,
        app: EmbeddableApp,
        one: threading.Lock,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int = limits.CONCURRENCY,
        burst: bool = False,
        grace: float | timedelta = GRACE_S,
        weights: Mapping[str, int] | None = None,
        signals: bool = False,
        wait_for_redis: float | timedelta | None = None,
        allow_eviction: bool = False,
    ) -> None:
        given = _checked_queues(app, queues)
        shares = {} if weights is None else _checked_weights(weights, given or queues_of(app))
        waits, wait_s = app.settings.patience if wait_for_redis is None else wait_for_redis, math.inf
        if waits != math.inf:
            wait_s = names.duration_ms(waits, "wait_for_redis", least_ms=0, most_ms=limits.DAY) / limits.SECOND
        self._options = WorkerOptions(
            given,
            names.count(concurrency, "concurrency", least=1, most=limits.MAX_CONCURRENCY),
            names.flag(burst, "burst"),
            names.duration_ms(grace, "grace", least_ms=0, most_ms=limits.DAY) / limits.SECOND,
            shares,
            signals=names.flag(signals, "signals"),
            burst_wait=wait_s,
            closes_app=False,
        )
        self._app = app
        self._one = one
        self._wait_s = wait_s
        self._allow_eviction = names.flag(allow_eviction, "allow_eviction")
        self._task: asyncio.Task[Finished] | None = None
        self._worker: Worker | None = None
        self._made = asyncio.Event()
        self._is_stopping = False

    @property
    def id(self) -> str | None:
        """The worker's name, as in `tenure info`; None before its start."""
        return None if self._worker is None else self._worker.id

    @property
    def active(self) -> int:
        """How many jobs run."""
        return 0 if self._worker is None else self._worker.active

    def stop(self) -> None:
        """Request a graceful stop: start no more jobs, and let running ones end. Call it on the worker's event loop."""
        self._is_stopping = True
        if self._worker is not None:
            self._worker.stop_gracefully()

    async def wait(self) -> None:
        """Wait until the worker has ended: after a stop, or a burst without ready jobs.

        Raises `WorkerFailed` if a part of the worker could not be kept alive.
        """
        if self._task is None:
            raise InvalidArgument("The worker has not started. Use it as in `async with app.worker() as worker:`.")
        finished = await asyncio.shield(self._task)
        if finished.status is ExitStatus.FAILED or finished.retired:
            raise WorkerFailed("The worker could not be kept alive and has ended; its log states why.")

    def run(self) -> None:
        """Run the worker to its end on an event loop of its own. Ctrl-C is raised after that."""
        if a_loop_runs():
            raise SyncOnLoop(
                f"run_worker() blocks, and an event loop runs here. Use `async with app.worker()`: {PAGE}."
            )
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if asyncio.run(self._run_alone((signal.SIGINT,) if is_default and not self._options.signals else ())):
            raise KeyboardInterrupt

    async def arun(self) -> None:
        """Run the worker to its end on this event loop."""
        async with self:
            await self.wait()

    async def __aenter__(self) -> Self:
        """Start. Returns when the worker claims jobs, or has ended already.

        Raises `InvalidArgument`, `NotConfigured`, `Unreachable`, and what the app's lifespan raises.
        """
        if self._options.signals and threading.current_thread() is not threading.main_thread():
            raise invalid("signals", "False outside of the main thread", "True", "Python handles signals there only.")
        if self._task is not None or not self._one.acquire(blocking=False):
            raise InvalidArgument(
                "A worker of this app runs in this process already, or this one has been used. One worker runs all "
                f"tasks: raise its concurrency, or start more processes. See {PAGE}."
            )
        self._task = asyncio.create_task(self._work(), name="tenure-worker")
        self._task.add_done_callback(lambda _: self._one.release())
        ready = asyncio.create_task(self._ready())
        try:
            await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._end_now()
            raise
        finally:
            ready.cancel()
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Stop gracefully, and hard if the wait for that is cancelled."""
        self.stop()
        try:
            await self.wait()
        except asyncio.CancelledError:
            await self._end_now()
            raise
        except WorkerFailed:
            if error is None:
                raise

    def __enter__(self) -> NoReturn:
        raise InvalidArgument(
            f"`with app.worker()` must be `async with app.worker()`, or app.run_worker() in blocking code. See {PAGE}."
        )

    def __exit__(self, *error: object) -> None:
        """Never called; `with` looks for it before it calls `__enter__`."""

    async def _run_alone(self, interrupts: Sequence[signal.Signals]) -> bool:
        """Return whether one of these signals came: the first cancels this call, and a second one stops hard.

        The handler of asyncio would raise the second one in the middle of any code, also of a job.
        """
        main, came = asyncio.current_task(), asyncio.Event()

        def interrupt() -> None:
            if not came.is_set():
                log_event("worker_interrupted", grace=f"{self._options.grace:g}s")
            came.set()
            if main is not None:
                main.cancel()

        try:
            with on_signals(interrupt, interrupts):
                await self.arun()
        except asyncio.CancelledError:
            if not came.is_set():
                raise
        finally:
            await self._app.aclose()
        return came.is_set()

    async def _work(self) -> Finished:
        found = await inspect_redis(self._app, None if self._wait_s == math.inf else self._wait_s)
        if refused := found.refusals(self._allow_eviction):
            raise NotConfigured("\n".join(refused))
        log(found)
        try:
            return await run_worker(self._app, self._options, created=self._created)
        except LifespanFailed as failed:
            raise failed.__cause__ or failed from None

    def _created(self, worker: Worker) -> None:
        self._worker = worker
        self._made.set()
        if self._is_stopping:
            worker.stop_gracefully()

    async def _ready(self) -> None:
        await self._made.wait()
        if self._worker is not None:
            await self._worker.until_ready()

    async def _end_now(self) -> None:
        """Stop hard: running jobs are released, and run again elsewhere."""
        if self._task is None:
            return
        if self._worker is None:
            self._task.cancel()
        else:
            self._worker.stop_hard()
        await asyncio.wait({self._task})


def _checked_queues(app: EmbeddableApp, queues: object) -> tuple[str, ...]:
    if queues is None:
        return ()
    if isinstance(queues, (str, bytes)) or not isinstance(queues, Sequence) or not queues:
        raise invalid(
            "queues", 'a list of names, as in ["mails", "images"]', names.shown(queues), "Leave it out for all."
        )
    for queue in queues:
        app.queue(queue)  # raises for a name that the protocol cannot have
    return tuple(dict.fromkeys(queues))


def _checked_weights(weights: object, served: Sequence[str]) -> Mapping[str, int]:
    if not isinstance(weights, Mapping):
        raise invalid("weights", 'numbers by queue, as in {"mails": 5}', names.shown(weights))
    check_weights("weights", weights, served)
    for queue, weight in weights.items():
        names.count(weight, f"the weight of {queue!r}", least=1, most=limits.MAX_WEIGHT)
    return dict(weights)
