"""Suspects: jobs that were running when workers died."""

from __future__ import annotations

from typing import Final

from tenure.core import limits

RESERVED: Final = -1
"""A job that is to run alone waits for the worker that claims: it claims nothing else until it can."""


def why_it_waits(crashes: int, alone_from: int, busy: str | None) -> str | None:
    """Why a job that is ready may have to wait although workers are idle; None: there is no such reason.

    `crashes`: those that others may have caused. `busy`: the worker that takes nothing else for now, as it runs a job
    of the queue alone or gets ready to.

    >>> why_it_waits(2, 4, None)
    'it was running when 2 workers died: such jobs run in at most 1 of 2 slots of a worker'
    """
    died = "a worker died" if crashes == 1 else f"{crashes} workers died"
    reasons = []
    if crashes >= alone_from:
        reasons.append(f"runs alone: it was running when {died}")
    elif crashes >= limits.SUSPECT_CRASHES:
        share = 2 ** (crashes - 1)
        reasons.append(f"it was running when {died}: such jobs run in at most 1 of {share} slots of a worker")
    if busy:
        reasons.append(f"worker {busy} takes no other jobs while it runs one alone that was running when workers died")
    elif crashes >= alone_from:
        reasons.append("it waits for a worker without other jobs")
    return "; ".join(reasons) or None
