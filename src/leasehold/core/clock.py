"""The clock by which leases age: it goes on while the machine sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)

# Not a function of ours: it is asked at each start of a job.
lease_clock: Final[Callable[[], float]] = (
    time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
)
"""Seconds on a monotonic clock that all processes of a machine share.

On Linux it counts the time in which the machine was suspended, other than `time.monotonic`. Redis counts that time.
"""
