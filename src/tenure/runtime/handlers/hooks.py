"""Calls the `on_failure` hooks of tasks, once for each failure, after it was settled, and concurrently with jobs."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextvars import copy_context
from typing import Final

from tenure.core import limits
from tenure.core.functions import is_async
from tenure.core.job import ErrorInfo
from tenure.core.outcome import Broken, Failed, Outcome
from tenure.runtime.handlers.threads import CallThreads, result_of
from tenure.runtime.jobs.held import Held
from tenure.runtime.jobs.job import JobServices, enter, new_job
from tenure.runtime.log import Once, callback_failed, log_event
from tenure.runtime.ports import WorkerLimits

HOOK_MS: Final = limits.MINUTE
"""How long an async hook may take, and how long a sync hook keeps its place."""


class Hooks:
    """See the module. Used from the event loop's thread only; sync hooks run in threads of their own.

    An error of a hook is only logged: the job has ended. A worker that dies first never calls the hook.
    """

    def __init__(self, services: JobServices, most: WorkerLimits) -> None:
        self._services = services
        self._limits = most
        self._context = copy_context()
        self._waiting: deque[tuple[Held, ErrorInfo]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._threads = CallThreads(most.hooks_running)
        self._logged = Once(1)

    def ended(self, held: Held, outcome: Outcome) -> None:
        """Call the hook of a job that was settled."""
        if held.spec.on_failure is None or not isinstance(outcome, (Failed, Broken)):
            return
        if len(self._waiting) >= self._limits.hooks_waiting:
            if self._logged.is_new(""):
                log_event("events_dropped", logging.ERROR, kind="hook", waiting=len(self._waiting))
            return
        self._waiting.append((held, outcome.error))
        self._start_next()

    def _start_next(self) -> None:
        if self._waiting and len(self._running) < self._limits.hooks_running:
            held, error = self._waiting.popleft()
            self._logged.forget()
            # A separate context, as for a job: no hook sees the variables of another.
            task = self._services.loop.create_task(self._call(held, error), context=self._context.copy())
            self._running.add(task)
            task.add_done_callback(self._call_ended)

    def _call_ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start_next()

    async def flushed(self) -> None:
        """Wait until all hooks so far have ended."""
        while self._running:
            await asyncio.wait(self._running)
            await asyncio.sleep(0)

    def close(self) -> None:
        self._threads.close()

    async def _call(self, held: Held, error: ErrorInfo) -> None:
        hook, job = held.spec.on_failure, new_job(held, self._services)
        assert hook is not None
        enter(held)
        try:
            async with asyncio.timeout(HOOK_MS / limits.SECOND):
                if is_async(hook):
                    await hook(job, error)  # type: ignore[misc]
                else:
                    answer = self._threads.call(lambda: hook(job, error))
                    await answer
                    result_of(answer)
        except BaseException as fault:
            ref = held.ref
            about = {"queue": ref.queue, "task": held.lease.record.task, "id": ref.id}
            callback_failed("hook", fault, hook, logging.ERROR, **about)
