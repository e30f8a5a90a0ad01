"""The worker: starts its parts, restarts those that fail, and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tenure.core import limits
from tenure.core.engine import Engine
from tenure.core.values import replace
from tenure.runtime.assembly import Parts, UserCode, WorkerSettings
from tenure.runtime.context import WorkerContext
from tenure.runtime.handlers.blocked import LoopWatch
from tenure.runtime.handlers.loop import kept_running
from tenure.runtime.intake import Intake
from tenure.runtime.isolation.pool import require_launcher
from tenure.runtime.jobs.beats import Kept
from tenure.runtime.jobs.overrun import WATCH_MS, StuckSlots
from tenure.runtime.jobs.reports import Reports
from tenure.runtime.jobs.table import Inflight
from tenure.runtime.log import brief, log_event
from tenure.runtime.loops import LoopFailed, MonitoredDriver, supervised, unsupervised
from tenure.runtime.observe.dispatcher import EventDispatcher
from tenure.runtime.observe.job_log import JobLog
from tenure.runtime.observe.latency import Latencies
from tenure.runtime.ports import Driver, Env, Keeper
from tenure.runtime.round_robin import WeightedRoundRobin
from tenure.runtime.shutdown import ExitStatus, Shutdown
from tenure.runtime.signals import on_signals


class Worker:
    """Runs jobs of some queues until it is stopped. One worker runs once.

    worker = Worker(engine, driver, UserCode(specs), WorkerSettings(["images"]), keeper=KeeperLink(...))
    status = await worker.run()
    """

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        code: UserCode,
        settings: WorkerSettings,
        *,
        keeper: Keeper,
        env: Env | None = None,
    ) -> None:
        self.id = settings.worker_id or _fresh_id()
        self.queues = tuple(dict.fromkeys(settings.queues))
        self._settings = replace(settings, launch=require_launcher(code.specs, settings.launch))
        self._turns = WeightedRoundRobin(self.queues, settings.weights)
        self._engine = engine
        self._code = code
        self._keeper = keeper
        self._env = env or Env()
        self._events = EventDispatcher(code.listeners, self.id, self._env) if code.listeners else None
        self._reports = Reports([self._events] if self._events is not None else [])
        self._link = MonitoredDriver(driver, self._env, self._reports)
        self._stop, self._hard = asyncio.Event(), asyncio.Event()
        self._hurry = asyncio.Event()
        """A stop was requested, not only a retirement."""
        self._asked = self._ending = False
        self.retiring: str | None = None
        """Why the worker retires, when it does."""
        self._retire_level = logging.INFO
        self._begun = asyncio.Event()
        self._fatal: BaseException | None = None
        self._loops: list[asyncio.Task[None]] = []

    def stop(self) -> None:
        """Stop: start nothing new, let running jobs finish. A second call stops hard, at once.

        A `stop_gracefully` by the parent does not count as the first: the same Ctrl-C may reach it and this process.
        """
        if self._asked:
            self._hard.set()
        self._asked = True
        self.stop_gracefully()

    def stop_gracefully(self) -> None:
        """Stop: start nothing new, let running jobs finish. A second call changes nothing."""
        self._hurry.set()
        self._stop.set()

    def stop_hard(self) -> None:
        """Stop without waiting for running jobs."""
        self.stop_gracefully()
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
        return len(self._context.inflight.running) if self._begun.is_set() else 0

    @property
    def slots(self) -> int:
        """How many jobs may run at one time."""
        return self._settings.concurrency

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
        """Wait until the keeper keeps its leases, so that it claims jobs."""
        await self._begun.wait()
        await self._context.intake.is_kept.wait()

    @property
    def is_idle(self) -> bool:
        """Whether it holds no job, and has not held any a moment ago."""
        inflight = self._context.inflight
        return inflight.empty and not inflight.occupied.is_set()

    async def until_busy(self) -> None:
        """Wait until an idle worker claims a job."""
        await self._context.inflight.occupied.wait()

    async def until_stopping(self) -> None:
        await self._stop.wait()

    async def run(self) -> ExitStatus:
        """Work until stopped, or with `burst` until no job is left. No error of a handler is raised here."""
        with on_signals(self.stop) if self._settings.signals else contextlib.nullcontext(), kept_running():
            self._build()
            queues, slots = self.queues, self._settings.concurrency
            log_event("worker_started", worker=self.id, queues=",".join(queues), slots=slots)
            self._reports.worker_started(queues, slots)
            self._start_loops()
            self._begun.set()
            try:
                try:
                    await self._stop.wait()
                except asyncio.CancelledError:  # by a handler that cancels all tasks, or by the caller
                    self._fail("worker", LoopFailed("It was cancelled, and not by Tenure."))
                    await self._shut_down(crashed=True)
                    raise
                return await self._shut_down()
            finally:
                self._ending = True
                for task in self._loops:
                    task.cancel()
                self._loop_watch.close()
                self._parts.close()

    def _build(self) -> None:
        env, lease_s = self._env, self._engine.timing.lease_ms / limits.SECOND
        inflight = Inflight(self._settings.concurrency, env.limits.stuck_ms)
        intake = Intake(self._keeper.keep, Kept(lease_s, env.lease_clock), frozenset(self.queues), env)
        self._context = WorkerContext(
            self.id,
            self.queues,
            self._engine,
            self._link,
            env,
            inflight,
            intake,
            self._reports,
            latencies=self._settings.metrics or Latencies(),
            payloads=self._code.payloads,
        )
        settings = self._settings
        log = JobLog(
            lambda: inflight.started, logs_each=settings.logs_each_job, errors=settings.log_errors, clock=env.clock
        )
        for one in (log, self._context.latencies, self._context.payloads):
            if one is not None:
                self._reports.subscribe(one)
        self._parts = Parts(self._context, self._code, self._settings, self._turns, self._keeper)
        self._stuck_slots = StuckSlots(inflight, env.limits.stuck_slots_ms)
        self._loop_watch = LoopWatch(
            inflight.running_since, self._parts.executor.job_of, env.clock, self._reports.loop_blocked
        )

    def _start_loops(self) -> None:
        parts = self._parts
        if any(spec.is_async for spec in self._code.specs):
            self._loop_watch.start()
        self._fetching = self._loop("fetch", parts.fetcher.run, lambda: self._context.intake.is_stopped)
        self._loop("settle", parts.settler.run)
        self._loop("watch", self._watch)
        self._loop("maintain", parts.maintainer.run)
        self._loop("present", parts.presence.run)
        if parts.scheduler is not None:
            self._loop("ticks", parts.scheduler.run)
            self._loop("schedules", parts.scheduler.present)
        self._loop("report", lambda: parts.reporter.run(parts.canceller.lose))
        if parts.subscriber is not None:
            self._loop("listen", parts.subscriber.run)
        if self._events is not None:
            self._loop("events", self._events.run)
        # Restarts itself, within its own bounds.
        self._add("heart", unsupervised("heart", parts.heartbeat.run))

    def _loop(
        self, name: str, run: Callable[[], Awaitable[None]], stopping: Callable[[], bool] = lambda: False
    ) -> asyncio.Task[None]:
        return self._add(name, supervised(name, run, stopping, self._env, lambda: self._ending))

    def _add(self, name: str, loop: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(loop, name=f"tenure-{name}")
        task.add_done_callback(self._loop_ended)
        self._loops.append(task)
        return task

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        error = LoopFailed("It was cancelled, and not by Tenure.") if task.cancelled() else task.exception()
        if error is None and task is not self._fetching:
            error = LoopFailed("It ended by itself.")
        elif error is None and (trouble := self._parts.fetcher.trouble) is not None:
            error = LoopFailed(trouble)
        if self._stop.is_set() and isinstance(error, LoopFailed):
            return
        self._fail(task.get_name(), error)

    def _fail(self, loop: str, error: BaseException | None) -> None:
        if error is not None and self._fatal is None:
            self._fatal = error
            log_event("worker_failed", loop=loop, error=brief(error))
        self._stop.set()

    async def _watch(self) -> None:
        """Check timeouts, stuck jobs and the keeper every `WATCH_MS`, while jobs are held or no keeper reports."""
        parts, inflight, tick = self._parts, self._context.inflight, WATCH_MS / limits.SECOND
        while True:
            # Without a keeper nothing is claimed, so a silent one must be noticed also when no job is held.
            if inflight.empty and self._context.intake.is_kept.is_set():
                inflight.occupied.clear()
                self._loop_watch.rest()
                await inflight.occupied.wait()
            self._loop_watch.turned()
            before = self._env.clock()
            await self._env.sleep(tick)
            now = self._env.clock()
            parts.canceller.watch(now)
            parts.fetcher.watch(now, late=now - before > 1.5 * tick)
            await parts.heartbeat.watch()
            if (worn := self._settings.worn(inflight.started)) is not None:
                self.retire(worn)
            elif (stuck := self._stuck_slots.reason(now)) is not None:
                self.retire(stuck, logging.ERROR)

    async def _shut_down(self, crashed: bool = False) -> ExitStatus:
        shutdown = Shutdown(self._context, self._parts, self._events, self._fetching, self._hard)
        try:
            await shutdown.begin(self.retiring, self._retire_level, self._fatal is not None)
            if self._fatal is None:
                await shutdown.wait_for_jobs(self._settings.grace_ms, self.retiring is not None, self._hurry)
            status = await shutdown.finish(crashed)
        except asyncio.CancelledError:  # the program's event loop ends, as after a second Ctrl-C: a hard stop
            self._hard.set()
            await shutdown.finish(crashed)
            raise
        return ExitStatus.FAILED if self._fatal is not None and status is not ExitStatus.HARD else status


def _fresh_id() -> str:
    """A name that no other worker has: host, process and a random part."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
