"""Graceful shutdown: the worker lets running jobs finish, and releases the others or leaves them to its keeper.

The keeper releases them when this process has ended. That is needed when Redis does not answer, and for jobs with
handlers that continue although no other worker may run the job until they end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from enum import IntEnum
from typing import Any, Final

from tenure.core import limits
from tenure.core.outcome import Cancelled, Failed, Retried
from tenure.runtime.assembly import Parts
from tenure.runtime.context import WorkerContext
from tenure.runtime.isolation.messages import PROCESS_EXIT_MS
from tenure.runtime.jobs.held import RUNNING, SETTLING, Batch, Held
from tenure.runtime.log import brief, log_event
from tenure.runtime.observe.dispatcher import EventDispatcher

RECYCLE_MS: Final = limits.HOUR
"""How long a worker that is recycled waits for its running jobs. The rest then have the grace period."""
HARD_S: Final = limits.HARD_STOP_MS / limits.SECOND


class ExitStatus(IntEnum):
    """How `Worker.run` ended."""

    OK = 0
    FAILED = 1
    """A background loop or the keeper could not be kept alive. Handlers may still be running, as for `HARD`."""
    HARD = 2
    """Stopped without waiting: handlers may still be running. End the process with `os._exit`."""
    ABANDONED = 3
    """Stopped in order, but handlers continue, or jobs are left to the keeper. End the process with `os._exit`: the end
    of the loop and of the interpreter would wait for the handlers."""


class Shutdown:
    """Stops all parts of a worker, once. Every wait has a limit, and ends when `hard` is set. `events`: None without
    listeners."""

    def __init__(
        self,
        context: WorkerContext,
        parts: Parts,
        events: EventDispatcher | None,
        fetching: asyncio.Task[None],
        hard: asyncio.Event,
    ) -> None:
        self._context = context
        self._parts = parts
        self._events = events
        self._fetching = fetching
        self._hard = hard
        self._inflight = context.inflight
        self._limits = context.env.limits

    async def begin(self, reason: str | None, level: int, failed: bool) -> None:
        """Claim and start nothing more, release what has not started, and end persistent jobs. `reason`: why the worker
        retires, logged at `level`. `failed`: a part of the worker cannot run."""
        self._context.intake.stop(failed)
        # First the claim that is under way: its jobs are newer, and are released together with the rest, in order.
        await self._or_hard(asyncio.wait({self._fetching}), self._limits.cancel_ms)
        self._release_pending()
        self._fetching.add_done_callback(lambda _: self._release_pending())
        self._parts.canceller.end_persistent()
        running = len(self._inflight.running)
        log_event("worker_stopping", level, worker=self._context.worker, running=running, reason=reason)
        self._context.reports.worker_stopping(running)

    async def wait_for_jobs(self, grace_ms: int, retiring: bool, hurry: asyncio.Event) -> None:
        """Wait for running handlers. If the worker is retiring, until they end or `hurry` is set."""
        if retiring:
            ended = self._until_all(lambda run: run.abandoned or run.persistent)
            await _unless(hurry, ended, RECYCLE_MS / limits.SECOND)
        await self._or_hard(self._until_all(lambda run: run.abandoned), grace_ms)

    async def finish(self, crashed: bool) -> ExitStatus:
        """End the handlers that still run, settle outcomes and release jobs. `crashed`: any running job may have caused
        the end, so each counts a crash."""
        parts, most, events = self._parts, self._limits, self._events
        if not self._hard.is_set():
            parts.canceller.end_all()
            await self._or_hard(self._until_all(lambda run: run.abandoned), most.cancel_ms)
            await self._or_hard(asyncio.wait({self._fetching}), most.cancel_ms)
            await self._or_hard(parts.settler.flushed(), most.flush_ms)
            if parts.hooks is not None:
                await self._or_hard(parts.hooks.flushed(), most.tell_ms)
        hard = self._hard.is_set()
        if hard:
            parts.canceller.end_all()
            await _within(parts.settler.flushed(), HARD_S / 2)
        self._fetching.cancel()
        if parts.executor.pool is not None:
            await self._or_hard(parts.executor.pool.close(), PROCESS_EXIT_MS)
        released, left = await self._leave(HARD_S if hard else most.leave_ms / limits.SECOND, crashed)
        if released is not None and not hard:  # Redis answers
            await _within(parts.presence.report_ends(), HARD_S)
        running, unheard = len(self._inflight.running), None
        self._context.reports.worker_stopped(released, hard)
        if events is not None:
            await _within(events.flushed(), HARD_S if hard else most.tell_ms / limits.SECOND)
            unheard = events.unheard
        about = {"released": released, "hard": hard, "handlers_running": running, "left": left, "unheard": unheard}
        log_event("worker_stopped", logging.WARNING if left else None, worker=self._context.worker, **about)
        if hard:
            return ExitStatus.HARD
        return ExitStatus.ABANDONED if running or left else ExitStatus.OK

    async def _leave(self, most_s: float, crashed: bool) -> tuple[int | None, bool]:
        """Release what is held, and end the keeping. Return how many jobs were released (None: unknown), and
        whether jobs were left to the keeper."""
        self._parts.heartbeat.lay_down()
        running = [held for run in self._inflight.running for held in run.members if held.phase is RUNNING]
        kept = [held for held in running if held.must_be_alone]
        # Before the goodbye: until then the keeper releases all if this process dies.
        released = await self._release(kept, most_s, crashed)
        left = bool(kept) or (released is None and self._context.intake.keeping_since is not None)
        # The attempt of a job that has timed out counts: else a job that always hangs would run again for ever.
        decided = [item for run in self._inflight.running if run.abandoned for item in run.decided()]
        outcomes = [
            (held.ref, outcome)
            for held, outcome in decided
            if held.phase is RUNNING and isinstance(outcome, Failed | Retried | Cancelled)
        ]
        await _within(self._parts.heartbeat.stop(left=left, crashed=crashed, outcomes=outcomes), HARD_S)
        return released, left

    async def _release(self, kept: Sequence[Held], most_s: float, crashed: bool) -> int | None:
        """Release all jobs but `kept`: by settling them if there are any such, else in one call."""
        if not kept:
            leave = self._context.engine.leave(self._context.worker, self._context.queues, crashed)
            released: int | None = await _within(self._context.driver.run(leave), most_s)
            return released
        if crashed:
            return 0
        others = [held for held in self._inflight.everything() if held not in kept]
        self._parts.settler.release([held for held in others if held.phase is not SETTLING])
        await _within(self._parts.settler.flushed(), most_s)
        return sum(not self._inflight.knows(held.ref) for held in others)

    def _release_pending(self) -> None:
        self._parts.settler.release(self._inflight.take_pending(lambda _: True))

    async def _until_all(self, ended: Callable[[Held | Batch], bool]) -> None:
        """Wait until all handlers that still run are `ended`, as far as this worker waits for them."""
        while not all(map(ended, self._inflight.running)):
            self._inflight.changed.clear()
            await self._inflight.changed.wait()

    async def _or_hard(self, waiting: Coroutine[Any, Any, Any], most_ms: float) -> None:
        await _unless(self._hard, waiting, most_ms / limits.SECOND)


async def _unless(end: asyncio.Event, waiting: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Wait for this, for at most `seconds`, and not after the event."""
    tasks = {asyncio.ensure_future(waiting), asyncio.ensure_future(end.wait())}
    await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _within(waiting: Coroutine[Any, Any, Any], seconds: float) -> Any:
    """Return the result, or None if it raised, which is logged, or took too long."""
    task = asyncio.ensure_future(waiting)
    await asyncio.wait({task}, timeout=seconds)
    if not task.done():
        task.cancel()
        return None
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log_event("loop_failed", logging.WARNING, loop="shutdown", error=brief(error))
        return None
    return None if task.cancelled() else task.result()
