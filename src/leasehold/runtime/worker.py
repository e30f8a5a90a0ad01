"""The worker: starts its parts, restarts those that fail, and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import IntEnum
from typing import Any

from leasehold.core import limits
from leasehold.core.engine import Engine
from leasehold.core.errors import InvalidArgument
from leasehold.core.events import Listener as Hearer
from leasehold.core.task import TaskSpec
from leasehold.runtime.assembly import WorkerOptions, assemble
from leasehold.runtime.context import WorkerContext, fresh_worker_id
from leasehold.runtime.handlers.loop import kept_running
from leasehold.runtime.handlers.middleware import Layers, Middleware
from leasehold.runtime.handlers.routes import Routes
from leasehold.runtime.isolation.child import Launch
from leasehold.runtime.isolation.messages import PROCESS_EXIT_MS
from leasehold.runtime.isolation.pool import require_launcher
from leasehold.runtime.jobs.overrun import WATCH_MS, StuckSlots
from leasehold.runtime.log import brief, log_event
from leasehold.runtime.loops import LoopFailed, MonitoredDriver, supervised, unsupervised
from leasehold.runtime.observe.dispatcher import EventDispatcher
from leasehold.runtime.ports import Env, Keeper, WatchedDriver
from leasehold.runtime.round_robin import WeightedRoundRobin
from leasehold.runtime.shutdown import RECYCLE_DRAIN_MS
from leasehold.runtime.signals import on_signals
from leasehold.runtime.waits import unless, within


class ExitStatus(IntEnum):
    """How `Worker.run` ended. Which status that is for a process, the command line says."""

    OK = 0
    FAILED = 1
    """A background loop or the keeper could not be kept alive. Handlers may still be running, as for `HARD`."""
    HARD = 2
    """Stopped without waiting: handlers may still be running. End the process with `os._exit`."""
    ABANDONED = 3
    """Stopped in order, but handlers go on, or jobs are left to the keeper, which releases them when this process has
    ended. End it with `os._exit`: the end of the loop and of the interpreter would wait for the handlers."""


class Worker:
    """Runs jobs of some queues until it is told to stop.

        worker = Worker(engine, driver, tasks, handlers, ["images"], keeper=KeeperLink(...))
        status = await worker.run()

    `tasks` by name and `handlers` (of raw payloads) by queue. `weights`: how often a queue is looked at first, 1 where
    nothing is said. `burst`: stop when the queues have no ready or due work left but persistent jobs. `grace_ms`: how
    long running jobs may go on after a stop was asked for; persistent ones are ended at once. `worn`: asked now and
    then with the number of jobs that were started; when it gives a reason, the worker retires. `listeners` hear
    what happens; `middleware` is around every handler, the first outermost. `durable`: how many replicas must have the
    ends of jobs. `launch`: how a process for jobs is started, for tasks that are to run in one. `max_payload`: jobs
    with more bytes end in `broken` and are not decoded; None: no limit. One worker runs once.
    """

    def __init__(
        self,
        engine: Engine,
        driver: WatchedDriver,
        tasks: Mapping[str, TaskSpec],
        handlers: Mapping[str, TaskSpec],
        queues: Sequence[str],
        *,
        keeper: Keeper,
        concurrency: int = limits.CONCURRENCY,
        burst: bool = False,
        grace_ms: int = limits.STOP_GRACE_MS,
        weights: Mapping[str, int] | None = None,
        worker_id: str | None = None,
        signals: bool = True,
        worn: Callable[[int], str | None] = lambda started: None,
        listeners: Sequence[Hearer] = (),
        middleware: Sequence[Middleware] = (),
        launch: Launch | None = None,
        durable: int = 0,
        max_payload: int | None = None,
        env: Env | None = None,
    ) -> None:
        if not queues:
            raise InvalidArgument("A worker needs at least one queue.")
        if not 1 <= concurrency <= limits.MAX_CONCURRENCY:
            raise InvalidArgument(f"concurrency is {concurrency}; expected 1 to {limits.MAX_CONCURRENCY}.")
        if grace_ms < 0:
            raise InvalidArgument(f"grace_ms is {grace_ms}; expected 0 or more.")
        launch = require_launcher([*tasks.values(), *handlers.values()], launch)
        self._options = WorkerOptions(concurrency, burst, launch, durable)
        self.id = worker_id or fresh_worker_id()
        self.queues = tuple(dict.fromkeys(queues))
        self._turns = WeightedRoundRobin(self.queues, weights)
        self._engine = engine
        self._known = Routes(tasks, handlers, max_payload)
        self._keeper = keeper
        self._grace_s = grace_ms / limits.SECOND
        self._signals = signals
        self._env = env or Env()
        self._events = EventDispatcher(listeners, self.id, self._env) if listeners else None
        self._middleware = tuple(middleware)
        self._link = MonitoredDriver(driver, self._env, self._events)
        self._stop, self._hard = asyncio.Event(), asyncio.Event()
        self._hurry = asyncio.Event()
        """A stop was asked for, and not only that it retires."""
        self._asked = self._ending = False
        self._worn = worn
        self.retiring: str | None = None
        """Why the worker retires, when it does."""
        self._retire_level = logging.INFO
        self._begun = asyncio.Event()
        self._fatal: BaseException | None = None
        self._loops: list[asyncio.Task[None]] = []

    def stop(self) -> None:
        """Stop: start nothing new, let running jobs finish. A second call stops hard, at once.

        A `drain` by the parent does not count as the first: the same Ctrl-C may reach it and this process.
        """
        if self._asked:
            self._hard.set()
        self._asked = True
        self.drain()

    def drain(self) -> None:
        """Stop: start nothing new, let running jobs finish. A second call changes nothing."""
        self._hurry.set()
        self._stop.set()

    def stop_hard(self) -> None:
        """Stop without waiting for running jobs."""
        self.drain()
        self._hard.set()

    def retire(self, reason: str, level: int = logging.INFO) -> None:
        """Stop, and give running jobs the time that they need, so that another worker can replace this one."""
        if not self._stop.is_set():
            self.retiring = reason
            self._retire_level = level
            self._stop.set()

    @property
    def active(self) -> int:
        """How many jobs run."""
        return len(self._parts.inflight.running) if self._begun.is_set() else 0

    @property
    def good_at(self) -> float:
        """When Redis last gave a good reply, or when the worker was made; by `Env.clock`."""
        return self._link.good_at

    @property
    def trouble(self) -> str | None:
        """Why it retires, or which jobs it cannot run; None: all is well."""
        pool = self._parts.executor.pool if self._begun.is_set() else None
        return self.retiring or (pool.trouble if pool is not None else None)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    async def until_ready(self) -> None:
        """Wait until the keeper keeps its leases, so that it takes up jobs."""
        await self._begun.wait()
        await self._parts.intake.is_kept.wait()

    async def until_stopping(self) -> None:
        await self._stop.wait()

    async def run(self) -> ExitStatus:
        """Work until stopped, or with `burst` until no job is left. No error of a handler is raised here."""
        with on_signals(self.stop) if self._signals else contextlib.nullcontext(), kept_running():
            self._build()
            log_event(
                "worker_started",
                worker=self.id,
                queues=",".join(self.queues),
                slots=self._options.concurrency,
            )
            if self._events is not None:
                self._events.worker_started(self.queues, self._options.concurrency)
            self._start_loops()
            self._begun.set()
            try:
                try:
                    await self._stop.wait()
                except asyncio.CancelledError:  # by a handler that cancels all tasks, or by the caller
                    self._fail("worker", LoopFailed("It was cancelled, and not by Leasehold."))
                    await self._shut_down(crashed=True)
                    raise
                return await self._shut_down()
            finally:
                self._ending = True
                for task in self._loops:
                    task.cancel()
                self._parts.executor.close()
                self._layers.close()
                if self._parts.hooks is not None:
                    self._parts.hooks.close()

    def _build(self) -> None:
        context = WorkerContext(self.id, self.queues, self._engine, self._link, self._env, self._events)
        self._layers = Layers(self._middleware, self._options.concurrency)
        self._parts = assemble(context, self._keeper, self._known.behind(self._layers), self._turns, self._options)
        self._stuck_slots = StuckSlots(self._parts.inflight, self._env.limits.stuck_slots_ms)

    def _start_loops(self) -> None:
        parts = self._parts
        self._fetching = self._loop("fetch", parts.fetcher.run, lambda: parts.intake.is_stopped)
        self._loop("settle", parts.settler.run)
        self._loop("watch", self._watch)
        self._loop("maintain", parts.maintainer.run)
        self._loop("present", parts.maintainer.present)
        self._loop("report", lambda: parts.reporter.run(parts.canceller.lose))
        if parts.subscriber is not None:
            self._loop("listen", parts.subscriber.run)
        if self._events is not None:
            self._loop("events", self._events.run)
        if parts.hooks is not None:
            self._loop("hooks", parts.hooks.run)
        # Restarts itself, within its own bounds.
        self._add("heart", unsupervised("heart", parts.heartbeat.run))

    def _loop(
        self, name: str, run: Callable[[], Awaitable[None]], stopping: Callable[[], bool] = lambda: False
    ) -> asyncio.Task[None]:
        return self._add(name, supervised(name, run, stopping, self._env, lambda: self._ending))

    def _add(self, name: str, loop: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(loop, name=f"leasehold-{name}")
        task.add_done_callback(self._loop_ended)
        self._loops.append(task)
        return task

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        error = LoopFailed("It was cancelled, and not by Leasehold.") if task.cancelled() else task.exception()
        if error is None and task is not self._fetching:
            error = LoopFailed("It ended by itself.")
        if self._stop.is_set() and isinstance(error, LoopFailed):
            return
        self._fail(task.get_name(), error)

    def _fail(self, loop: str, error: BaseException | None) -> None:
        if error is not None and self._fatal is None:
            self._fatal = error
            log_event("worker_failed", loop=loop, error=brief(error))
        self._stop.set()

    async def _watch(self) -> None:
        """While any job is held, check timeouts, stuck jobs and the keeper every `WATCH_MS`."""
        parts, tick = self._parts, WATCH_MS / limits.SECOND
        while True:
            if parts.inflight.empty:
                parts.inflight.occupied.clear()
                await parts.inflight.occupied.wait()
            before = self._env.clock()
            await self._env.sleep(tick)
            now = self._env.clock()
            parts.canceller.watch(now)
            parts.fetcher.watch(now, late=now - before > 1.5 * tick)
            await parts.heartbeat.watch()
            if (worn := self._worn(parts.inflight.started)) is not None:
                self.retire(worn)
            elif (stuck := self._stuck_slots.reason(now)) is not None:
                self.retire(stuck, logging.ERROR)

    # ------------------------------------------------------------------------------------------------------- the end

    async def _shut_down(self, crashed: bool = False) -> ExitStatus:
        """Stop all parts. Every wait has a limit. `crashed`: any running job may have caused the end, so each counts a
        crash."""
        parts, most = self._parts, self._env.limits
        parts.intake.stop()
        # First the claim that is under way: its jobs are newer, and are released together with the rest, in order.
        await self._or_hard(asyncio.wait({self._fetching}), most.cancel_ms / limits.SECOND)
        self._release_pending()
        self._fetching.add_done_callback(lambda _: self._release_pending())
        parts.canceller.end_persistent()
        running = len(parts.inflight.running)
        log_event("worker_draining", self._retire_level, worker=self.id, running=running, reason=self.retiring)
        if self._events is not None:
            self._events.worker_stopping(running)
        if self._fatal is None:
            if self.retiring is not None:
                await unless(self._hurry, self._worked_off(), RECYCLE_DRAIN_MS / limits.SECOND)
            await self._or_hard(self._drained(), self._grace_s)
        if not self._hard.is_set():
            parts.canceller.end_all()
            await self._or_hard(self._drained(), most.cancel_ms / limits.SECOND)
            await self._or_hard(asyncio.wait({self._fetching}), most.cancel_ms / limits.SECOND)
            await self._or_hard(parts.settler.flushed(), most.flush_ms / limits.SECOND)
            if parts.hooks is not None:
                await self._or_hard(parts.hooks.flushed(), most.tell_ms / limits.SECOND)
        hard = self._hard.is_set()
        if hard:
            parts.canceller.end_all()
            await within(parts.settler.flushed(), limits.HARD_STOP_MS / 2 / limits.SECOND)
        self._fetching.cancel()
        if parts.executor.pool is not None:
            await self._or_hard(parts.executor.pool.close(), PROCESS_EXIT_MS / limits.SECOND)
        given_back = await parts.shutdown.run((limits.HARD_STOP_MS if hard else most.leave_ms) / limits.SECOND, crashed)
        going_on, unheard = len(parts.inflight.running), None
        if self._events is not None:
            self._events.worker_stopped(given_back, hard)
            await within(self._events.flushed(), (limits.HARD_STOP_MS if hard else most.tell_ms) / limits.SECOND)
            unheard = self._events.unheard
        left = parts.shutdown.left
        about = {"released": given_back, "hard": hard, "handlers_running": going_on, "left": left, "unheard": unheard}
        log_event("worker_stopped", logging.WARNING if left else None, worker=self.id, **about)
        if hard or self._fatal is not None:
            return ExitStatus.HARD if hard else ExitStatus.FAILED
        return ExitStatus.ABANDONED if going_on or left else ExitStatus.OK

    def _release_pending(self) -> None:
        self._parts.executor.release(self._parts.inflight.take_pending(lambda _: True))

    async def _drained(self) -> None:
        """Wait for all handlers but those that were given up."""
        inflight = self._parts.inflight
        while not all(run.abandoned for run in inflight.running):
            inflight.changed.clear()
            await inflight.changed.wait()

    async def _worked_off(self) -> None:
        """Wait for all handlers but those that were given up and those of persistent jobs, which were asked to end."""
        inflight = self._parts.inflight
        while any(not run.abandoned and not run.persistent for run in inflight.running):
            inflight.changed.clear()
            await unless(self._hurry, inflight.changed.wait(), 1.0)

    async def _or_hard(self, waiting: Coroutine[Any, Any, Any], seconds: float) -> None:
        """Wait for this, for at most `seconds`, and not after a hard stop."""
        await unless(self._hard, waiting, seconds)
