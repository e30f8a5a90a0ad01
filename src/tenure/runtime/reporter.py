"""Sends the progress that running jobs report: the newest of each job, at intervals. A refusal is only logged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from tenure.core import limits
from tenure.core.errors import TenureError
from tenure.core.features import Feature
from tenure.core.job import LeaseRef
from tenure.core.ports import needed
from tenure.core.shape import Progress
from tenure.runtime.context import WorkerContext
from tenure.runtime.jobs.held import Held, Phase
from tenure.runtime.log import Once, brief, log_event


class Reporter:
    """`tell` is for any thread; `run` sends reports, and calls `lose` for jobs that this worker holds no longer."""

    def __init__(self, context: WorkerContext) -> None:
        self._engine = context.engine
        self._driver = context.driver
        self._env = context.env
        self._loop = asyncio.get_running_loop()
        self._newest: dict[Held, Progress] = {}
        self._wake = asyncio.Event()
        self._woken = False
        self._told = Once(1)

    def tell(self, held: Held, progress: Progress) -> None:
        """Keep the report to be sent, in place of an earlier one. Never blocks."""
        self._newest[held] = progress
        # Race with _send: it lowers the flag before it takes anything, so if the flag is up here, what was just kept
        # will be seen. Two threads may both raise it: one wake-up too many is harmless.
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._loop.call_soon_threadsafe(self._wake.set)

    async def run(self, lose: Callable[[LeaseRef, str], None]) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._send(lose)
            await self._env.sleep(self._env.limits.progress_ms / limits.SECOND)

    async def _send(self, lose: Callable[[LeaseRef, str], None]) -> None:
        self._woken = False
        for held in list(self._newest):
            progress = self._newest.pop(held)
            if held.phase is not Phase.RUNNING:
                continue
            try:
                results = needed(self._engine.name, self._engine.results, Feature.PROGRESS)
                ours = await self._driver.run(results.progress(held.lease, progress))
            except TenureError as error:
                if self._told.is_new(""):
                    log_event("redis_refused", logging.WARNING, what="progress", error=brief(error))
                return
            self._told.forget()
            if not ours:
                lose(held.ref, "progress")
