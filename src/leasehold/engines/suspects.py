"""Suspects: jobs that were running when workers died. What a claim says of them, and why they wait, in words."""

from __future__ import annotations

from typing import Final

SUSPECT_FROM: Final = 2
"""From how many crashes on a job waits apart from the others, if it is not to run alone already."""
RUNS_ALONE: Final = 1
"""A claim answered one job, which is to run alone."""
RESERVED: Final = 2
"""A job that is to run alone waits for the worker that claims: it claims nothing else until it can."""


def why_it_waits(crashes: int, alone_from: int, reserved: str | None) -> str | None:
    """Why a job that is ready may have to wait although workers are idle; None: there is no such reason.

    `crashes`: those that others may have caused.

    >>> why_it_waits(4, 3, None)
    'runs alone: it was running when 4 workers died. Waits for its turn, and for a worker without other jobs.'
    """
    died = "a worker died" if crashes == 1 else f"{crashes} workers died"
    if crashes >= alone_from:
        waits = (
            f"Worker {reserved} gets ready for it."
            if reserved
            else "Waits for its turn, and for a worker without other jobs."
        )
        return f"runs alone: it was running when {died}. {waits}"
    if crashes < SUSPECT_FROM:
        return None
    share = 2 ** (crashes - 1)
    return f"it was running when {died}: such jobs run in at most 1 of {share} slots of a worker"
