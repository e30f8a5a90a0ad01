"""The numbers of the native engine."""

from __future__ import annotations

from typing import Final

from tenure.core import limits, rates
from tenure.engines.kit.config import EngineConfig

HEADS_KEPT: Final = 256
"""First lines of records, without their times, that stay decoded: the records of a task share them."""
INNER_KEEP_MS: Final = 7 * 86_400_000
"""How much longer the record of a flow within another one stays after its end."""
FLOW_LATE_MS: Final = limits.DAY
"""How long the record of a flow stays after its time if no worker removes it."""
BACK_HARD: Final = 3
"""A job that has a shape, or that ends, counts as this many of them."""
POISON_MAX: Final = 100
"""Jobs that ended in `broken` and are remembered until a worker has reported them."""
POISON_TTL_MS: Final = limits.DAY
"""How long these jobs are remembered."""
QUIET_TTL_MS: Final = 30 * limits.DAY
"""How long Redis remembers that an absent worker is quiet."""
AUDIT_TTL_MS: Final = 90 * limits.DAY
"""How long the audit is kept after its last entry."""
COMPLETED_MAX: Final = 100_000
"""Records of completed jobs that a queue keeps."""
FOLLOW_LOOK: Final = 2_000
"""Jobs waiting for another one with their key that can be listed."""
WHY_LOOK: Final = 2_000
"""Entries of a list, and claims, that one call looks at to explain why a job waits."""
HOLDERS_SHOWN: Final = 20
"""Places of a limit for which an operator sees the jobs that hold them."""
RUNS_KEPT: Final = 4
"""Runs of a schedule before its last one that Redis remembers."""
WATCH_TTL_MS: Final = 10 * limits.SECOND
"""How long Redis remembers that a caller waits for a job's end. The caller renews it."""
SEEN_MS: Final = 100
"""A claim that finds nothing else to do notes no more often than this that a worker was seen."""
ADVANCE_MOST: Final = 10_000
"""Entries of a key whose times a test moves."""
KEEP_DUE_MS: Final = 500
"""How long a schedule that is due is kept from other workers, after one of them has read it."""
ENDED_MOST: Final = 100
"""Schedules of a source that one announcement ends."""
MAX_GATES: Final = 1_000
"""Queues in which one freed place of a limit lets jobs start, and lanes at gates that one call counts."""
OPEN_MOST: Final = 100
"""Lanes at the gate of a limit that one call looks at for one that may start a job."""
COST_MOST: Final = rates.MAX_COST
"""How far a job that costs more than a burst uses a rate up ahead of its time, in starts."""
REST_MOST_MS: Final = rates.MAX_REST_MS
"""A rest that ends later was written by another clock."""

RESERVE_AFTER_MS: Final = limits.SECOND
"""How long a job with several limits has waited when it keeps its places free for itself."""
RESERVED_MOST_MS: Final = 10 * limits.MINUTE
"""How long it keeps them; each time when it cannot start for the lack of another place, the time begins again."""
RESERVED_SOON_MS: Final = limits.MINUTE
"""It keeps no place for a rate, or a rest, that lets it start later than this."""
RESERVED_LOOK_MS: Final = limits.SECOND
"""How often other jobs check whether the places are still kept."""
RESERVED_SEEN_MS: Final = 10 * limits.SECOND
"""A queue of which no worker was seen for this long keeps no place."""

LEFT_MS: Final = limits.SECOND
"""How long a due job waits in a partition that its lane has left, before it is looked at again."""
MOVE_MOST: Final = 100
"""Jobs that one call moves to their partitions, and about how many it looks at."""
MOVE_LARGE: Final = 20
"""About how many it looks at where records may be large."""
MOVE_BYTES: Final = 128 * 1024
"""It takes no further job after this many bytes."""

ERRORS_KEPT: Final = 10
"""Errors of a job's failed attempts that its record keeps, with the newest."""
ERRORS_BYTES: Final = 32 * 1024
"""Bytes of these errors. The newest is kept in any case."""

QUARTERS: Final = 96
"""Quarters of an hour in the history of a queue: 24 hours."""
QUARTER_MINUTES: Final = 15
MINUTE_COUNTS: Final = 4
"""Numbers of a minute: jobs that completed, failed, were retried, were cancelled."""
QUARTER_CELLS: Final = 111
"""Numbers of a quarter of an hour: its own, four for each minute, and 25 buckets each of waits and of runs."""
CELL_BYTES: Final = 3
"""So the history has at most 31,968 bytes. A number stays at 16,777,215, its highest."""


class NativeConfig(EngineConfig, frozen=True):
    """The numbers of a native engine. All clients and workers of a namespace should use the same."""

    completed_max: int = COMPLETED_MAX

    def as_argument(self) -> str:
        return self.encoded(completed_max=self.completed_max)
