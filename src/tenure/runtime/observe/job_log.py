"""Logs each start and each good end of a job; above `LINES_MOST` a second only their number, once a second."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final

from tenure.core import limits
from tenure.core.logfmt import log_line
from tenure.core.names import ErrorDetail
from tenure.core.outcome import Completed, Outcome
from tenure.runtime.jobs.held import Held
from tenure.runtime.log import JOBS, ended, logs_jobs, started
from tenure.runtime.observe.latency import enqueued_ms

LINES_MOST: Final = 100
"""Lines of jobs in a second: each has two, so 50 jobs. With more, a line a second counts them, until they are fewer."""
COUNTED_S: Final = 1.0


class JobLog:
    """Used from the event loop's thread only.

    `started`: how many jobs the worker has started so far. `logs_each`: each job has its lines, however many there are.
    While jobs are only counted, none of them costs anything here: the worker counts its starts anyway, and completed
    jobs are counted once for each call that settles them.
    """

    def __init__(
        self,
        started: Callable[[], int] = lambda: 0,
        *,
        logs_each: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._started = started
        self._most = math.inf if logs_each else LINES_MOST
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
    def has_lines(self) -> bool:
        """Whether each start and each good end has a line now."""
        return self._timer is None and logs_jobs()

    def started(self, held: Held) -> None:
        """Log the start of a job, if `has_lines`."""
        if self.has_lines:
            started(held.lease, self._waited_s(held))
            self._count_line()

    def ended(self, held: Held, outcome: Outcome, errors: ErrorDetail) -> None:
        """Log how an attempt ended: a good end only if `has_lines`."""
        if type(outcome) is not Completed:
            ended(held.lease, outcome, held.seconds, errors)
        elif self.has_lines:
            ended(held.lease, outcome, held.seconds, errors, self._waited_s(held))
            self._completed -= 1
            self._count_line()

    def completed(self, count: int) -> None:
        """Count the completed jobs of one settlement, after `ended` for those among them that it is called for."""
        self._completed = 0 if self._timer is None else self._completed + count

    def close(self) -> None:
        """Log the last count."""
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
