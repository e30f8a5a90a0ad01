"""The workers: run the jobs of all queues of a namespace, each queue in its order."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from tenure.app.embed import AppWorker
from tenure.compat.queue_farm.emitter import (
    ALL_EMPTY,
    DELETED_ERROR,
    FINISH,
    HANDLER_ERROR,
    INVALID_DATA,
    NO_ACTIVE_QUEUES,
    RETRY_LIMIT,
    START,
    JobEnded,
)
from tenure.compat.queue_farm.manager import AsyncManager, Manager, ManagerBase
from tenure.core import events, limits, names
from tenure.core.errors import InvalidArgument
from tenure.core.job import JobRecord
from tenure.engines.queue_farm.keys import DEFAULT_QUEUE
from tenure.engines.queue_farm.wire import DELETED, SPOILED, FarmDropped
from tenure.redis.clients import Client
from tenure.runtime.handlers.routes import MALFORMED
from tenure.runtime.jobs.job import Job

Handler = Callable[[str, list[Any]], Any]
ALL_EMPTY_S: Final = 1.0
NO_ACTIVE_QUEUES_S: Final = 30.0
DRAIN_S: Final = 0.1
"""How often a drain checks that all queues are empty."""
EMITTING_MOST: Final = 1_000
"""Events of ended jobs with callbacks that have not ended. Beyond them no further run starts."""
_GRACE_S: Final = limits.DAY // limits.SECOND
"""How long running batches may take after `stop()`."""
_ERRORS: Final = {
    DELETED_ERROR: "Job already removed",
    RETRY_LIMIT: "Jobs reached retry limit",
    INVALID_DATA: "Jobs data could not be decoded",
}


class _Runs(ManagerBase):
    """What both workers share."""

    def __init__(
        self,
        handler: Handler,
        redis: str | Client | None = None,
        *,
        concurrent: int = 1,
        batch_size: int = 1,
        all_empty_sleep: float = ALL_EMPTY_S,
        no_active_queues_sleep: float = NO_ACTIVE_QUEUES_S,
        **options: Any,
    ) -> None:
        super().__init__(redis, **options)
        self._concurrent = names.count(concurrent, "concurrent", least=1, most=limits.MAX_CONCURRENCY)
        self._all_empty_ms = names.duration_ms(all_empty_sleep, "all_empty_sleep", least_ms=1)
        self._no_active_ms = names.duration_ms(no_active_queues_sleep, "no_active_queues_sleep", least_ms=1)
        self._function = handler
        is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004
        )
        function = self._run_async if is_async else self._run_sync
        if batch_size == 1:
            # Without batches a worker claims jobs of many queues in one call, and ahead of its free slots.
            self._app.handler(DEFAULT_QUEUE)(self._run_one_async if is_async else self._run_one_sync)
        else:
            self._app.handler(DEFAULT_QUEUE, batch=batch_size, one_lane=True)(function)
        self._app.on(events.Failed, events.Broken)(self._job_ended)
        self._engine.dropped = self._job_dropped
        self._engine.completed = self._run_completed
        self._claimed = asyncio.Event()
        """Set by claims that brought jobs, since the queues were empty last."""
        self._engine.claimed = self._claimed.set
        self._loop: asyncio.AbstractEventLoop | None = None
        self._worker: AppWorker | None = None
        self._is_stopping = False
        self._emitting: set[asyncio.Task[None]] = set()

    async def _run_one_async(self, job: Job) -> None:
        await self._run_async([job])

    def _run_one_sync(self, job: Job) -> None:
        self._run_sync([job])

    async def _run_async(self, jobs: list[Job]) -> None:
        queue, ids, datas = _batch_of(jobs)
        await self._emit_start(queue, ids, datas)
        try:
            await self._function(queue, datas)
        except Exception as error:
            await self._emitter.emit(HANDLER_ERROR, queue, ids, error, datas)
            raise

    def _run_sync(self, jobs: list[Job]) -> None:
        queue, ids, datas = _batch_of(jobs)
        if self._emitter.has(START, FINISH):
            self._wait_in_thread(self._emit_start(queue, ids, datas))
        try:
            self._function(queue, datas)
        except Exception as error:
            if self._emitter.has(HANDLER_ERROR):
                self._wait_in_thread(self._emitter.emit(HANDLER_ERROR, queue, ids, error, datas))
            raise

    def _wait_in_thread(self, emitting: Coroutine[Any, Any, None]) -> None:
        if self._loop is None:
            emitting.close()
        else:
            asyncio.run_coroutine_threadsafe(emitting, self._loop).result()

    async def _emit_start(self, queue: str, ids: list[str], datas: list[Any]) -> None:
        """Emit `start`. While callbacks are far behind, no further run starts."""
        while len(self._emitting) >= EMITTING_MOST:
            await asyncio.wait(self._emitting, return_when=asyncio.FIRST_COMPLETED)
        await self._emitter.emit(START, queue, ids, datas)

    def _run_completed(self, jobs: list[JobRecord]) -> None:
        if self._loop is not None and self._emitter.has(FINISH):
            datas = [json.loads(job.payload) for job in jobs]
            self._emit_later(self._emitter.emit(FINISH, jobs[0].shape.lane, [job.id for job in jobs], datas))

    async def _job_ended(self, event: events.Failed | events.Broken) -> None:
        """A job was ended that is kept, with its data, for `tenure jobs`."""
        if not self._emitter.has(RETRY_LIMIT, INVALID_DATA):
            return
        view = await self._connections.arun(self._engine.job(event.queue, event.id))
        data = (view.payload or b"").decode("utf-8", "replace") if view else ""
        ended = INVALID_DATA if event.error_type == MALFORMED else RETRY_LIMIT
        await self._emit_end(ended, event.lane, event.id, data)

    def _job_dropped(self, job: FarmDropped) -> None:
        if self._loop is None or job.kind == SPOILED or not self._emitter.has(DELETED_ERROR, RETRY_LIMIT):
            return
        self._emit_later(self._emit_dropped(job))

    def _emit_later(self, emitting: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(emitting)
        self._emitting.add(task)
        task.add_done_callback(self._emitting.discard)

    async def _emit_dropped(self, job: FarmDropped) -> None:
        if job.kind == DELETED:
            await self._emit_end(DELETED_ERROR, job.lane, job.id)
            return
        view = await self._connections.arun(self._engine.job(DEFAULT_QUEUE, job.id))
        data = (view.payload or b"").decode("utf-8", "replace") if view else ""
        await self._emit_end(RETRY_LIMIT, job.lane, job.id, data)

    async def _emit_end(self, event: str, lane: str | None, id: str, *datas: str) -> None:
        args: tuple[object, ...] = (list(datas),) if datas else ()
        await self._emitter.emit(event, lane, [id], *args, JobEnded(_ERRORS[event]))

    async def _work(self, until_empty: bool) -> None:
        if self._loop is not None:
            raise InvalidArgument("This worker listens already. Create another one to run more batches.")
        self._worker = self._app.worker(
            concurrency=self._concurrent, grace=_GRACE_S, wait_for_redis=math.inf, allow_eviction=True
        )
        self._loop, self._is_stopping = asyncio.get_running_loop(), False
        self._claimed.clear()
        watching: asyncio.Task[None] | None = None
        if until_empty or self._emitter.has(ALL_EMPTY, NO_ACTIVE_QUEUES):
            watching = asyncio.create_task(self._watch(until_empty))
        try:
            await self._worker.arun()
            for task in tuple(self._emitting):
                await task
            if watching is not None and watching.done():
                watching.result()
        finally:
            if watching is not None:
                watching.cancel()
            self._loop = self._worker = None
            await self._app.aclose()

    def _end(self) -> None:
        if self._is_stopping and self._worker is not None:
            self._worker.stop()

    async def _watch(self, until_empty: bool) -> None:
        """Emit `all-empty` when the queues have become empty, and `no-active-queues` while they stay so; with
        `until_empty`, stop when no queue has jobs."""
        emit_at = 0.0
        try:
            while True:
                activity = await self._connections.arun(self._engine.activity())
                is_idle = self._worker is not None and not self._worker.active
                pause_ms = self._all_empty_ms
                if not activity.lanes and is_idle:
                    is_new = until_empty or self._claimed.is_set()
                    self._claimed.clear()
                    await self._emitter.emit(ALL_EMPTY if is_new else NO_ACTIVE_QUEUES)
                    if until_empty:
                        break
                    if not is_new:
                        await self._claims_within(self._no_active_ms)
                        continue
                elif activity.lanes and not activity.ready and is_idle and time.monotonic() >= emit_at:
                    emit_at = time.monotonic() + self._all_empty_ms / limits.SECOND
                    await self._emitter.emit(ALL_EMPTY)
                await asyncio.sleep(min(pause_ms / limits.SECOND, DRAIN_S) if until_empty else pause_ms / limits.SECOND)
        finally:
            if until_empty:
                self._is_stopping = True
                self._end()

    async def _claims_within(self, ms: int) -> None:
        """Wait until the worker claims a job, at most `ms`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ms / limits.SECOND):
                await self._claimed.wait()


