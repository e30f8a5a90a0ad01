"""Counts the metrics of a worker from its reports and its calls to Redis. A worker without metrics has none of this."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from tenure.core import limits
from tenure.core.job import JobView
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Retried
from tenure.core.steps import Invoke, Steps, Watcher
from tenure.metrics.counts import Counts, Measured
from tenure.runtime.jobs.held import Ended, Held, Outcomes
from tenure.runtime.jobs.reports import Subscriber
from tenure.runtime.observe.latency import enqueued_ms
from tenure.runtime.ports import Driver, Messages

_ENDS: Final[dict[type[Outcome], str]] = {
    Completed: "completed",
    Failed: "failed",
    Broken: "broken",
    Cancelled: "cancelled",
}

T = TypeVar("T")


class WorkerMetrics(Subscriber):
    """See the module. Used from the event loop's thread only. Both clocks are in seconds; `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._counts = Counts()
        self._away_since: float | None = None

    def take(self) -> Measured:
        """Return what was counted since the last call."""
        if self._away_since is not None:
            now = self._clock()
            self._away(now - self._away_since)
            self._away_since = now
        return self._counts.take()

    def timed(self, driver: Driver) -> TimedDriver:
        """Return the driver, with its calls measured."""
        return TimedDriver(driver, self._counts, self._clock)

    def finished(self, ended: Sequence[Ended]) -> None:
        ahead_s = self._wall() - self._clock()
        for run, _, at in ended:
            started_at = run.started_at
            if not started_at:  # its process never called the handler
                continue
            for held in (run,) if type(run) is Held else run.members:
                record = held.lease.record
                self._counts.observe("tenure_job_run_seconds", record.queue, record.task, seconds=at - started_at)
                if (ms := enqueued_ms(held.lease)) is not None:
                    waited_s = max(0.0, started_at + ahead_s - ms / limits.SECOND)
                    self._counts.observe("tenure_job_wait_seconds", record.queue, seconds=waited_s)

    def settled(self, items: Outcomes) -> None:
        for held, outcome in items:
            record = held.lease.record
            if end := _ENDS.get(type(outcome)):
                self._counts.add("tenure_jobs_ended_total", record.queue, record.task, end)
            elif type(outcome) is Crashed or (type(outcome) is Retried and not outcome.deferred):
                self._counts.add("tenure_retries_total", record.queue, record.task)

    def poisoned(self, view: JobView) -> None:
        self._counts.add("tenure_jobs_ended_total", view.queue, view.task, "broken")

    def lost(self, held: Held, noticed: str, outcome: Outcome | None, certain: bool) -> None:
        record = held.lease.record
        self._counts.add("tenure_leases_lost_total", record.queue, record.task)

    def ticked(self, queue: str, late_s: float) -> None:
        self._counts.observe("tenure_schedule_lateness_seconds", queue, seconds=late_s)

    def loop_blocked(self) -> None:
        self._counts.add("tenure_loop_blocked_total")

    def redis_away(self, error: BaseException) -> None:
        self._away_since = self._clock()

    def redis_back(self, away: float) -> None:
        if self._away_since is not None:
            self._away(self._clock() - self._away_since)
            self._away_since = None

    def _away(self, seconds: float) -> None:
        self._counts.add("tenure_redis_away_seconds_total", number=seconds)


class TimedDriver:
    """A driver that measures the calls of scripts. Repeated attempts of a call count as one."""

    def __init__(self, driver: Driver, counts: Counts, clock: Callable[[], float]) -> None:
        self._driver = driver
        self._counts = counts
        self._clock = clock

    async def run(self, steps: Steps[T]) -> T:
        return await self._driver.run(self._timed(steps))

    def _timed(self, steps: Steps[T]) -> Steps[T]:
        try:
            call = next(steps)
            while True:
                began_at = self._clock()
                try:
                    reply = yield call
                except Exception as error:
                    call = steps.throw(error)
                    continue
                if isinstance(call, Invoke) and call.lead is None:  # else it waits for jobs first
                    seconds = self._clock() - began_at
                    self._counts.observe("tenure_redis_call_seconds", call.script.name, seconds=seconds)
                call = steps.send(reply)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        finally:
            steps.close()

    def subscribe(self, channel: str) -> AbstractAsyncContextManager[Messages]:
        return self._driver.subscribe(channel)

    def watch(self, watcher: Watcher) -> None:
        self._driver.watch(watcher)
