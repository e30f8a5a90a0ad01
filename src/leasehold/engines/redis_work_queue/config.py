"""The numbers of the engine, and how the scripts get them."""

from __future__ import annotations

from dataclasses import dataclass, field

from leasehold.core import limits
from leasehold.core.engine import Timing


@dataclass(frozen=True, slots=True)
class RedisWorkQueueConfig:
    """The numbers of the engine. All workers of ours on one queue should use the same.

    `wire_lease_ms`: the time to live of a lease as other clients see it; a worker renews it with every beat, and ours
    take over sooner. `stray_ms`: for how long an id must have been seen without a lease, when the lease was not ours,
    before it is put back into its queue: at least as long as the leases of the other clients. `deep_ms`: how often the
    items that are in no list are looked for.
    """

    timing: Timing = field(default_factory=Timing)
    outage_ms: int = limits.OUTAGE_MS
    amnesty_ms: int = limits.AMNESTY_MS
    max_crashes: int = limits.MAX_CRASHES
    isolate_after_crashes: int = limits.ISOLATE_AFTER_CRASHES
    failed_ttl_ms: int = limits.FAILED_TTL_MS
    failed_max: int = limits.FAILED_MAX
    wire_lease_ms: int = limits.RWQ_LEASE_MS
    stray_ms: int = limits.RWQ_STRAY_MS
    deep_ms: int = limits.RWQ_DEEP_MS

    def as_argument(self) -> str:
        """The order is that of lua/lib/config.lua."""
        numbers = (
            self.timing.lease_ms,
            self.timing.grace_ms,
            self.outage_ms,
            self.amnesty_ms,
            self.max_crashes,
            self.isolate_after_crashes,
            self.failed_ttl_ms,
            self.failed_max,
            self.wire_lease_ms,
            self.stray_ms,
        )
        return " ".join(map(str, numbers))
