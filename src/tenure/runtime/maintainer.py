"""Maintains the queues of the worker, and announces the worker, at intervals."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import NewerLayout, TenureError, is_silent
from tenure.core.job import WorkerView
from tenure.core.rates import LimitRule
from tenure.runtime.context import WorkerContext
from tenure.runtime.jobs.suspects import Suspects
from tenure.runtime.log import log_event

UNPARKED_MS: Final = 250
"""How soon to look for parked jobs again after some came back: workers without their task may park them again."""

SOONEST_MS: Final = 1_000
"""How soon the next round of maintenance is when the engine wishes one before the interval ends."""

TASKS_MOST: Final = 500
"""A worker with more tasks does not announce them."""
LIMITS_MOST: Final = 100
"""The most limits of its code that a worker announces."""

ROUNDS_MAX = 20
"""Rounds of maintenance of a queue in a row, while there is more to do. The rest waits for the next time."""


class Maintainer:
    """Two loops: `run` maintains the queues, `present` announces this worker to the inspector.

    `offered`: the tasks, and the queues with handlers of raw payloads, whose parked jobs can be run here at present.
    `ticks`: called with a queue and how many ms remain until one of its schedules is due; None: it has none.
    `announced`: the limits in the code of the app. `awaiting`: how many jobs wait for the result of another.
    """

    def __init__(
        self,
        context: WorkerContext,
        suspects: Suspects,
        offered: Callable[[], tuple[Sequence[str], Collection[str]]],
        ticks: Callable[[str, int | None], None],
        announced: Sequence[LimitRule] = (),
        awaiting: Callable[[], int] = lambda: 0,
    ) -> None:
        self._context = context
        self._engine = context.engine
        self._driver = context.driver
        self._env = context.env
        self._inflight = context.inflight
        self._intake = context.intake
        self._suspects = suspects
        self._offered = offered
        self._ticks = ticks
        self._limits = tuple(announced[:LIMITS_MOST])
        self._awaiting = awaiting
        self._announcing = asyncio.Lock()
        self._started_ms = _wall_ms()

    async def run(self) -> None:
        """Maintain at the start and then every `maintain_ms`, plus or minus 25 %, so that workers take turns.

        The engine may wish an earlier round.
        """
        while True:
            unparked, next_ms = 0, limits.DAY
            refusal: TenureError | None = None
            for queue in self._context.queues:
                try:
                    again, wished_ms = await self._maintain(queue)
                    unparked += again
                    next_ms = min(next_ms, wished_ms if wished_ms >= 0 else next_ms)
                except NewerLayout:
                    continue  # the claim of the same queue logs it
                except TenureError as error:  # the other queues are maintained all the same
                    if is_silent(error):
                        raise
                    refusal = refusal or error
            if refusal is not None:
                raise refusal
            pause_ms = UNPARKED_MS if unparked else self._engine.timing.maintain_ms
            turn_ms = pause_ms * (0.75 + self._env.random() / 2)
            await self._env.sleep(min(turn_ms, max(next_ms, SOONEST_MS)) / limits.SECOND)

    async def _maintain(self, queue: str) -> tuple[int, int]:
        """Maintain one queue. Return how many parked jobs are ready again, and the wish for the next round in ms."""
        unparked, next_ms = 0, -1
        for _ in range(ROUNDS_MAX):
            tasks, raw_queues = self._offered()
            raw = frozenset(raw_queues) & {queue}
            done = await self._driver.run(self._engine.maintain((queue,), tasks, raw_queues=raw))
            unparked, next_ms = unparked + done.unparked, done.next_ms
            self._ticks(queue, done.tick_ms)
            for view in done.poisoned:
                self._context.reports.poisoned(view)
            if done.reclaimed or done.unparked:
                log_event("queue_maintained", queue=queue, reclaimed=done.reclaimed, unparked=done.unparked)
            if not done.more:
                break
        return unparked, next_ms

    async def present(self) -> None:
        while True:
            await self.announce()
            await self.report_ends()
            await self._env.sleep(self._engine.timing.presence_ms / limits.SECOND)

    async def report_ends(self) -> None:
        """Add the jobs that ended here since the last call to the history of their queues. An error loses them."""
        for queue, ends in self._context.latencies.take_ends().items():
            if Feature.HISTORY in self._engine.features:
                await self._driver.run(self._engine.note_ends(queue, ends))

    async def announce(self) -> None:
        """Announce this worker. If the reply changes whether it is quiet, announce that too."""
        # One at a time: the answer that comes last must be the newest.
        async with self._announcing:
            for _ in range(2):
                quiet = bool(await self._driver.run(self._engine.announce(self._view())))
                if quiet == self._intake.is_quiet:
                    return
                self._intake.be_quiet(quiet, self._context.worker)

    def _tasks(self) -> tuple[str, ...] | None:
        tasks, _ = self._offered()
        return tuple(tasks) if len(tasks) <= TASKS_MOST else None

    def _view(self) -> WorkerView:
        return WorkerView(
            id=self._context.worker,
            queues=self._context.queues,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ms=self._started_ms,
            seen_ms=_wall_ms(),
            concurrency=self._inflight.slots,
            active=self._inflight.held,
            quiet=self._intake.is_quiet,
            alone=self._suspects.claims_nothing,
            times=self._context.latencies.of_queues(),
            limits=self._limits,
            tasks=self._tasks(),
            awaiting=self._awaiting(),
        )


def _wall_ms() -> int:
    return int(time.time() * limits.SECOND)
