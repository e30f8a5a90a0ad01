"""The numbers that engines have in common: when a worker is taken for dead, and when a job is poison."""

from __future__ import annotations

from dataclasses import dataclass, field

from leasehold.core import limits
from leasehold.core.engine import Timing
from leasehold.core.steps import Arg


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What every engine is told. Each adds its own; all clients and workers of one queue should use the same."""

    timing: Timing = field(default_factory=Timing)
    outage_ms: int = limits.OUTAGE_MS
    amnesty_ms: int = limits.AMNESTY_MS
    max_crashes: int = limits.MAX_CRASHES
    alone_after_crashes: int = limits.ALONE_AFTER_CRASHES

    def joined(self, *own: Arg) -> str:
        """The argument of a script: these numbers, then the engine's own, as its lua/lib/config.lua takes them."""
        timing = self.timing
        shared = (timing.lease_ms, timing.grace_ms, self.outage_ms, self.amnesty_ms, self.max_crashes)
        return " ".join(map(str, (*shared, self.alone_from, timing.steady_ms, *own)))

    @property
    def alone_from(self) -> int:
        """From how many crashes on a job runs alone. It must, before it can end in `broken`."""
        return max(1, min(self.alone_after_crashes, self.max_crashes - 1))
