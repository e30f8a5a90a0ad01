"""Reads what the metrics of all queues and workers need, at most a few calls to Redis a second."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from tenure.client.limits import Limits
from tenure.client.schedules import Schedules
from tenure.core import limits as bounds
from tenure.core.engine import Feature, FullEngine
from tenure.core.errors import TenureError
from tenure.core.job import QueueView, State
from tenure.core.schedules.schedule import ScheduleView
from tenure.core.worker_view import WorkerView
from tenure.manage.inspect import JobSearch
from tenure.metrics.counts import Counts
from tenure.metrics.exposition import Snapshot
from tenure.metrics.families import OF_FLEET
from tenure.protocols.registry import entry_of
from tenure.runtime.log import Once, brief, log_event

CALLS_PER_S: Final = 3
"""Calls to Redis a second, on average. With more queues the numbers are older."""
READ_MS: Final = bounds.MINUTE
"""How long one read may take: a thousand queues behind a slow network take half of it."""
WAIT_MS: Final = 5 * bounds.SECOND
"""How long a request waits for a read. Then it gets the numbers before."""
QUEUE_CALLS: Final = 4
"""The most calls that one queue takes, or one partition, without its schedules."""
LIMITS_MOST: Final = bounds.PAGE_MAX
"""The most limits, by name: each takes a call."""


class FleetApp(Protocol):
    """What the reader needs of an app."""

    schedules: Schedules
    limits: Limits

    @property
    def inspect(self) -> JobSearch: ...
    @property
    def engine(self) -> FullEngine: ...


class FleetReader:
    """Reads for all that ask. One read serves all requests until the next one is allowed.

    text = exposition(await FleetReader(app).read())
    """

    def __init__(self, app: FleetApp, clock: Callable[[], float] = time.monotonic, wait_ms: int = WAIT_MS) -> None:
        self._app = app
        self._clock = clock
        self._wait_ms = wait_ms
        self._reading: asyncio.Task[None] | None = None
        self._counts = Counts()
        self._read_at: float | None = None
        self._next_at = -math.inf
        self._troubles = Once()
        self.spent = 0
        """At most this many calls to Redis were made."""

    async def read(self) -> Snapshot:
        if self._reading is None and self._clock() >= self._next_at:
            self._reading = asyncio.create_task(self._update())
        if (reading := self._reading) is not None:
            done, _ = await asyncio.wait({reading}, timeout=self._wait_ms / bounds.SECOND)
            if done:
                self._reading = None
                reading.result()
        if self._read_at is not None:
            self._counts.set("tenure_fleet_age_seconds", number=self._clock() - self._read_at)
        return Snapshot(self._counts.snapshot(), OF_FLEET)

    async def _update(self) -> None:
        counts, before, began_at = Counts(), self.spent, self._clock()
        try:
            async with asyncio.timeout(READ_MS / bounds.SECOND):
                await self._fill(counts)
            counts.set("tenure_redis_up", number=1)
            if self._troubles.forget():
                log_event("redis_restored", what="metrics")
        except (TenureError, TimeoutError) as error:
            counts = Counts()  # no numbers rather than some
            counts.set("tenure_redis_up", number=0)
            if self._troubles.is_new(type(error).__name__):
                log_event("redis_lost", what="metrics", error=brief(error))
        ended_at = self._clock()
        self._counts, self._read_at = counts, began_at
        # A read that failed has made calls that were not counted.
        self._next_at = ended_at + max(max(1, self.spent - before) / CALLS_PER_S, ended_at - began_at)

    async def _fill(self, counts: Counts) -> None:
        seen = await self._app.inspect.aoverview()
        self.spent += 2 + len({name for one in seen.workers for name in one.queues})
        for view in seen.queues:
            self.spent += QUEUE_CALLS * max(1, view.partitions)
            _add_queue(counts, view, time.time() * bounds.SECOND)
        unread = len(seen.refused) + seen.left_out + sum(bool(view.unreachable) for view in seen.queues)
        counts.set("tenure_queues_unread", number=unread)
        states = Counter(map(_state_of, seen.workers))
        # Workers of other programs do not announce themselves: 0 would be wrong.
        if states or not entry_of(self._app.engine).has_foreign_clients:
            for state in ("running", "quiet", "alone"):
                counts.set("tenure_workers", state, number=states[state])
        features = self._app.engine.features
        if Feature.SCHEDULES in features:
            self.spent += 1 + sum(max(1, view.partitions) for view in seen.queues)
            paused = {view.name for view in seen.queues if view.settings.paused}
            _add_schedules(counts, await self._app.schedules.alist(), paused)
        if Feature.LIMITS in features:
            found = await self._app.limits.alist(limit=LIMITS_MOST)
            self.spent += 2 + len(found)
            for one in found:
                counts.add("tenure_limit_places", one.name, number=one.active)
                counts.add("tenure_limit_waiting_lanes", one.name, number=sum((one.lanes or {}).values()))


def _add_queue(counts: Counts, view: QueueView, now_ms: float) -> None:
    for state, number in view.counts.items():
        counts.add("tenure_jobs", view.name, state, number=number)
    oldest_s = 0.0 if view.ready_ms is None else max(0.0, now_ms - view.ready_ms) / bounds.SECOND
    if view.ready_ms is not None or not view.counts.get(State.READY):
        counts.set("tenure_oldest_ready_seconds", view.name, number=oldest_s)
    if view.outgoing_ms is not None:
        outgoing_s = max(0.0, now_ms - view.outgoing_ms) / bounds.SECOND
        counts.set("tenure_outgoing_seconds", view.name, number=outgoing_s)
    counts.set("tenure_queue_paused", view.name, number=view.settings.paused)
    counts.add("tenure_lanes", view.name, "blocked", number=view.blocked_lanes)
    counts.add("tenure_lanes", view.name, "parked", number=view.parked_lanes)
    counts.add("tenure_reclaimed_total", view.name, number=view.totals.get("crashed", 0))


def _add_schedules(counts: Counts, schedules: Sequence[ScheduleView], paused: Collection[str]) -> None:
    overdue: dict[str, float] = {}
    for one in schedules:
        counts.add("tenure_schedules_missed_total", one.queue, number=one.missed)
        late_s = 0.0 if one.next is None or one.queue in paused else time.time() - one.next.timestamp()
        overdue[one.queue] = max(overdue.get(one.queue, 0.0), late_s)
    for queue, late_s in overdue.items():
        counts.set("tenure_schedule_overdue_seconds", queue, number=late_s)


def _state_of(worker: WorkerView) -> str:
    return "quiet" if worker.quiet else "alone" if worker.alone else "running"
