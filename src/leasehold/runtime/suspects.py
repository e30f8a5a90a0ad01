"""When a worker may run a job alone, and when it claims nothing since it does, or gets ready to.

A job that was running at several deaths of workers runs alone, so that the next death is its own: see decision 0008.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from leasehold.core import limits
from leasehold.core.engine import Alone
from leasehold.core.job import Leased, LeaseRef
from leasehold.runtime.held import Batch, Held
from leasehold.runtime.inflight import Inflight
from leasehold.runtime.log import event


class Suspects:
    """See the module. `steady_ms`: a job that has run for longer is not to blame for what follows another's start."""

    def __init__(self, inflight: Inflight, steady_ms: int, clock: Callable[[], float]) -> None:
        self._inflight = inflight
        self._steady_s = steady_ms / limits.SECOND
        self._clock = clock
        self._alone: LeaseRef | None = None
        self.reserved: str | None = None
        """The queue of a job that waits for this worker to be able to run it alone."""

    def claimed(self, leased: Leased) -> None:
        """Take note of what a claim brought."""
        if leased.reserved is not None and leased.reserved != self.reserved:
            event(logging.INFO, "job_reserved", queue=leased.reserved)
        self.reserved = leased.reserved
        if leased.leases and leased.leases[0].alone:
            self._alone = leased.leases[0].ref

    @property
    def alone_ms(self) -> int:
        """How long nothing else may be claimed, if the job that runs alone does not end before; 0: now it may.

        A job that has run for `steady_ms` is not to blame for what others do that join it.
        """
        held = self._inflight.find(self._alone) if self._alone is not None else None
        if held is None:
            self._alone = None
            return 0
        return max(0, math.ceil((held.claimed_at + self._steady_s - self._clock()) * limits.SECOND))

    def company(self) -> Alone:
        """Whether a job could run alone here now, or will soon be able to."""
        inflight, now = self._inflight, self._clock()
        young = bool(inflight.pending) or inflight.gathering.groups() > 0
        for run in inflight.running:
            if now - run.started_at <= self._steady_s:
                young = True
            elif not run.persistent and _is_suspect(run):
                return Alone.NO
        if young:
            return Alone.SOON
        return Alone.NOW if inflight.free > 0 else Alone.NO


def _is_suspect(run: Held | Batch) -> bool:
    members = run.members if isinstance(run, Batch) else [run]
    return any(held.lease.crashes > 0 for held in members)
