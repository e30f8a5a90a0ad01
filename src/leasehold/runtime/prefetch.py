"""How far to claim ahead, from measured job times. Pure arithmetic; the caller brings the numbers."""

from __future__ import annotations

from typing import Final

from leasehold.core import limits

AHEAD_MS: Final = 15
"""How much work a worker claims ahead of its free slots, by measured job time."""
MAX_AHEAD: Final = 500
"""Jobs that a worker claims ahead of its free slots, at most."""

WEIGHT = 0.1
"""Of the newest measurement in the moving average."""


class Prefetch:
    """Claim-ahead is about `AHEAD_MS` of work: slots * AHEAD_MS / job time, and never more than was really got through.

    The second bound is learnt while jobs wait in line without a break, where the cost of running a job beside its
    handler shows; without it very short jobs would be claimed faster than they can be started.
    """

    def __init__(self) -> None:
        self._job_s: float | None = None
        self._cap = MAX_AHEAD

    def finished(self, seconds: float) -> None:
        """A job took this long in its handler."""
        if self._job_s is None:
            self._job_s = seconds
        else:
            self._job_s += WEIGHT * (seconds - self._job_s)

    def stuck(self) -> None:
        """Jobs had to be handed back: what was measured does not hold any more."""
        self._job_s = None

    def window(self, started: int, seconds: float, saturated: bool) -> None:
        """In a window of time this many jobs were started. `saturated`: others were pending all the while."""
        if saturated and seconds > 0:
            self._cap = max(1, min(MAX_AHEAD, int(started / seconds * AHEAD_MS / limits.SECOND)))
        else:
            self._cap = min(MAX_AHEAD, self._cap * 2)

    def ahead(self, lively: int) -> int:
        """How many jobs to hold beyond the free slots, when so many slots work through short jobs."""
        if self._job_s is None:
            return 0
        work = lively * AHEAD_MS / limits.SECOND
        return min(self._cap, int(work / max(self._job_s, 1e-6)))
