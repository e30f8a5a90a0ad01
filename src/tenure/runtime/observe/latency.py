"""Counts how long jobs wait and run. The worker's announcement has the counts, so a job costs no call."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from tenure.core.job import Lease
from tenure.core.latency import BOUNDS, Times
from tenure.runtime.jobs.held import Ended, Held
from tenure.runtime.jobs.reports import Subscriber

BUCKETS: Final = len(BOUNDS) + 1
WINDOW_S: Final = 300.0
"""Counts of the present window and of the one before are shown: of five to ten minutes."""

_Window: TypeAlias = tuple[list[int], list[int]]


def enqueued_ms(lease: Lease) -> int | None:
    """Since when the job has been waiting. None: unknown, or it waited for something else than a worker."""
    record = lease.record
    is_first = lease.failures == 0 and lease.crashes == 0
    return record.enqueued_ms if is_first and record.enqueued_ms and not record.delayed else None


class Latencies(Subscriber):
    """Used from the event loop's thread only. `clock` is monotonic, `wall` that of the machine, both in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._present: dict[str, _Window] = {}
        """Of each queue the counts of waits and of runs, by bucket."""
        self._before: dict[str, _Window] = {}
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
                    wait_counts, run_counts = self._present[lease.record.queue]
                except KeyError:
                    wait_counts, run_counts = self._present[lease.record.queue] = [0] * BUCKETS, [0] * BUCKETS
                run_counts[ran] += 1
                if (ms := enqueued_ms(lease)) is not None:
                    wait_counts[bisect_right(BOUNDS, started_at + ahead_s - ms / 1_000)] += 1

    def of_queues(self) -> dict[str, Times]:
        """The counts of each queue."""
        now = self._clock()
        self._ahead_s = self._wall() - now
        if now >= self._ends_at:
            self._ends_at = now + WINDOW_S
            self._before, self._present = self._present, {}
        found = {}
        for queue in self._before.keys() | self._present.keys():
            windows = [one[queue] for one in (self._before, self._present) if queue in one]
            found[queue] = Times(*(_sum(counts) for counts in zip(*windows, strict=True)))
        return found


def _sum(counts: Iterable[list[int]]) -> dict[int, int]:
    totals = [sum(column) for column in zip(*counts, strict=True)]
    return {bucket: count for bucket, count in enumerate(totals) if count}
