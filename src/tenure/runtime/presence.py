"""Announces the worker to the inspector, and adds what it counted to the history of its queues."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from tenure.core import limits
from tenure.core.worker_view import JobStack, WorkerView
from tenure.runtime.context import WorkerContext
from tenure.runtime.handlers.routes import Routes
from tenure.runtime.jobs.suspects import Suspects

TASKS_MOST: Final = 500
"""A worker with more tasks does not announce them."""
LIMITS_MOST: Final = 100
"""The most limits of its code that a worker announces."""
STACKS_MS: Final = 5 * limits.MINUTE
"""How long a worker announces the stacks that were asked for."""


class Presence:
    """See the module. The loop is `run`.

    `offered`: the tasks that can be run here at present, and queues of raw payloads, which are not announced.
    `routes`: have the limits and the batches in the code of the app. `awaiting`: how many jobs wait for the result of
    another. `stacks`: where the running handlers are.
    """

    def __init__(
        self,
        context: WorkerContext,
        suspects: Suspects,
        offered: Callable[[], tuple[Sequence[str], Collection[str]]],
        routes: Routes,
        awaiting: Callable[[], int],
        stacks: Callable[[], Awaitable[tuple[JobStack, ...]]],
    ) -> None:
        self._context = context
        self._engine = context.engine
        self._suspects = suspects
        self._offered = offered
        self._limits = tuple(routes.limits()[:LIMITS_MOST])
        self._batches = {queue: rule.size for queue, rule in routes.batch_rules().items()}
        self._awaiting = awaiting
        self._stacks_of = stacks
        self._stacks: tuple[JobStack, ...] = ()
        self._stacks_ms: int | None = None
        """When they were taken."""
        self._announcing = asyncio.Lock()
        self._started_ms = _wall_ms()

    async def run(self) -> None:
        while True:
            await self.announce()
            await self.report_ends()
            await self._context.env.sleep(self._engine.timing.presence_ms / limits.SECOND)

    async def report_ends(self) -> None:
        """Add the jobs that ended here since the last call to the history of their queues. An error loses them."""
        history = self._engine.history
        for queue, ends in self._context.latencies.take_ends().items():
            if history is not None:
                await self._context.driver.run(history.note_ends(queue, ends))

    async def announce(self) -> None:
        """Announce this worker. If the reply changes whether it is quiet, announce that too."""
        # One at a time: the answer that comes last must be the newest.
        async with self._announcing:
            for _ in range(2):
                quiet = bool(await self._context.driver.run(self._engine.announce(self._view())))
                if quiet == self._context.intake.is_quiet:
                    return
                self._context.intake.be_quiet(quiet, self._context.worker)

    async def show_stacks(self) -> None:
        """Announce where the running handlers are. The next announcements repeat it for `STACKS_MS`."""
        self._stacks, self._stacks_ms = await self._stacks_of(), _wall_ms()
        await self.announce()

    def _tasks(self) -> tuple[str, ...] | None:
        tasks, _ = self._offered()
        return tuple(tasks) if len(tasks) <= TASKS_MOST else None

    def _view(self) -> WorkerView:
        if self._stacks_ms is not None and _wall_ms() - self._stacks_ms > STACKS_MS:
            self._stacks, self._stacks_ms = (), None
        inflight = self._context.inflight
        return WorkerView(
            id=self._context.worker,
            queues=self._context.queues,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ms=self._started_ms,
            seen_ms=_wall_ms(),
            concurrency=inflight.slots,
            active=inflight.held,
            quiet=self._context.intake.is_quiet,
            alone=self._suspects.claims_nothing,
            times=self._context.latencies.of_queues(),
            limits=self._limits,
            tasks=self._tasks(),
            awaiting=self._awaiting(),
            stacks=self._stacks,
            stacks_ms=self._stacks_ms,
            batches=self._batches,
        )


def _wall_ms() -> int:
    return int(time.time() * limits.SECOND)
