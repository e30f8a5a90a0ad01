"""The numbers of the native engine, and how the scripts get them."""

from __future__ import annotations

from dataclasses import dataclass

from leasehold.core import limits
from leasehold.engines.kit.config import EngineConfig


@dataclass(frozen=True, slots=True)
class NativeConfig(EngineConfig):
    """The numbers of a native engine. All clients and workers of a namespace should use the same."""

    completed_max: int = limits.COMPLETED_MAX
    failed_ttl_ms: int = limits.FAILED_TTL_MS
    failed_max: int = limits.FAILED_MAX

    def as_argument(self) -> str:
        """The order is that of lua/lib/config.lua."""
        fixed = (limits.MAX_HELD, limits.TEND_LIMIT)
        return self.joined(*fixed, self.completed_max, self.failed_ttl_ms, self.failed_max)
