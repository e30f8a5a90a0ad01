"""Suspects: jobs that were running when workers died."""

from __future__ import annotations

from tenure.core import limits


def why_it_waits(crashes: int, alone_from: int) -> str | None:
    """Why a job that is ready may have to wait although workers are idle; None: there is no such reason.

    `crashes`: those that others may have caused.

    >>> why_it_waits(2, 4)
    'it was running when 2 workers died: such jobs run in at most 1 of 2 slots of a worker'
    """
    died = "a worker died" if crashes == 1 else f"{crashes} workers died"
    if crashes >= alone_from:
        return f"it was running when {died}: it waits for a worker that can run it alone"
    if crashes < limits.SUSPECT_CRASHES:
        return None
    return f"it was running when {died}: such jobs run in at most 1 of {2 ** (crashes - 1)} slots of a worker"