class Worker(_Runs, Manager):
    """Runs the jobs of all queues of a namespace: one queue's jobs in order, different queues in parallel.

        def handle(queue: str, jobs: list[Any]) -> None: ...

        Worker(handle, "redis://localhost", concurrent=10).listen()

    The handler is a function or a coroutine function; if it raises, its jobs are run again at once, up to their
    `max_attempts`. `concurrent`: how many batches run at once. `batch_size`: how many jobs of one queue a batch has at
    most (1 to 500). `all_empty_sleep`, `no_active_queues_sleep`: how many seconds pass between two of these events; the
    worker itself starts jobs at once. `Manager` describes the other options. Raises `InvalidArgument`.
    """

    def listen(self) -> None:
        """Run jobs until `stop()` is called, by a callback or in another thread."""
        asyncio.run(self._work(False))

    def drain(self) -> None:
        """Run jobs until all queues are empty."""
        asyncio.run(self._work(True))

    def stop(self) -> None:
        """Start no more jobs. `listen` returns when the running batches have finished."""
        self._is_stopping = True
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._end)


class AsyncWorker(_Runs, AsyncManager):
    """`Worker` for asyncio, with the same options and methods.

    worker = AsyncWorker(handle, "redis://localhost", concurrent=10)
    await worker.listen()
    """

    async def listen(self) -> None:
        await self._work(False)

    async def drain(self) -> None:
        await self._work(True)

    async def stop(self) -> None:
        self._is_stopping = True
        self._end()


def _batch_of(jobs: list[Job]) -> tuple[str, list[str], list[Any]]:
    return jobs[0].lane or "", [job.id for job in jobs], [json.loads(job.payload) for job in jobs]
