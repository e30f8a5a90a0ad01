"""The numbers of the native engine, and how the scripts get them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leasehold.core import limits
from leasehold.core.engine import BEAT_MS
from leasehold.engines.kit.config import (
    BACK_MOST,
    CLAIM_BYTES,
    FAILED_MAX,
    FAILED_TTL_MS,
    HOLD_MS,
    LARGE_BYTES,
    MAX_GHOST_LOOK,
    MAX_LOOK,
    NEVER_MS,
    POSTPONE_MOST,
    PRIORITY_TURN,
    READ_BYTES,
    TURNS_MOST,
    EngineConfig,
)
from leasehold.engines.kit.config import NUMBERS as KIT_NUMBERS

HEADS_KEPT: Final = 256
"""First lines of records, without their times, that stay decoded: the records of a task share them."""
BACK_HARD: Final = 3
"""A job that has a shape, or that ends, counts as this many of them."""
POISON_MAX: Final = 100
"""Jobs that ended in `broken` and are remembered until a worker has reported them."""
POISON_TTL_MS: Final = limits.DAY
"""How long these jobs are remembered."""
QUIET_TTL_MS: Final = 30 * limits.DAY
"""How long Redis remembers that an absent worker is quiet."""
COMPLETED_MAX: Final = 100_000
"""Records of completed jobs that a queue keeps."""
FOLLOW_LOOK: Final = 2_000
"""Jobs waiting for another one with their key that can be listed."""
WATCH_TTL_MS: Final = 10 * limits.SECOND
"""How long Redis remembers that a caller waits for a job's end. The caller renews it."""
NUMBERS: Final[dict[str, int]] = {
    **KIT_NUMBERS,
    "BACK_HARD": BACK_HARD,
    "BACK_MOST": BACK_MOST,
    "BEAT_MS": BEAT_MS,
    "CLAIM_BYTES": CLAIM_BYTES,
    "FOLLOW_LOOK": FOLLOW_LOOK,
    "HOLD_MS": HOLD_MS,
    "LARGE_BYTES": LARGE_BYTES,
    "MAX_CALL_BYTES": limits.MAX_CALL_BYTES,
    "MAX_GHOST_LOOK": MAX_GHOST_LOOK,
    "MAX_HELD": limits.MAX_HELD,
    "MAX_LANE_LIMIT": limits.MAX_LANE_LIMIT,
    "MAX_LOOK": MAX_LOOK,
    "NEVER_MS": NEVER_MS,
    "PAGE_MAX": limits.PAGE_MAX,
    "POISON_MAX": POISON_MAX,
    "POISON_TTL_MS": POISON_TTL_MS,
    "POSTPONE_MOST": POSTPONE_MOST,
    "PRIORITY_TURN": PRIORITY_TURN,
    "READ_BYTES": READ_BYTES,
    "TEND_LIMIT": limits.TEND_LIMIT,
    "TURNS_MOST": TURNS_MOST,
}
"""What the Lua of this engine takes, by name."""


@dataclass(frozen=True, slots=True)
class NativeConfig(EngineConfig):
    """The numbers of a native engine. All clients and workers of a namespace should use the same."""

    completed_max: int = COMPLETED_MAX
    failed_ttl_ms: int = FAILED_TTL_MS
    failed_max: int = FAILED_MAX

    def as_argument(self) -> str:
        """Encode the numbers that the scripts read."""
        return self.encoded(completed_max=self.completed_max, failed_ttl=self.failed_ttl_ms, failed_max=self.failed_max)
