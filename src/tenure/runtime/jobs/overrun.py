"""Detects handlers that continue after their attempts and occupy all slots."""

from __future__ import annotations

from typing import Final

from tenure.core import limits
from tenure.runtime.jobs.table import Inflight

WATCH_MS: Final = 20
"""How often running jobs are checked for timeouts: the precision of a job's timeout."""


class StuckSlots:
    """Detects that such handlers have occupied every slot for `after_ms`: one that is a little late ends by itself."""

    def __init__(self, inflight: Inflight, after_ms: int) -> None:
        self._inflight = inflight
        self._after_s = after_ms / limits.SECOND
        self._since: float | None = None

    def reason(self, now: float) -> str | None:
        """Why the worker must retire, once; None: it need not."""
        inflight = self._inflight
        if inflight.free > 0 or not all(run.abandoned for run in inflight.running):
            self._since = None
            return None
        if self._since is None:
            self._since = now
        if now - self._since < self._after_s:
            return None
        self._since = float("inf")
        return f"all slots ({inflight.slots}) are occupied by handlers that do not end"
