"""Maintains the queues of the worker, at intervals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tenure.core import limits
from tenure.core.errors import NewerLayout, TenureError, is_silent
from tenure.runtime.context import WorkerContext
from tenure.runtime.log import log_event

UNPARKED_MS: Final = 250
"""How soon to look for parked jobs again after some came back: workers without their task may park them again."""

SOONEST_MS: Final = 1_000
"""How soon the next round of maintenance is when the engine wishes one before the interval ends."""

ROUNDS_MAX = 20
"""Rounds of maintenance of a queue in a row, while there is more to do. The rest waits for the next time."""


class Maintainer:
    """The loop is `run`.

    `offered`: the tasks and the queues with a handler here at present: their parked jobs can run.
    `ticks`: called with a queue and how many ms remain until one of its schedules is due; None: it has no schedule.
    """

    def __init__(
        self,
        context: WorkerContext,
        offered: Callable[[], tuple[Sequence[str], Collection[str]]],
        ticks: Callable[[str, int | None], None],
    ) -> None:
        self._context = context
        self._engine = context.engine
        self._driver = context.driver
        self._env = context.env
        self._offered = offered
        self._ticks = ticks
        self._refusing: dict[str, frozenset[str]] = {}
        """By queue, others that did not take its follow-up jobs in the last round."""

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
            self._log_refused(queue, {one.queue: one.reason for one in done.refused})
            if done.reclaimed or done.unparked:
                log_event("queue_maintained", queue=queue, reclaimed=done.reclaimed, unparked=done.unparked)
            if not done.more:
                break
        return unparked, next_ms

    def _log_refused(self, queue: str, reasons: Mapping[str, str]) -> None:
        before = self._refusing.get(queue, frozenset())
        for other in reasons.keys() - before:
            log_event("redis_refused", what="follow-ups", queue=other, error=reasons[other])
        for other in before - reasons.keys():
            log_event("redis_restored", what="follow-ups", queue=other)
        self._refusing[queue] = frozenset(reasons)
