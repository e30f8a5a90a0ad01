"""Makes the ticks of schedules, and announces the schedules of this worker's code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tenure.core import limits
from tenure.core.errors import InvalidArgument, TenureError, is_silent
from tenure.core.schedules import rules
from tenure.core.schedules.schedule import DueSchedules, SchedulePort, ScheduleSpec, StoredSchedule, Tick, Ticked
from tenure.runtime.context import WorkerContext
from tenure.runtime.log import Once, brief, log_event

SPREAD_MS: Final = 50
"""A worker looks for due ticks up to this time after they are due. The time doubles with each look that finds none,
because other workers were faster, so that only some of many workers look for each tick."""
SPREAD_MOST_MS: Final = 300
"""The longest of these times."""
VAIN_MOST: Final = 10
"""Looks without a due schedule that are counted."""
ROUNDS_MAX: Final = 20
"""Reads of due schedules of a queue in a row. Then the other queues have their turn."""
KEPT_MS: Final = 500
"""How soon to look again after this worker could not make a tick."""
CHOOSE_S: Final = 0.05
"""How long a worker decides about schedules before it makes their ticks. After an outage one decision may take long."""
NOTED_MAX: Final = 100
"""Schedules for which trouble is logged once each."""
_TAKEN: Final = (
    "An app with living workers, or a user, has a schedule of this name, or of an earlier one, or newer code has it "
    "under another name. It is stored when that app or code has had no worker for 35 s."
)


class Scheduler:
    """Two loops: `run` makes the ticks that are due, `present` announces the schedules of the code.

    `specs`: the schedules of the code. `source`: the app that they belong to; empty: none, and nothing is announced.
    """

    def __init__(
        self,
        context: WorkerContext,
        port: SchedulePort,
        specs: Sequence[ScheduleSpec],
        source: str,
        new_id: Callable[[], str],
    ) -> None:
        self._context = context
        self._port = port
        self._env = context.env
        self._source = source
        self._new_id = new_id
        self._specs = {queue: {spec.name: spec for spec in specs if spec.queue == queue} for queue in context.queues}
        self._digests = {
            queue: {name: rules.digest_of(spec) for name, spec in mine.items()} for queue, mine in self._specs.items()
        }
        self._due: dict[str, float] = {}
        """When to look for due schedules of a queue, by `Env.clock`. A queue without schedules is not here."""
        self._vain = dict.fromkeys(context.queues, 0)
        """How many looks in a row found no due schedule."""
        self._changed = asyncio.Event()
        self._troubles = Once(NOTED_MAX)

    def note(self, queue: str, tick_ms: int | None) -> None:
        """Note in how many ms a schedule of the queue is due; None: it has no schedules."""
        if tick_ms is None:
            self._due.pop(queue, None)
            return
        spread_ms = min(SPREAD_MS * 2.0 ** self._vain[queue], SPREAD_MOST_MS)
        self._due[queue] = self._env.clock() + (tick_ms + self._env.random() * spread_ms) / limits.SECOND
        self._changed.set()

    async def run(self) -> None:
        """Make ticks when they are due. What is due next comes from maintenance and from the replies to ticks."""
        while True:
            self._changed.clear()
            wait_s = min(self._due.values(), default=math.inf) - self._env.clock()
            if wait_s > 0:
                await self._rest(wait_s)
                continue
            refusal: TenureError | None = None
            for queue in [queue for queue, at in self._due.items() if at <= self._env.clock()]:
                try:
                    await self._look(queue)
                except TenureError as error:  # the other queues have their ticks all the same
                    if is_silent(error):
                        raise
                    refusal = refusal or error
                    self.note(queue, KEPT_MS)
            if refusal is not None:
                raise refusal

    async def _rest(self, wait_s: float) -> None:
        """Wait until a tick may be due, or one that is due earlier is noted."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(wait_s) else wait_s):
                await self._changed.wait()

    async def _look(self, queue: str) -> None:
        """Make the ticks of a queue that are due."""
        for round_ in range(ROUNDS_MAX):
            found = await self._context.driver.run(self._port.due_schedules(queue, limits.PAGE_MAX))
            if found.schedules:
                self._vain[queue] = 0
            elif not round_:
                self._vain[queue] = min(self._vain[queue] + 1, VAIN_MOST)
            self.note(queue, found.next_ms)
            if not found.schedules:
                return
            soonest = min(math.inf if found.next_ms is None else found.next_ms, await self._tick(queue, found))
            self.note(queue, None if math.isinf(soonest) else int(max(0, soonest)))
            if soonest > 0:
                return

    async def _tick(self, queue: str, found: DueSchedules) -> float:
        """Make the ticks of these schedules. Return in how many ms one of them is due again, as far as this worker
        knows."""
        soonest, left = math.inf, len(found.schedules)
        for ticks in self._chosen(queue, found):
            answers = await self._context.driver.run(self._port.tick(queue, ticks))
            for tick, answer in zip(ticks, answers, strict=True):
                soonest = min(soonest, self._note_tick(queue, tick, answer, found.now_ms))
            left -= len(ticks)
        return min(soonest, KEPT_MS) if left else soonest

    def _chosen(self, queue: str, found: DueSchedules) -> Iterator[list[Tick]]:
        """Yield the ticks of schedules that are due, in groups."""
        ticks: list[Tick] = []
        until = self._env.clock() + CHOOSE_S
        for stored in found.schedules:
            ticks += self._choose(queue, stored, found.now_ms)
            if self._env.clock() >= until:
                yield ticks
                ticks, until = [], self._env.clock() + CHOOSE_S
        if ticks:
            yield ticks

    def _choose(self, queue: str, stored: StoredSchedule, now_ms: int) -> list[Tick]:
        """Decide about a schedule that is due. Empty: this release cannot."""
        spec = stored.spec
        try:
            if spec is None:
                raise InvalidArgument("A newer release has written it.")
            chosen = rules.decide(spec, stored.state.planned_ms, now_ms)
        except InvalidArgument as error:
            self._note_trouble(queue, stored.name, error)
            return []
        tick = Tick(
            stored.name,
            stored.digest,
            stored.state.planned_ms,
            None if chosen.run_ms is None else spec.job(self._new_id(), chosen.run_ms),
            stored.state.fire_ms if chosen.run_ms is None else rules.fire_of(spec, chosen.run_ms),
            chosen.next_ms,
            rules.fire_of(spec, chosen.next_ms),
            chosen.missed,
            spec.overlap,
        )
        return [tick]

    def _note_tick(self, queue: str, tick: Tick, answer: Ticked | TenureError, now_ms: int) -> float:
        """Report what became of a tick. Return in how many ms its schedule is due again."""
        if isinstance(answer, TenureError):
            self._note_trouble(queue, tick.name, answer)
            return KEPT_MS
        if answer in (Ticked.STALE, Ticked.EARLY):
            return KEPT_MS
        if answer is Ticked.ENQUEUED:
            self._context.reports.ticked(queue, max(0, now_ms - tick.run_fire_ms) / limits.SECOND)
        if tick.missed or answer is Ticked.SKIPPED:
            level = logging.WARNING if tick.missed else logging.INFO
            skipped = int(answer is Ticked.SKIPPED)
            log_event("ticks_left_out", level, queue=queue, schedule=tick.name, late=tick.missed, overlap=skipped)
        return tick.next_fire_ms - now_ms if tick.next_ms else math.inf

    async def present(self) -> None:
        """Announce the schedules of the code at the start and every `presence_ms`, and put those that Redis lacks."""
        while True:
            refusal: TenureError | None = None
            for queue in self._context.queues:
                if not self._source or not (self._specs[queue] or queue in self._due):
                    continue
                try:
                    await self._announce(queue)
                except TenureError as error:
                    if is_silent(error):
                        raise
                    refusal = refusal or error
            if refusal is not None:
                raise refusal
            await self._env.sleep(self._context.engine.timing.presence_ms / limits.SECOND)

    async def _announce(self, queue: str) -> None:
        driver, mine = self._context.driver, self._specs[queue]
        earlier = {name: spec.earlier for name, spec in mine.items()}
        reply = await driver.run(self._port.announce_schedules(queue, self._source, self._digests[queue], earlier))
        for name in reply.ended:
            log_event("schedule_ended", queue=queue, schedule=name, source=self._source)
        for name in reply.refused:
            self._note_trouble(queue, name, InvalidArgument(_TAKEN))
        for wanted in reply.wanted:
            spec = mine[wanted.name]
            planned_ms = rules.first(spec, reply.now_ms, wanted.planned_ms, wanted.last_planned_ms)
            fire_ms = rules.fire_of(spec, planned_ms)
            digest = self._digests[queue][wanted.name]
            if await driver.run(self._port.put_schedule(spec, digest, wanted.current, planned_ms, fire_ms)):
                log_event("schedule_stored", queue=queue, schedule=wanted.name, source=self._source)
            if planned_ms:
                known = self._due.get(queue, math.inf) - self._env.clock()
                self.note(queue, int(max(0, min(known * limits.SECOND, fire_ms - reply.now_ms))))

    def _note_trouble(self, queue: str, name: str, error: TenureError) -> None:
        if self._troubles.is_new(f"{queue} {name} {type(error).__name__}"):
            log_event("schedule_refused", queue=queue, schedule=name, error=brief(error))
