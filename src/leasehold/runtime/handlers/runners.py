"""Where a handler runs: as a task on the event loop, or in a thread. `ProcessPool` runs it in a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial

from leasehold.core.job import Lease
from leasehold.runtime.forks import ForkGuard
from leasehold.runtime.handlers.invoke import Caller, Done
from leasehold.runtime.handlers.threads import ThreadPool
from leasehold.runtime.jobs.held import Batch, Held, Outcomes, Stop


class LoopRunner:
    """Runs async handlers, each as one task."""

    def __init__(self, caller: Caller, finished: Done, given_up_s: float) -> None:
        self.given_up_s = given_up_s
        self._caller = caller
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._own = ForkGuard()
        self._tasks: dict[Held | Batch, asyncio.Task[None]] = {}

    def start(self, run: Held | Batch) -> None:
        # The current context may be that of a job that has just ended: each job starts from the worker's own.
        call = self._caller.on_loop(run, self._ended)
        self._tasks[run] = self._loop.create_task(call, context=self._context.copy())

    def job_of(self, task: asyncio.Task[None]) -> Lease | None:
        """The job whose handler is this task; of a batch the first. For any thread."""
        run = next((run for run, one in list(self._tasks.items()) if one is task), None)
        return run.members[0].lease if run is not None and run.members else None

    def stop(self, run: Held | Batch, why: Stop) -> None:
        task = self._tasks[run]
        if run.began:
            task.cancel()
        else:
            # A task that is cancelled before its first step never runs, and would occupy its slot for ever. The first
            # step is scheduled already, so this follows it.
            self._loop.call_soon(task.cancel)

    def _ended(self, run: Held | Batch, outcomes: Outcomes, at: float) -> None:
        self._own.end_clone()
        del self._tasks[run]
        self._finished(run, outcomes, at)


class ThreadRunner:
    """Runs sync handlers in threads. Nothing can end a thread: a handler sees `Job.lost` and `Job.cancelled`."""

    given_up_s = 0.0

    def __init__(self, caller: Caller, finished: Done, size: int, clock: Callable[[], float]) -> None:
        self._caller = caller
        self._finished = finished
        self._clock = clock
        self._own = ForkGuard()
        self._context = copy_context()
        self._threads: ThreadPool[tuple[Held | Batch, Outcomes, float]] = ThreadPool(size, self._ended)

    def start(self, run: Held | Batch) -> None:
        self._threads.submit(partial(self._call, run))

    def stop(self, run: Held | Batch, why: Stop) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()

    def _call(self, run: Held | Batch) -> tuple[Held | Batch, Outcomes, float]:
        """Runs in a thread, in a context of its own. Never raises."""
        outcomes = self._context.copy().run(self._caller.in_thread, run)
        self._own.end_clone()
        return run, outcomes, self._clock()

    def _ended(self, ended: tuple[Held | Batch, Outcomes, float]) -> None:
        run, outcomes, at = ended
        self._finished(run, [] if run.stop is Stop.LOST else outcomes, at)
