"""Puts the parts of a worker together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from leasehold.core import limits
from leasehold.core.engine import Feature
from leasehold.runtime.canceller import Canceller
from leasehold.runtime.claimer import Claimer
from leasehold.runtime.context import WorkerContext
from leasehold.runtime.demand import Demand
from leasehold.runtime.executor import Executor
from leasehold.runtime.fetcher import Fetcher
from leasehold.runtime.handlers.hooks import Hooks
from leasehold.runtime.handlers.routes import Routes
from leasehold.runtime.heartbeat import Heartbeat
from leasehold.runtime.intake import Intake
from leasehold.runtime.isolation.child import Launch
from leasehold.runtime.jobs.beats import Kept
from leasehold.runtime.jobs.job import JobServices
from leasehold.runtime.jobs.suspects import Suspects
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.maintainer import Maintainer
from leasehold.runtime.observe.progress import Reporter
from leasehold.runtime.ports import Keeper
from leasehold.runtime.receiver import Receiver
from leasehold.runtime.round_robin import WeightedRoundRobin
from leasehold.runtime.settler import Settler
from leasehold.runtime.shutdown import Shutdown
from leasehold.runtime.subscriber import Subscriber


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker runs. `launch`: how to start a job process; None: no handler needs one. `durable`: how many
    replicas must have an outcome."""

    concurrency: int
    burst: bool = False
    launch: Launch | None = None
    durable: int = 0


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one worker that runs. `hooks` and `subscriber`: None where nothing needs them."""

    inflight: Inflight
    intake: Intake
    settler: Settler
    reporter: Reporter
    executor: Executor
    canceller: Canceller
    fetcher: Fetcher
    heartbeat: Heartbeat
    shutdown: Shutdown
    maintainer: Maintainer
    subscriber: Subscriber | None
    hooks: Hooks | None


def assemble(
    context: WorkerContext, keeper: Keeper, routes: Routes, turns: WeightedRoundRobin, options: WorkerOptions
) -> Parts:
    """Make the parts of a worker. To be called on its event loop."""
    env, timing = context.env, context.engine.timing
    inflight = Inflight(options.concurrency, env.limits.stuck_ms)
    intake = Intake(keeper, Kept(timing.lease_ms / limits.SECOND, env.lease_clock), frozenset(context.queues), env)
    reporter = Reporter(context.engine, context.driver, env)
    services = JobServices(
        asyncio.get_running_loop(),
        env.clock,
        env.random,
        extend=lambda held, ms: canceller.extend(held, ms),
        progress=reporter.tell,
        settle=lambda held, outcome: executor.answer(held, outcome),
    )
    hooks = Hooks(services, env.limits) if routes.have_hooks() else None
    settler = Settler(context, inflight, hooks, options.durable)
    executor = Executor(context, inflight, intake, settler, services, options.launch)
    if executor.pool is not None:
        executor.pool.guarded_by(keeper.guard)
    canceller = Canceller(context, inflight, intake, settler, executor, lambda: keeper.show(inflight.snapshot()))
    suspects = Suspects(inflight, timing.steady_ms, env)
    demand = Demand(inflight, turns, routes.batch_rules(), settler, suspects, env.limits.claim_most)
    receiver = Receiver(context, inflight, intake, settler, executor, routes)
    claimer = Claimer(context, intake, demand, suspects, receiver)
    heartbeat = Heartbeat(context, keeper, inflight, intake, canceller, executor)
    maintainer = Maintainer(context, inflight, intake, suspects, lambda: routes.offered(executor.can_isolate))
    is_told = bool(context.engine.features & {Feature.CANCEL, Feature.QUIET})
    return Parts(
        inflight,
        intake,
        settler,
        reporter,
        executor,
        canceller,
        Fetcher(context, inflight, intake, suspects, claimer, executor, options.burst),
        heartbeat,
        Shutdown(context, inflight, intake, settler, executor, heartbeat),
        maintainer,
        Subscriber(context, inflight, canceller.cancel, maintainer.announce) if is_told else None,
        hooks,
    )
