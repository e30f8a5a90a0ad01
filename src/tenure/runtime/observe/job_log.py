"""Logs what happens to jobs. Starts and good ends above `LINES_MOST` a second are only counted, once a second."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final

from tenure.core import limits
from tenure.core.job import JobView
from tenure.core.logfmt import log_line
from tenure.core.names import ErrorDetail
from tenure.core.outcome import Completed, Outcome
from tenure.runtime.jobs.held import Batch, Held, Outcomes
from tenure.runtime.jobs.reports import Subscriber
from tenure.runtime.log import JOBS, log_event
from tenure.runtime.observe.error_counts import ErrorCounts
from tenure.runtime.observe.job_lines import ended, logs_jobs, lost, started
from tenure.runtime.observe.latency import enqueued_ms

LINES_MOST: Final = 100
"""Lines of jobs in a second: each has two, so 50 jobs. With more, a line a second counts them, until they are fewer."""
COUNTED_S: Final = 1.0


class JobLog(Subscriber):
    """Used from the event loop's thread only.

    `started`: how many jobs the worker has started so far. `logs_each`: each job has its lines, however many there are.
    `errors`: how much of a job's error is logged. While jobs are only counted, they cost next to nothing here: the
    worker counts its starts anyway.
    """

    def __init__(
        self,
        started: Callable[[], int] = lambda: 0,
        *,
        logs_each: bool = False,
        errors: ErrorDetail = "traceback",
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._started = started
        self._errors: ErrorDetail = errors
        self._most = math.inf if logs_each else LINES_MOST
        self._error_counts = None if logs_each else ErrorCounts()
        self._clock = clock
        self._wall = wall
        self._began_at = 0.0
        """When the present second began."""
        self._lines = 0
        """Lines in this second."""
        self._timer: asyncio.TimerHandle | None = None
        """Set while jobs are only counted."""
        self._started_before = 0
        self._completed = 0
        """Completed jobs that have no line yet."""

    @property
    def _has_lines(self) -> bool:
        """Whether each start and each good end has a line now."""
        return self._timer is None and logs_jobs()

    def started(self, run: Held | Batch) -> None:
        if self._has_lines:
            for held in run.members:
                started(held.lease, self._waited_s(held))
                self._count_line()

    def settled(self, items: Outcomes) -> None:
        has_lines, counted = self._has_lines, 0
        for held, outcome in items:
            if type(outcome) is not Completed:
                if self._error_counts is None or self._error_counts.is_shown(held.lease, outcome):
                    ended(held.lease, outcome, held.seconds, self._errors)
            elif has_lines:
                ended(held.lease, outcome, held.seconds, self._errors, self._waited_s(held))
                self._count_line()
                has_lines = self._timer is None
            else:
                counted += 1
        if self._timer is not None:
            self._completed += counted

    def lost(self, held: Held, noticed: str, outcome: Outcome | None, certain: bool) -> None:
        lost(held.lease, noticed, outcome, certain)

    def poisoned(self, view: JobView) -> None:
        attempt = view.failures + view.crashes
        log_event("broken", queue=view.queue, task=view.task, id=view.id, attempt=attempt, error="Crashed")

    def worker_stopped(self, released: int | None, hard: bool) -> None:
        """Log the last counts."""
        if self._error_counts is not None:
            self._error_counts.end()
        if self._timer is not None:
            self._timer.cancel()
            self._log_counts()
            self._timer = None

    def _waited_s(self, held: Held) -> float | None:
        """How long the job was ready before it started; None: unknown, as for a delayed job or a retry."""
        since_ms = enqueued_ms(held.lease)
        if since_ms is None or not held.started_at:
            return None
        return max(0.0, self._wall() - (self._clock() - held.started_at) - since_ms / limits.SECOND)

    def _count_line(self) -> None:
        now = self._clock()
        if now - self._began_at >= COUNTED_S:
            self._began_at, self._lines = now, 0
        self._lines += 1
        if self._lines >= self._most:
            self._begin_counting()

    def _begin_counting(self) -> None:
        self._began_at = self._clock()
        self._started_before = self._started()
        self._timer = asyncio.get_running_loop().call_later(COUNTED_S, self._counted)

    def _counted(self) -> None:
        """A second of counting is over."""
        if self._log_counts() > LINES_MOST:
            self._begin_counting()
        else:
            self._timer, self._lines = None, 0

    def _log_counts(self) -> int:
        """Log the counts since the last such line, unless both are 0. Return the number of lines that they replace."""
        new, completed, took_s = self._started() - self._started_before, self._completed, self._clock() - self._began_at
        self._completed = 0
        if new or completed:
            log_line(JOBS, "jobs_counted", None, {"started": new, "completed": completed, "in_s": took_s})
        return new + completed
