"""The clock by which leases age: it goes on while the machine sleeps."""

from __future__ import annotations

import time
from typing import Final

_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def lease_clock() -> float:
    """Seconds on a monotonic clock that all processes of a machine share.

    On Linux it counts the time in which the machine was suspended, other than `time.monotonic`. Redis counts that time.
    """
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
