"""How many jobs to claim ahead of free slots, from measured job times. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tenure.core import limits

AHEAD_MS: Final = 15
"""How much work a worker claims ahead of its free slots, by measured job time."""
MAX_AHEAD: Final = 500
"""Jobs that a worker claims ahead of its free slots, at most."""

WEIGHT = 0.1
"""Weight of the newest measurement in the moving average."""


class Prefetch:
    """A worker prefetches about `AHEAD_MS` of work: slots * AHEAD_MS / job time, and no more than it started lately.

    The second limit is measured while jobs are always pending, so it includes the time that a job takes outside its
    handler. Without it, very short jobs would be claimed faster than they can start.
    """

    def __init__(self) -> None:
        self._job_s: float | None = None
        self._cap = MAX_AHEAD

    def finished(self, times: Iterable[float]) -> None:
        """Note how many seconds jobs took, in their order."""
        mean = self._job_s
        for seconds in times:
            mean = seconds if mean is None else mean + WEIGHT * (seconds - mean)
        self._job_s = mean

    def stuck(self) -> None:
        """Forget the measurements: jobs waited too long and were released."""
        self._job_s = None

    def window(self, started: int, seconds: float, saturated: bool) -> None:
        """Measure how many jobs started in a time. `saturated`: others were pending all the time."""
        if saturated and seconds > 0:
            self._cap = max(1, min(MAX_AHEAD, int(started / seconds * AHEAD_MS / limits.SECOND)))
        else:
            self._cap = min(MAX_AHEAD, self._cap * 2)

    def ahead(self, lively: int) -> int:
        """How many jobs to hold beyond the free slots, if `lively` slots run short jobs."""
        if self._job_s is None:
            return 0
        work = lively * AHEAD_MS / limits.SECOND
        return min(self._cap, int(work / max(self._job_s, 1e-6)))
