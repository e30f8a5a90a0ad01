"""Calls the hooks of tasks, `on_failure` and `on_success`: once for each end, after the settlement, while jobs run."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Final

from msgspec import Struct

from tenure.core import limits
from tenure.core.encoding.codec import note_of
from tenure.core.functions import is_async
from tenure.core.outcome import Broken, Completed, Failed, Outcome
from tenure.core.task import TaskSpec
from tenure.runtime.handlers.threads import CallThreads, Pools, result_of
from tenure.runtime.jobs.held import Held, Outcomes
from tenure.runtime.jobs.job import Job, JobServices, enter, new_job
from tenure.runtime.jobs.reports import Subscriber
from tenure.runtime.log import Once, callback_failed, log_event
from tenure.runtime.ports import WorkerLimits

HOOK_MS: Final = limits.MINUTE
"""How long an async hook may take, and how long a sync hook keeps its place."""


class Hook(Struct, frozen=True):
    """A hook that is to be called with the job `held`, and what it gets besides."""

    held: Held
    function: Callable[..., object]
    argument: Callable[[], object]

    def __call__(self, job: Job) -> object:
        return self.function(job, self.argument())


def _hook_of(held: Held, outcome: Outcome) -> Hook | None:
    """Return the hook of a task for the end of a job. A persistent job never completes."""
    spec = held.spec
    match outcome:
        case Failed(error) | Broken(error) if spec.on_failure is not None:
            return Hook(held, spec.on_failure, lambda: error)
        case Completed(result) if spec.on_success is not None and not held.persistent:
            return Hook(held, spec.on_success, lambda: _result_of(spec, result))
    return None


def _result_of(spec: TaskSpec, data: bytes) -> object:
    """Decode a result as callers get it; None for one that could not be kept."""
    value = spec.decode_result(data) if spec.decode_result else None
    return value if note_of(value) is None else None


class Hooks(Subscriber):
    """See the module. Used from the event loop's thread only; sync hooks run in threads of their own.

    An error of a hook is only logged: the job has ended. A worker that dies first never calls the hook.
    """

    def __init__(self, services: JobServices, most: WorkerLimits, pools: Pools) -> None:
        self._services = services
        self._limits = most
        self._context = copy_context()
        self._waiting: deque[Hook] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._threads = CallThreads(most.hooks_running, pools)
        self._logged = Once(1)

    def settled(self, items: Outcomes) -> None:
        for held, outcome in items:
            if (hook := _hook_of(held, outcome)) is None:
                continue
            if len(self._waiting) < self._limits.hooks_waiting:
                self._waiting.append(hook)
                self._start_next()
            elif self._logged.is_new(""):
                log_event("events_dropped", logging.ERROR, kind="hook", waiting=len(self._waiting))

    def _start_next(self) -> None:
        if self._waiting and len(self._running) < self._limits.hooks_running:
            self._logged.forget()
            # A separate context, as for a job: no hook sees the variables of another.
            task = self._services.loop.create_task(self._call(self._waiting.popleft()), context=self._context.copy())
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

    async def _call(self, hook: Hook) -> None:
        job = new_job(hook.held, self._services)
        enter(hook.held)
        try:
            async with asyncio.timeout(HOOK_MS / limits.SECOND):
                if is_async(hook.function):
                    await hook(job)  # type: ignore[misc]
                else:
                    answer = self._threads.call(lambda: hook(job))
                    await answer
                    result_of(answer)
        except BaseException as fault:
            record = hook.held.lease.record
            about = {"queue": record.queue, "task": record.task, "id": record.id}
            callback_failed("hook", fault, hook.function, logging.ERROR, **about)
