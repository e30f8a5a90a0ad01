"""The numbers that engines have in common: when a worker is taken for dead, and when a job is poison."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field, json

from tenure.core import limits
from tenure.core.engine import Timing

ANSWER_TTL_MS: Final = 10 * limits.MINUTE
"""How long Redis remembers the answer of a call, so that it is harmless to send the call again."""
OUTAGE_MS: Final = 5_000
"""When no worker has reached the queue for this long, Redis was away: silence proves nothing about the workers."""
AMNESTY_MS: Final = 2_500
"""After an outage, how long workers have to come back before one of them can be suspected."""
MAX_HOLDERS: Final = 1_000
"""Workers that may hold jobs of one queue at one time."""
PRESENCE_TTL_MS: Final = 35_000
"""How long a worker is shown after it was last seen."""
BACK_MOST: Final = 100
"""Jobs of workers that one call releases. The next call continues with the others."""
META_TTL_MS: Final = 30 * limits.DAY
"""An idle queue's counters are forgotten after this long."""
MAX_CRASHES: Final = 6
"""Deaths of its workers that end a job in `broken`: see decision 0008."""
ALONE_AFTER_CRASHES: Final = 4
"""Deaths of its workers after which a job runs alone: see decision 0008."""
TURNS_MOST: Final = 100
"""Turns of lanes in one claim. A worker that has room for more claims again."""
CLAIM_BYTES: Final = 512 * 1024
"""A claim takes no further job after this many bytes."""
LARGE_BYTES: Final = 2 * 1024
"""A record with more bytes is large. A queue that has one is read by sizes."""
READ_BYTES: Final = 256 * 1024
"""A call for many jobs that is no claim leaves the rest to the next call after this many bytes."""
MAX_LOOK: Final = 200
"""Entries of the list of ready jobs, beyond its limit, that one claim looks through for jobs that it can take."""
PRIORITY_TURN: Final = 10
"""While jobs of a lower priority wait, one claim in this many takes one of them."""
POSTPONE_MOST: Final = 10
"""A debounced job is due at most this many times its wait after it was first enqueued."""
NEVER_MS: Final = 9_999_999_999_999
"""A time that never comes: the expiry of a record that blocks a lane."""
FAILED_TTL_MS: Final = 7 * limits.DAY
"""How long the record of a failed job is kept."""
FAILED_MAX: Final = 10_000
"""Records of failed jobs that a queue keeps."""
MAX_GHOST_LOOK: Final = 5_000
"""Entries of the list of ready jobs that a page looks through for those that were cancelled or discarded."""
PURGE_MOST: Final = 100
"""Jobs that one call purges or cancels."""
HOLD_MS: Final = 10 * limits.SECOND
"""How long a queue is held after the caller of a purge or sweep has died."""


class EngineConfig(Struct, frozen=True):
    """The numbers that every engine takes. Each engine adds its own.

    All clients and workers of one queue should use the same numbers.
    """

    timing: Timing = field(default_factory=Timing)
    outage_ms: int = OUTAGE_MS
    amnesty_ms: int = AMNESTY_MS
    max_crashes: int = MAX_CRASHES
    alone_after_crashes: int = ALONE_AFTER_CRASHES
    failed_ttl_ms: int = FAILED_TTL_MS
    failed_max: int = FAILED_MAX

    def as_argument(self) -> str:
        """Encode the numbers that the scripts of the engine read."""
        return self.encoded()

    def encoded(self, **own: int) -> str:
        """Encode these numbers and the engine's own as the JSON argument of a script, by the names in its Lua."""
        timing = self.timing
        numbers = {
            "lease": timing.lease_ms,
            "grace": timing.grace_ms,
            "steady": timing.steady_ms,
            "outage": self.outage_ms,
            "amnesty": self.amnesty_ms,
            "max_crashes": self.max_crashes,
            "alone": self.alone_from,
            "isolate": min(2, self.alone_from),
            "failed_ttl": self.failed_ttl_ms,
            "failed_max": self.failed_max,
        }
        return json.encode(numbers | own).decode()

    @property
    def alone_from(self) -> int:
        """From how many crashes on a job runs alone. It must, before it can end in `broken`."""
        return max(1, min(self.alone_after_crashes, self.max_crashes - 1))
