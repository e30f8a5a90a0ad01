"""When a worker has done enough: after N jobs, or when it has grown too large. Then the next takes its place."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tenure.core import limits

RECYCLE_CHECK_MS: Final = 1 * limits.SECOND
"""How often a worker checks whether it has run enough jobs or has grown too large."""

MB = 1024 * 1024


class Wear:
    """Asked with the number of jobs that were started; answers why it is enough, or None.

    >>> Wear(max_jobs=100)(100)
    '100 jobs'
    """

    def __init__(
        self,
        max_jobs: int | None = None,
        max_memory_mb: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        memory: Callable[[], int] | None = None,
    ) -> None:
        self._max_jobs = max_jobs
        self._max_memory = None if max_memory_mb is None else max_memory_mb * MB
        self._clock = clock
        self._memory = memory or memory_bytes
        self._look_at = -1.0

    def __call__(self, started: int) -> str | None:
        if self._max_jobs is not None and started >= self._max_jobs:
            return f"{started} jobs"
        now = self._clock()
        if self._max_memory is not None and now >= self._look_at:
            self._look_at = now + RECYCLE_CHECK_MS / limits.SECOND
            if (size := self._memory()) > self._max_memory:
                return f"{size // MB} MB"
        return None


def memory_bytes() -> int:
    """The memory of this process that is resident; if the system does not report it, the most that it ever was."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
