"""The numbers of the native engine, and how the scripts get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leasehold.core import limits
from leasehold.engines.config import EngineConfig


@dataclass(frozen=True, slots=True)
class NativeConfig(EngineConfig):
    """The numbers of a native engine. All clients and workers of a namespace should use the same.

    `usual_timeout_ms` and `raw_timeouts_ms` (by queue) are a worker's own: how long it may run a call of a task, or a
    raw payload, whose record says nothing of a timeout; 0: for any time.
    """

    completed_max: int = limits.COMPLETED_MAX
    failed_ttl_ms: int = limits.FAILED_TTL_MS
    failed_max: int = limits.FAILED_MAX
    usual_timeout_ms: int = limits.DEFAULT_TIMEOUT_MS
    raw_timeouts_ms: Mapping[str, int] = field(default_factory=dict)

    def as_argument(self, queue: str = "") -> str:
        """The order is that of lua/lib/config.lua."""
        fixed = (limits.MAX_HELD, limits.TEND_LIMIT, limits.OVERDUE_GRACE_MS)
        kept = (self.completed_max, self.failed_ttl_ms, self.failed_max)
        raw_ms = self.raw_timeouts_ms.get(queue, limits.DEFAULT_TIMEOUT_MS)
        return self.joined(*fixed, *kept, self.usual_timeout_ms, raw_ms)
