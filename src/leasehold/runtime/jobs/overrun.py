"""Handlers that continue after their attempts are over: which jobs wait for them, and when they occupy all slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core import limits
from leasehold.core.outcome import Cancelled, Outcome
from leasehold.runtime.jobs.batches import Outcomes
from leasehold.runtime.jobs.held import RUNNING, Batch, Held
from leasehold.runtime.jobs.table import Inflight

WATCH_MS: Final = 20
"""How often running jobs are checked for timeouts: the precision of a job's timeout."""


def waits(held: Held) -> bool:
    """Whether the attempt is settled only after its handler has ended: no worker may run the job again, or the next of
    its lane, while the handler still runs here."""
    return held.persistent or held.lease.record.shape.lane is not None


def take_verdict(run: Held | Batch) -> Outcomes:
    """The outcomes that were kept until the handler ended. A cancel request that came meanwhile counts."""
    verdict, run.verdict = run.verdict or [], None
    return [(held, unless_asked(held, outcome)) for held, outcome in verdict]


def unless_asked(held: Held, outcome: Outcome) -> Outcome:
    return outcome if held.cancelled is None else Cancelled(held.cancelled)


def outlasting(inflight: Inflight) -> list[Held]:
    """The jobs of running handlers that no other job may run beside."""
    return [held for run in inflight.running for held in _all_of(run) if held.phase is RUNNING and waits(held)]


def _all_of(run: Held | Batch) -> Sequence[Held]:
    return run.members if isinstance(run, Batch) else [run]


class StuckSlots:
    """Detects that handlers whose attempts are over have occupied every slot for a while: no job can start.

    Not at once: a handler that is a little over its time ends by itself.
    """

    def __init__(self, inflight: Inflight, after_ms: int) -> None:
        self._inflight = inflight
        self._after_s = after_ms / limits.SECOND
        self._since: float | None = None

    def reason(self, now: float) -> str | None:
        """Why the worker must retire, returned once; None: it need not."""
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
