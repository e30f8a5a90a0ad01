"""Counts how long jobs wait and run, and how they end. The counts go to Redis with the worker's announcement, so a job
costs no call."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tenure.core.job import JobView, Lease
from tenure.core.latency import BOUNDS, Times
from tenure.core.minutes import Ends
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Retried
from tenure.runtime.jobs.held import Ended, Held, Outcomes
from tenure.runtime.jobs.reports import Subscriber

BUCKETS: Final = len(BOUNDS) + 1
WINDOW_S: Final = 300.0
"""Counts of the present window and of the one before are shown: of five to ten minutes."""

_Window: TypeAlias = tuple[list[int], list[int]]

_FIELDS: Final[dict[type[Outcome], str]] = {
    Failed: "failed",
    Broken: "failed",
    Retried: "retried",
    Cancelled: "cancelled",
}
"""The field of `Ends` that counts an outcome. Completed jobs are counted together."""


def enqueued_ms(lease: Lease) -> int | None:
    """Since when the job has been waiting. None: unknown, or it waited for something else than a worker."""
    record = lease.record
    is_first = lease.failures == 0 and lease.crashes == 0
    return record.enqueued_ms if is_first and record.enqueued_ms and not record.delayed else None


class Latencies(Subscriber):
    """Used from the event loop's thread only. `clock` is monotonic, `wall` is the machine's clock, both in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._present: dict[str, _Window] = {}
        """The counts of waits and of runs of each queue, by bucket."""
        self._before: dict[str, _Window] = {}
        self._unreported: dict[str, _Window] = {}
        """The counts since the last report, which adds them to the present window."""
        self._outcomes: dict[str, Counter[str]] = {}
        """Outcomes since the last report, by queue and by the field of `Ends`."""
        self._ends_at = clock() + WINDOW_S
        self._ahead_s = wall() - clock()

    def finished(self, ended: Sequence[Ended]) -> None:
        """Count the jobs of handlers that have ended."""
        ahead_s = self._ahead_s
        for run, _, at in ended:
            started_at = run.started_at
            if not started_at:  # its process never called the handler
                continue
            ran = bisect_right(BOUNDS, at - started_at)
            for held in (run,) if type(run) is Held else run.members:
                lease = held.lease
                try:
                    wait_counts, run_counts = self._unreported[lease.record.queue]
                except KeyError:
                    wait_counts, run_counts = self._window(lease.record.queue)
                run_counts[ran] += 1
                if (ms := enqueued_ms(lease)) is not None:
                    wait_counts[bisect_right(BOUNDS, started_at + ahead_s - ms / 1_000)] += 1

    def _window(self, queue: str) -> _Window:
        """The counts of a queue since the last report."""
        return self._unreported.setdefault(queue, ([0] * BUCKETS, [0] * BUCKETS))

    def settled(self, items: Outcomes) -> None:
        """Count how jobs of one queue ended."""
        queue, completed = items[0][0].lease.record.queue if items else "", 0
        for _, outcome in items:
            if type(outcome) is Completed:
                completed += 1
            elif (field := _FIELDS.get(type(outcome))) and not (type(outcome) is Retried and outcome.deferred):
                self.count(queue, field)
        self.count(queue, "completed", completed)

    def poisoned(self, view: JobView) -> None:
        self.count(view.queue, "failed")

    def count(self, queue: str, field: str, jobs: int = 1) -> None:
        """Add a number of jobs to a field of `Ends`."""
        if jobs:
            self._outcomes.setdefault(queue, Counter())[field] += jobs

    def of_queues(self) -> dict[str, Times]:
        """The counts of each queue."""
        now = self._clock()
        self._ahead_s = self._wall() - now
        if now >= self._ends_at:
            self._ends_at = now + WINDOW_S
            self._before, self._present = self._present, {}
        windows = (self._before, self._present, self._unreported)
        queues = {queue for window in windows for queue in window}
        return {queue: _times(*(window[queue] for window in windows if queue in window)) for queue in queues}

    def take_ends(self) -> dict[str, Ends]:
        """What has ended since the last report, by queue."""
        unreported, self._unreported = self._unreported, {}
        outcomes, self._outcomes = self._outcomes, {}
        ends = {}
        for queue in unreported.keys() | outcomes.keys():
            window = unreported.get(queue)
            ends[queue] = Ends(**outcomes.get(queue, Counter()), times=_times(window) if window else Times())
            if window:
                self._present[queue] = _sum([window, self._present[queue]]) if queue in self._present else window
        return ends


def _sum(windows: Sequence[_Window]) -> _Window:
    waits, runs = ([sum(column) for column in zip(*counts, strict=True)] for counts in zip(*windows, strict=True))
    return waits, runs


def _times(*windows: _Window) -> Times:
    return Times(*({bucket: count for bucket, count in enumerate(counts) if count} for counts in _sum(windows)))
