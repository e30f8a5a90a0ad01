"""Runs jobs: takes leases into free slots, has their handlers called, passes the outcomes on, ends what must end.

An async handler is one task on the loop, a sync one runs in a thread, and either may run in a process
(`ProcessPool`). Timeouts are found by `watch`, not by a timer for each job.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from contextvars import copy_context
from typing import Final

from leasehold.core import limits
from leasehold.core.engine import Engine
from leasehold.core.job import Lease, LeaseRef
from leasehold.core.outcome import Broken, Cancelled, Completed, Outcome, Released, Unroutable
from leasehold.core.task import RunIn
from leasehold.runtime.forks import ForkGuard
from leasehold.runtime.handlers.invoke import Caller
from leasehold.runtime.handlers.routes import UNROUTABLE, Routes
from leasehold.runtime.handlers.threads import ThreadPool
from leasehold.runtime.isolation.child import Launch
from leasehold.runtime.isolation.pool import ProcessPool
from leasehold.runtime.jobs.batches import Outcomes
from leasehold.runtime.jobs.beats import Kept
from leasehold.runtime.jobs.held import Batch, Held, Phase, Rest, Stop
from leasehold.runtime.jobs.job import Job, JobServices
from leasehold.runtime.jobs.outcomes import outcome_of_timeout
from leasehold.runtime.jobs.overrun import CANCEL_MS, StuckSlots, take_verdict, unless_asked, waits
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.log import ended, log_event
from leasehold.runtime.observe.dispatcher import EventDispatcher
from leasehold.runtime.observe.progress import Reporter
from leasehold.runtime.ports import Driver, Env
from leasehold.runtime.prefetch import Prefetch
from leasehold.runtime.settler import Settler

PROCESS: Final = RunIn.PROCESS
QUICK_S: Final = 1.0
"""A persistent job that ends sooner than this rests for its task's first backoff before it is put back in line."""


