"""How old the last good heartbeats are, and so which leases may have expired. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from tenure.runtime.jobs.held import Held


class Kept:
    """When the keeper's last good heartbeat of each queue was sent. Times are seconds of `clock`.

    A claim starts its lease, so a lease cannot have expired until a lease's length after its claim was sent.
    """

    def __init__(self, lease_s: float, clock: Callable[[], float]) -> None:
        self._lease_s = lease_s
        self._clock = clock
        self._kept_at: dict[str, float] = {}
        self._lapsed: dict[str, float] = {}
        self.lapsed_before = -math.inf
        """On some queue, no heartbeat was in time for leases that were claimed before this."""

    def hear(self, kept_at: Mapping[str, float]) -> bool:
        """Note when the last good heartbeat of each queue was sent. True: on some queue a heartbeat was too late."""
        late = False
        for queue, at in kept_at.items():
            before = self._kept_at.get(queue, -math.inf)
            if at - before >= self._lease_s:
                self._lapsed[queue] = at - self._lease_s
                self.lapsed_before = max(self.lapsed_before, self._lapsed[queue])
                late = True
            self._kept_at[queue] = max(before, at)
        return late

    def is_late(self, queues: Iterable[str]) -> bool:
        """Whether one of these queues had no good heartbeat for a lease's length."""
        before = self._clock() - self._lease_s
        return any(self._kept_at.get(queue, -math.inf) <= before for queue in queues)

    def is_fresh(self, held: Held) -> bool:
        """Whether a lease was claimed, or its queue had a good heartbeat, less than a lease's length ago."""
        before = self._clock() - self._lease_s
        return held.asked_at > before or self._kept_at.get(held.lease.record.queue, -math.inf) > before

    def fresh_after(self) -> float:
        """Leases that were claimed later than this may start now, as nearly all do. `may_start` is about the others."""
        return max(self._clock() - self._lease_s, self.lapsed_before)

    def may_start(self, held: Held) -> bool:
        """Whether no other worker can have taken the job over, by the clock of this machine: no heartbeat since its
        claim was too late."""
        asked_at, before = held.asked_at, self._clock() - self._lease_s
        if asked_at > before and asked_at > self.lapsed_before:
            return True
        queue = held.lease.record.queue
        lapsed = asked_at <= self._lapsed.get(queue, -math.inf)
        return not lapsed and (asked_at > before or self._kept_at.get(queue, -math.inf) > before)
