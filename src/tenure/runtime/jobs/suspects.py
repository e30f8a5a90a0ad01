"""When a worker may run a job alone, and when it claims nothing for that.

A job that was running at several crashes of workers runs alone, so that the next crash is its own: see decision 0008.
"""

from __future__ import annotations

import math
from typing import Final

from tenure.core import limits
from tenure.core.engine import Alone
from tenure.core.job import Lease, Leased
from tenure.runtime.jobs.held import Batch, Held
from tenure.runtime.jobs.table import Inflight
from tenure.runtime.log import log_event
from tenure.runtime.ports import Env

STEADY_LOOK_MS: Final = 500
"""How often a worker that prepares to run a job alone checks whether its other jobs have run for long."""


class Suspects:
    """See the module. `steady_ms`: a job that has run for longer does not cause a crash after another job's start."""

    def __init__(self, inflight: Inflight, steady_ms: int, env: Env) -> None:
        self._inflight = inflight
        self._steady_s = steady_ms / limits.SECOND
        self._clock = env.clock
        self._alone: tuple[Lease, float] | None = None
        """The job that runs alone, and since when."""
        self._others_until = -math.inf
        """Until when it is the turn of other jobs: as much time as the last one ran alone."""
        self.queue: str | None = None
        """The queue of a job that this worker prepares to run alone."""
        self.look_again = False
        """Whether there were no other jobs in their turn: the next may run alone now."""

    @property
    def claims_nothing(self) -> bool:
        """Whether this worker claims nothing, because it runs a job alone or prepares to."""
        return self._alone is not None or self.queue is not None

    def claimed(self, leased: Leased) -> None:
        """Note a job that runs alone, or for which this worker is asked to prepare."""
        now = self._clock()
        is_turn_of_others = now < self._others_until
        self.queue = None if is_turn_of_others else leased.suspect_queue
        if self.queue is not None:
            log_event("claims_paused", queue=self.queue)
        if leased.leases and leased.leases[0].alone_ms:
            self._alone = leased.leases[0], now
        self.look_again = is_turn_of_others and not leased.leases and self._inflight.empty
        if self.look_again:
            self._others_until = -math.inf

    def pause_ms(self) -> int:
        """How long to claim nothing, unless a job ends before; 0: claim now."""
        if self.queue is not None:
            young, _ = self._company()
            if not young and self._inflight.free <= 0:
                self.queue = None  # all slots are busy for long
            return STEADY_LOOK_MS if young else 0
        if self._alone is None:
            return 0
        (lease, since), now = self._alone, self._clock()
        left_s = since + lease.alone_ms / limits.SECOND - now
        if left_s > 0 and self._inflight.knows(lease.ref):
            return math.ceil(left_s * limits.SECOND)
        self._alone, self._others_until = None, 2 * now - since
        return 0

    def company(self) -> Alone:
        """Whether a claim may bring a job that has to run alone."""
        young, doubtful = self._company()
        if young or self._inflight.free <= 0 or self._clock() < self._others_until:
            return Alone.NO
        return Alone.BESIDE if doubtful else Alone.NOW

    def _company(self) -> tuple[bool, bool]:
        """Whether a job started here lately, and whether a suspect has run for long."""
        inflight, before = self._inflight, self._clock() - self._steady_s
        young = bool(inflight.pending) or inflight.gathering.groups() > 0
        doubtful = False
        for run in inflight.running:
            if run.started_at >= before:
                young = True
            elif not run.persistent and _is_suspect(run):
                doubtful = True
        return young, doubtful


def _is_suspect(run: Held | Batch) -> bool:
    return any(held.lease.crashes >= limits.SUSPECT_CRASHES for held in run.members)
