"""The numbers of the engine, and how the scripts get them."""

from __future__ import annotations

from dataclasses import dataclass

from leasehold.core import limits
from leasehold.engines.kit.config import EngineConfig


@dataclass(frozen=True, slots=True)
class RedisWorkQueueConfig(EngineConfig):
    """The numbers of the engine. All workers of ours on one queue should use the same.

    `wire_lease_ms`: the time to live of a lease as other clients see it; a worker renews it with every beat, and ours
    take over sooner. `stray_ms`: for how long an id must have been seen without a lease, when the lease was not ours,
    before it is put back into its queue: at least as long as the leases of the other clients. `deep_ms`: how often the
    items that are in no list are looked for.
    """

    failed_ttl_ms: int = limits.FAILED_TTL_MS
    failed_max: int = limits.FAILED_MAX
    wire_lease_ms: int = limits.RWQ_LEASE_MS
    stray_ms: int = limits.RWQ_STRAY_MS
    deep_ms: int = limits.RWQ_DEEP_MS

    def as_argument(self) -> str:
        """The order is that of lua/lib/config.lua."""
        kept = (self.failed_ttl_ms, self.failed_max)
        return self.joined(*kept, self.wire_lease_ms, self.stray_ms)