class Executor:
    """See the module. Everything but `_in_thread` runs on the event loop."""

    def __init__(
        self,
        engine: Engine,
        driver: Driver,
        known: Routes,
        inflight: Inflight,
        settler: Settler,
        reporter: Reporter,
        pace: Prefetch,
        env: Env,
        kept: Kept,
        herald: EventDispatcher | None = None,
        launch: Launch | None = None,
        on_extended: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._on_extended = on_extended
        self._kept = kept
        self._herald = herald
        self._driver = driver
        self._known = known
        self._inflight = inflight
        self._settler = settler
        self._pace = pace
        self._env = env
        self._own = ForkGuard()
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._caller = Caller(env.random, env.clock, self._finished, kept.may_start)
        self.reach = JobServices(self._loop, env.clock, env.random, self.extend, reporter.tell, self._answer)
        self._threads: ThreadPool[Held | Batch, tuple[Held | Batch, Outcomes, float]] = ThreadPool(
            inflight.slots, self._in_thread, self._from_thread
        )
        self.apart: ProcessPool | None = None
        """None: no handler here runs in a process of its own."""
        if launch is not None:
            self.apart = ProcessPool(
                launch, size=inflight.slots, services=self.reach, may_start=kept.may_start, finished=self._finished
            )
        self._warned: set[tuple[str, str | None]] = set()
        self.lost_slots = StuckSlots(inflight)
        self._bell: asyncio.TimerHandle | None = None
        self.started = 0
        self.stopping = False
        self.quiet = False
        """Nothing new is started while this is so."""

    # ------------------------------------------------------------------------------------------------- taking jobs in

    def accept(self, leases: tuple[Lease, ...], asked_at: float) -> None:
        """Take claimed leases in and start what finds a free slot. While stopping nothing is
        started: the worker hands all of it back together, so that the order is kept."""
        now = self._env.clock()
        for lease in leases:
            refusal = self._known.refusal(lease)
            spec = None if refusal else self._known.route(lease)
            held = self._inflight.add(lease, spec or UNROUTABLE, now, spec is not None, asked_at)
            if held is None:
                continue
            if self._herald is not None:
                self._herald.claimed(lease)
            if refusal:
                outcome = Broken(refusal)
                self._settler.put(held, outcome)
                ended(lease, outcome)
            elif spec is None:
                self._park(held)
        if asked_at <= self._kept.lapsed_before:
            self.release_doubtful()
        self.dispatch()

    def dispatch(self) -> None:
        """Start pending leases while there are free slots."""
        if self.stopping or self.quiet:
            return
        inflight, now = self._inflight, self._env.clock()
        while (run := inflight.start_next(now, self._kept.may_start)) is not None:
            self._start(run, now)
        if inflight.gathering.group_of and inflight.free > 0:
            if self._bell is not None:
                self._bell.cancel()
            self._bell = self._loop.call_later(max(0.0, inflight.gathering.next_at() - now), self._rung)

    def _rung(self) -> None:
        """A batch has waited long enough for others."""
        self._bell = None
        self.dispatch()

    def hand_back(self, held: list[Held]) -> None:
        """Return leases that have not started, to the front of their queue and in their order.

        The last go first: within a call the engine keeps the order, and what a later call returns lands in front.
        """
        for one in reversed(held):
            self._settler.put(one, Released())

    def _park(self, held: Held) -> None:
        record = held.lease.record
        self._settler.put(held, Unroutable())
        if (record.queue, record.task) not in self._warned and len(self._warned) < limits.PAGE_MAX:
            self._warned.add((record.queue, record.task))
            log_event(logging.WARNING, "unroutable", queue=record.queue, task=record.task, id=record.id)

    def _start(self, run: Held | Batch, now: float) -> None:
        if type(run) is Held:
            run.job = self._ready(run, now)
        else:
            run.jobs = [self._ready(held, now) for held in run.members]
            run.ends_at = min(held.ends_at for held in run.members)
        if run.spec.run_in is PROCESS and type(run) is Held and self.apart is not None:
            self.apart.start(run)
        elif run.spec.is_async:
            # This may be running in the context of a job that just ended: each job starts from the worker's own.
            run.task = self._loop.create_task(self._caller.on_loop(run), context=self._context.copy())
        else:
            self._threads.submit(run)

    def _ready(self, held: Held, now: float) -> Job:
        self.started += 1
        if self._herald is not None:
            self._herald.started(held)
        timeout_ms = held.timeout_ms
        if timeout_ms:  # 0: no limit
            held.timeout_s = timeout_ms / limits.SECOND
            held.ends_at = now + held.timeout_s
        return Job(held, self.reach)

    # ---------------------------------------------------------------------------------------------------- running them

    def _in_thread(self, run: Held | Batch) -> tuple[Held | Batch, Outcomes, float]:
        """Runs in a thread, in a context of its own. Never raises."""
        judged = self._context.copy().run(self._caller.in_thread, run)
        self._own.end_clone()
        return run, judged, self._env.clock()

    def _from_thread(self, finished: tuple[Held | Batch, Outcomes, float]) -> None:
        run, judged, at = finished
        self._finished(run, [] if run.stop is Stop.LOST else judged, at)

    def _finished(self, run: Held | Batch, judged: Outcomes, at: float) -> None:
        seconds = at - run.started_at
        self._pace.finished(seconds if type(run) is Held else seconds / len(run.members))
        if not (run.persistent and self._rests(run, judged, seconds)):
            self._end(run, judged)

    def _rests(self, run: Held | Batch, judged: Outcomes, seconds: float) -> bool:
        """Whether this persistent job has ended so soon that it waits in its slot for a while."""
        if seconds >= QUICK_S or run.stop is not None or self.stopping:
            return False
        rest_s = min(run.spec.backoff.base, limits.MINUTE / limits.SECOND)
        if rest_s <= 0 or not any(type(outcome) is Completed for _, outcome in judged):
            return False
        run.task, run.ends_at = None, math.inf
        run.rest = Rest(self._loop.call_later(rest_s, self._rested, run), judged)
        return True

    def _rested(self, run: Held | Batch) -> None:
        """The pause is over, or cut short. It is put back in line, unless somebody wants it to be cancelled."""
        assert run.rest is not None
        run.rest.timer.cancel()
        judged, run.rest = run.rest.outcomes, None
        self._end(run, [(held, unless_asked(held, outcome)) for held, outcome in judged])

    def _end(self, run: Held | Batch, judged: Outcomes) -> None:
        """Free the slot, settle, start the next."""
        self._own.end_clone()
        self._inflight.leave_slot(run)
        for held, outcome in judged if run.verdict is None else take_verdict(run):
            self._settle(held, outcome)
        run.task = None
        if type(run) is Held:
            run.job = None
        else:
            run.jobs, run.members = [], []
        self.dispatch()

    def _settle(self, held: Held, outcome: Outcome) -> None:
        if self._settler.put(held, outcome):
            ended(held.lease, outcome)
        else:
            _of(held, logging.WARNING, "ignored", reason="ended too late")

    def _answer(self, held: Held, outcome: Outcome) -> None:
        """A handler answers for one of its batch. Not when its time is over: how it ends is decided then."""
        if held.run.verdict is None:
            self._settle(held, outcome)

    # --------------------------------------------------------------------------------------------------- ending them

    def lose(self, ref: LeaseRef, at: str) -> None:
        """The lease is gone: end its handler where that can be done, ignore its outcome."""
        held = self._inflight.lose(ref)
        if held is None:
            return
        _of(held, logging.WARNING, "lost", token=ref.token, at=at)
        if self._herald is not None:
            self._herald.lost(held, at)
        self._settler.lost(held)
        self._out(held, Stop.LOST)

    def cancel(self, ref: LeaseRef, reason: str) -> None:
        """Somebody wants the job to be cancelled; asked again with every beat.

        What has not started ends at once. An async handler is cancelled, once; a sync one can see it. It is an ask: a
        handler that goes on keeps its job, and its lane, until it ends or is over its time.
        """
        held = self._inflight.find(ref)
        if held is None or held.cancelled is not None or held.phase not in (Phase.PENDING, Phase.RUNNING):
            return
        held.cancelled = reason
        _of(held, logging.INFO, "cancelling", started=held.phase is Phase.RUNNING)
        if held.phase is Phase.PENDING:
            self._inflight.unqueue(held)
            self._settle(held, Cancelled(reason))
        elif not held.answered:
            self._out(held, Stop.CANCEL)

    def _out(self, held: Held, why: Stop) -> None:
        """Its handler need not go on, but for others in the same batch."""
        run = held.run
        if run not in self._inflight.running:
            return
        if isinstance(run, Batch):
            if not run.pointless:
                return
            why = Stop.CANCEL if run.open() else Stop.LOST
        self._stop(run, why, self._env.clock())

    def silence(self, now: float) -> None:
        """Queues had no good beat for a lease's length, so others may soon take their jobs over: start none of them,
        stop persistent ones. Those are handed back when they have ended: nobody runs one beside this worker."""
        for run in list(self._inflight.running):
            first = run.members[0] if isinstance(run, Batch) else run
            if run.persistent and (run.stop is None or run.stop < Stop.SILENCE) and not self._kept.is_fresh(first):
                _of(first, logging.WARNING, "silence")
                self._stop(run, Stop.SILENCE, now)
        self.release_doubtful()

    def release_doubtful(self) -> None:
        """Hand back what has not started and may be another worker's by now: its beats were late."""
        if doubtful := self._inflight.take_pending(lambda held: not self._kept.may_start(held)):
            log_event(logging.WARNING, "not_started", jobs=len(doubtful))
            self.hand_back(doubtful)

    def end_persistent(self) -> None:
        """At a stop: they never end by themselves. Sync handlers have the time of grace to see that they are lost."""
        now = self._env.clock()
        for run in list(self._inflight.running):
            if run.persistent:
                self._stop(run, Stop.SHUTDOWN, now)

    def cancel_running(self) -> None:
        """At a stop, when grace is over. Sync handlers cannot be cancelled: their process is about to end."""
        now = self._env.clock()
        for run in list(self._inflight.running):
            self._stop(run, Stop.SHUTDOWN, now)

    def watch(self, now: float) -> None:
        """Find attempts that are over time, and handlers that did not end when they were told to."""
        for run in list(self._inflight.running):
            if run.ends_at <= now:
                self._time_out(run, now)
            elif run.give_up_at <= now:
                self._abandon(run)

    def _time_out(self, run: Held | Batch, now: float) -> None:
        if isinstance(run, Batch):  # the earliest may have been answered, or given more time
            run.ends_at = min((held.ends_at for held in run.open()), default=math.inf)
            if run.ends_at > now:
                return
        run.ends_at = math.inf
        if run.stop is None or run.stop is Stop.CANCEL:
            self._stop(run, Stop.TIMEOUT, now)
        if run.task is None and run.spec.run_in is not PROCESS:
            self._abandon(run)

    def _stop(self, run: Held | Batch, why: Stop, now: float) -> None:
        if run.stop is None or why > run.stop:
            run.stop = why
        if run.rest is not None:
            self._rested(run)
        elif run.spec.run_in is PROCESS and type(run) is Held and self.apart is not None:
            self.apart.stop(run, why)
        elif run.task is not None:
            if why is not Stop.CANCEL:
                run.give_up_at = min(run.give_up_at, now + CANCEL_MS / limits.SECOND)
            if run.began:
                run.task.cancel()
            else:
                # A task cancelled before its first step never runs at all and would keep its slot for ever. Its first
                # step is in the loop's line already, so this comes after it.
                self._loop.call_soon(run.task.cancel)

    def _abandon(self, run: Held | Batch) -> None:
        """The handler goes on although its attempt is over: settle the attempt, leave the slot to it. Logged once.

        What others must not run beside it is settled when it has ended. Its lease is kept until then.
        """
        run.give_up_at = math.inf
        if run.abandoned:
            return
        members = run.open() if isinstance(run, Batch) else [run]
        run.abandoned = True
        self._inflight.changed.set()
        kind, over = "thread" if run.task is None else "task", run.stop is Stop.TIMEOUT
        for held in members:
            kept = held.phase is Phase.RUNNING and waits(held)  # at a stop, by the keeper until this process has ended
            _of(held, logging.WARNING, "handler_goes_on", slot="busy", kind=kind, job="kept" if kept else "given up")
            if not over:
                continue
            outcome = outcome_of_timeout(held.spec, held.lease, held.timeout_s, self._env.random, held.cancelled)
            if kept:
                run.verdict = [*(run.verdict or ()), (held, outcome)]
            elif self._settler.put(held, outcome):
                ended(held.lease, outcome)

    @property
    def able(self) -> bool:
        """Whether jobs that need a process of their own can have one."""
        return self.apart is None or self.apart.trouble is None

    async def extend(self, held: Held, ms: int) -> bool:
        """Let an attempt go on for so long from now. False: it is ours no longer."""
        if held.phase is not Phase.RUNNING or held.run.verdict is not None:
            return False
        ours = await self._driver.run(self._engine.extend(held.lease, ms))
        if not ours:
            self.lose(held.ref, "extend")
        elif held.run.stop is None or held.run.stop is Stop.CANCEL:
            held.timeout_s = None
            held.ends_at = held.extended_to = self._env.clock() + ms / limits.SECOND
            if held.batch is not None:
                held.batch.ends_at = min(held.batch.ends_at, held.ends_at)
            self._on_extended()  # before the handler goes on: it may hold up this process from now on
        return ours

    def close(self) -> None:
        if self._bell is not None:
            self._bell.cancel()
        self._threads.close()
        if self.apart is not None:
            self.apart.end()


def _of(held: Held, level: int, name: str, **fields: object) -> None:
    log_event(level, name, queue=held.ref.queue, task=held.lease.record.task, id=held.ref.id, **fields)
