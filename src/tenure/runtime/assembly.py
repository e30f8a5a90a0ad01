"""Puts the parts of a worker together."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.events import Listener
from tenure.core.names import ErrorDetail
from tenure.core.schedules.schedule import ScheduleSpec
from tenure.core.shape import Progress
from tenure.core.task import TaskSpec
from tenure.runtime.canceller import Canceller
from tenure.runtime.claimer import Claimer
from tenure.runtime.context import WorkerContext
from tenure.runtime.executor import Executor
from tenure.runtime.fetcher import Fetcher
from tenure.runtime.handlers.hooks import Hooks
from tenure.runtime.handlers.middleware import Layers, Middleware
from tenure.runtime.handlers.routes import Routes
from tenure.runtime.heartbeat import Heartbeat
from tenure.runtime.isolation.child import Launch
from tenure.runtime.jobs.held import Held
from tenure.runtime.jobs.job import JobServices
from tenure.runtime.jobs.suspects import Suspects
from tenure.runtime.maintainer import Maintainer
from tenure.runtime.observe.metrics import WorkerMetrics
from tenure.runtime.ports import Keeper
from tenure.runtime.presence import Presence
from tenure.runtime.reporter import Reporter
from tenure.runtime.round_robin import WeightedRoundRobin
from tenure.runtime.scheduler import Scheduler
from tenure.runtime.settler import Settler
from tenure.runtime.stored import StoredPayloads
from tenure.runtime.subscriber import RequestSubscriber


class UserCode(Struct, frozen=True):
    """The user's tasks and handlers, listeners, middleware (the outermost first), store of payloads, and schedules."""

    specs: Sequence[TaskSpec]
    listeners: Sequence[Listener] = ()
    middleware: Sequence[Middleware] = ()
    payloads: StoredPayloads | None = None
    schedules: Sequence[ScheduleSpec] = ()


class WorkerSettings(Struct, frozen=True):
    """How a worker runs.

    weights      how often a queue comes first, 1 for queues that it does not name
    burst        stop when the queues have no ready or due work left but persistent jobs
    metrics      counts in place of `Latencies`
    burst_wait_s how long a burst that has nothing else to do waits for queues that Redis refuses
    grace_ms     how long running jobs may continue after a stop; persistent ones are ended at once
    worker_id    None: a new one
    signals      stop on SIGINT and SIGTERM
    worn         called now and then with the number of started jobs; when it returns a reason, the worker retires
    launch       how a job process is started, for tasks that run in one
    durable      how many replicas must have the outcomes of jobs
    max_payload  jobs with more bytes end in `broken` and are not decoded; None: no limit
    log_errors   how much of a job's error is logged
    logs_each_job  each job has its lines in the log, also when there are many
    source       the app that the schedules of the code belong to; empty: they are not announced
    new_id       draws the ids of the jobs of schedules
    """

    queues: Sequence[str]
    concurrency: int = limits.CONCURRENCY
    weights: Mapping[str, int] | None = None
    burst: bool = False
    grace_ms: int = limits.STOP_GRACE_MS
    worker_id: str | None = None
    signals: bool = True
    worn: Callable[[int], str | None] = lambda started: None
    launch: Launch | None = None
    durable: int = 0
    max_payload: int | None = None
    log_errors: ErrorDetail = "traceback"
    logs_each_job: bool = False
    source: str = ""
    new_id: Callable[[], str] = lambda: secrets.token_hex(7)
    burst_wait_s: float = math.inf
    metrics: WorkerMetrics | None = None


class JobParts:
    """The parts that run jobs and settle them, of a worker or of `app.testing()`. To be made on the event loop.

    `extended` is called when a handler was given more time. `extend`: in place of `Canceller.extend`.
    """

    def __init__(
        self,
        context: WorkerContext,
        code: UserCode,
        settings: WorkerSettings,
        progress: Callable[[Held, Progress], None],
        extended: Callable[[], None] = lambda: None,
        extend: Callable[[Held, int], Coroutine[Any, Any, bool]] | None = None,
    ) -> None:
        env = context.env
        self.layers = Layers(code.middleware, context.inflight.slots, context.pools)
        self.routes = Routes(map(self.layers.around, code.specs), settings.max_payload)
        self.services = JobServices(
            asyncio.get_running_loop(),
            env.clock,
            env.random,
            extend=extend or (lambda held, ms: self.canceller.extend(held, ms)),
            progress=progress,
            settle=lambda held, outcome: self.executor.answer(held, outcome),
        )
        self.hooks = Hooks(self.services, env.limits, context.pools) if self.routes.have_hooks() else None
        if self.hooks is not None:
            context.reports.subscribe(self.hooks)
        self.settler = Settler(context, settings.durable)
        self.executor = Executor(context, self.settler, self.services, self.routes, settings.launch)
        self.canceller = Canceller(context, self.settler, extended)

    def close(self) -> None:
        """Free what the parts occupy, after their loops have ended."""
        self.executor.close()
        self.layers.close()
        if self.hooks is not None:
            self.hooks.close()


class Parts(JobParts):
    """The parts of one worker that runs."""

    def __init__(
        self,
        context: WorkerContext,
        code: UserCode,
        settings: WorkerSettings,
        turns: WeightedRoundRobin,
        keeper: Keeper,
    ) -> None:
        env, inflight = context.env, context.inflight
        self.reporter = Reporter(context)
        super().__init__(context, code, settings, self.reporter.tell, lambda: keeper.show(inflight.snapshot()))
        if self.executor.pool is not None:
            self.executor.pool.guarded_by(keeper.guard)
        suspects = Suspects(inflight, context.engine.timing.steady_ms, env)
        claimer = Claimer(context, self.executor, self.settler, suspects, self.routes, turns)
        self.fetcher = Fetcher(
            context, claimer, self.executor, self.settler, suspects, settings.burst, settings.burst_wait_s
        )
        self.heartbeat = Heartbeat(context, keeper, self.canceller, self.executor, self.settler)
        self.scheduler = None
        if context.engine.schedules is not None:
            self.scheduler = Scheduler(
                context, context.engine.schedules, code.schedules, settings.source, settings.new_id
            )
        noted = self.scheduler.note if self.scheduler is not None else lambda queue, tick_ms: None

        def offered() -> tuple[Sequence[str], Collection[str]]:
            return self.routes.offered(self.executor.can_isolate)

        self.maintainer = Maintainer(context, offered, noted)
        awaiting, stacks = lambda: len(self.services.awaits), self.executor.stacks
        self.presence = Presence(context, suspects, offered, self.routes, awaiting, stacks)
        self.subscriber = None
        if context.engine.features & {Feature.CANCEL, Feature.QUIET}:
            self.subscriber = RequestSubscriber(
                context, self.canceller.cancel, self.presence.announce, self.presence.show_stacks
            )
