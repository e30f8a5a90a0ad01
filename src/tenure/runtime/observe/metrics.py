"""Counts the metrics of a worker from its reports and its calls to Redis. A worker without metrics has none of this."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias, TypeVar

from tenure.core.job import JobView
from tenure.core.latency import BOUNDS, Times
from tenure.core.minutes import Ends
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Retried
from tenure.core.steps import Invoke, Steps, Watcher
from tenure.core.task import TaskSpec
from tenure.metrics.counts import TASKS_MAX, Counts, Measured
from tenure.runtime.jobs.held import Ended, Held, Outcomes
from tenure.runtime.observe.latency import BUCKETS, Latencies, enqueued_ms
from tenure.runtime.ports import Driver, Messages

_ENDS: Final[dict[type[Outcome], str]] = {
    Failed: "failed",
    Broken: "broken",
    Cancelled: "cancelled",
}

T = TypeVar("T")
RedisCalled: TypeAlias = Callable[[str, float], None]


class _Cell:
    """The waits and runs of one task on one queue: by bucket of `BOUNDS`, and their sums."""

    __slots__ = ("run_s", "runs", "wait_s", "waits")

    def __init__(self) -> None:
        self.waits, self.runs = [0] * BUCKETS, [0] * BUCKETS
        self.wait_s = self.run_s = 0.0

    def add(self, run_s: float, wait_s: float) -> None:
        self.run_s += run_s
        self.wait_s += wait_s


class WorkerMetrics(Latencies):
    """See the module. Used from the event loop's thread only.

    It replaces the counts of latencies of a worker, so that each job is looked at once. Jobs are counted in cells, and
    these are added up when the numbers are read.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        super().__init__(clock, wall)
        self._counts = Counts()
        self._cells: defaultdict[tuple[str, str | None], _Cell] = defaultdict(_Cell)
        self._none = _Cell()  # until the first job
        self._away_since: float | None = None

    def begin(self, specs: Sequence[TaskSpec], queues: Collection[str]) -> None:
        """Show the counters of these tasks as 0: Prometheus sees no increase in a counter that begins at 1."""
        if len(specs) > TASKS_MAX:  # which of them have jobs is not known yet
            return
        for spec in (one for one in specs if one.queue in queues):
            self._counts.add("tenure_retries_total", spec.queue, spec.name, number=0)
            for outcome in ("completed", *_ENDS.values()):
                self._counts.add("tenure_jobs_ended_total", spec.queue, spec.name, outcome, number=0)

    def take(self) -> Measured:
        """Return what was counted since the last call."""
        self._fold()
        if self._away_since is not None:
            now = self._clock()
            self._away(now - self._away_since)
            self._away_since = now
        return self._counts.take()

    def of_queues(self) -> dict[str, Times]:
        self._fold()
        return super().of_queues()

    def take_ends(self) -> dict[str, Ends]:
        self._fold()
        return super().take_ends()

    def _fold(self) -> None:
        """Add the cells to the counts and to the latencies of their queues."""
        cells, self._cells = self._cells, defaultdict(_Cell)
        for (queue, task), cell in cells.items():
            for counts, more in zip(self._window(queue), (cell.waits, cell.runs), strict=True):
                counts[:] = map(int.__add__, counts, more)
            self._counts.observe_all("tenure_job_run_seconds", queue, task, counts=cell.runs, seconds=cell.run_s)
            self._counts.observe_all("tenure_job_wait_seconds", queue, counts=cell.waits, seconds=cell.wait_s)

    def redis_called(self, call: str, seconds: float) -> None:
        """Count a call to Redis."""
        self._counts.observe("tenure_redis_call_seconds", call, seconds=seconds)

    def finished(self, ended: Sequence[Ended]) -> None:
        ahead_s, spec, queue, cell = self._ahead_s, None, "", self._none
        runs, waits, run_s, wait_s = cell.runs, cell.waits, 0.0, 0.0
        for run, _, at in ended:
            started_at = run.started_at
            if not started_at:  # its process never called the handler
                continue
            seconds = at - started_at
            ran = bisect_right(BOUNDS, seconds)
            for held in (run,) if type(run) is Held else run.members:
                lease = held.lease
                if held.spec is not spec or lease.record.queue != queue:  # most jobs are as the one before
                    cell.add(run_s, wait_s)
                    spec, queue = held.spec, lease.record.queue
                    cell = self._cells[queue, spec.name]
                    runs, waits, run_s, wait_s = cell.runs, cell.waits, 0.0, 0.0
                runs[ran] += 1
                run_s += seconds
                if (ms := enqueued_ms(lease)) is not None:
                    waited_s = started_at + ahead_s - ms / 1_000
                    waits[bisect_right(BOUNDS, waited_s)] += 1
                    if waited_s > 0.0:  # the clock of Redis may be ahead
                        wait_s += waited_s
        cell.add(run_s, wait_s)

    def settled(self, items: Outcomes) -> None:
        spec, completed, others = None, 0, []
        for held, outcome in items:
            if type(outcome) is not Completed:
                others.append((held, outcome))
                continue
            if held.spec is not spec:
                self._completed(items[0][0], spec, completed)
                spec, completed = held.spec, 0
            completed += 1
        self._completed(items[0][0], spec, completed)
        if others:
            super().settled(others)
            for held, outcome in others:
                self._settled_otherwise(held, outcome)

    def _completed(self, first: Held, spec: TaskSpec | None, jobs: int) -> None:
        if spec is not None:
            queue = first.lease.record.queue
            self.count(queue, "completed", jobs)
            self._counts.add("tenure_jobs_ended_total", queue, spec.name, "completed", number=jobs)

    def _settled_otherwise(self, held: Held, outcome: Outcome) -> None:
        record = held.lease.record
        if end := _ENDS.get(type(outcome)):
            self._counts.add("tenure_jobs_ended_total", record.queue, record.task, end)
        elif type(outcome) is Crashed or (type(outcome) is Retried and not outcome.deferred):
            self._counts.add("tenure_retries_total", record.queue, record.task)

    def poisoned(self, view: JobView) -> None:
        super().poisoned(view)
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
    """A driver that measures the calls of scripts. Repeated attempts of a call count as one.

    `called`: gets the name of the script and the seconds, after the reply.
    """

    def __init__(self, driver: Driver, called: RedisCalled, clock: Callable[[], float] = time.monotonic) -> None:
        self._driver = driver
        self._called = called
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
                    self._called(call.script.name, self._clock() - began_at)
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
