"""Handlers that go on although their attempts are over: which jobs wait for them, and when no slot is left by them."""

from __future__ import annotations

import logging

from leasehold.core import limits
from leasehold.core.outcome import Cancelled
from leasehold.runtime.batches import Judged
from leasehold.runtime.held import RUNNING, Batch, Held
from leasehold.runtime.inflight import Inflight
from leasehold.runtime.log import event


def waits(held: Held) -> bool:
    """Whether the end of its attempt is kept back until its handler has ended: nobody may run it again, or the next of
    its lane, beside a handler that still runs here."""
    return held.persistent or held.lease.record.shape.lane is not None


def take_verdict(run: Held | Batch) -> Judged:
    """What was kept back, once. Whoever asked meanwhile for the job to be cancelled is heard."""
    verdict, run.verdict = run.verdict or [], None
    return [(held, outcome if held.cancelled is None else Cancelled(held.cancelled)) for held, outcome in verdict]


def outlasting(inflight: Inflight) -> list[Held]:
    """What is held by handlers that go on, and beside which nothing may run."""
    runs = (run.members if isinstance(run, Batch) else [run] for run in inflight.running)
    return [held for members in runs for held in members if held.phase is RUNNING and waits(held)]


class LostSlots:
    """Notices that handlers whose attempts are over have occupied every slot for a while: nothing can be taken up.

    Not at once: a handler that is a little over its time ends by itself.
    """

    def __init__(self, inflight: Inflight) -> None:
        self._inflight = inflight
        self._since: float | None = None

    def reason(self, now: float) -> str | None:
        """Why the worker is of no use any more, said once; None: it is, or may be."""
        inflight = self._inflight
        if inflight.free > 0 or not all(run.abandoned for run in inflight.running):
            self._since = None
            return None
        if self._since is None:
            self._since = now
        for_s = now - self._since
        if for_s < limits.SLOTS_LOST_MS / limits.SECOND:
            return None
        self._since = float("inf")
        event(logging.ERROR, "slots_lost", slots=inflight.slots, for_s=for_s)
        return f"all slots ({inflight.slots}) are occupied by handlers that do not end"
