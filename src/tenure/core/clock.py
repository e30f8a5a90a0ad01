"""The clock that measures leases. It also counts the time while the machine is suspended."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)

# Not a function in Python: it is called at each start of a job.
lease_clock: Final[Callable[[], float]] = (
    time.monotonic if _BOOTTIME is None else partial(time.clock_gettime, _BOOTTIME)
)
"""Seconds on a monotonic clock that all processes of a machine share.

On Linux it counts the time while the machine is suspended, as Redis does; `time.monotonic` does not.
"""
