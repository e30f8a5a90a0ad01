"""The numbers of the engine."""

from __future__ import annotations

from typing import Final

from tenure.core import limits
from tenure.engines.kit.config import EngineConfig

DEFAULT_TIMEOUT_MS: Final = 30 * limits.SECOND
"""After this time a batch of an original worker has stalled, if its jobs have no timeouts. Also what is written for a
job without a timeout of its own, and what the original's producer writes."""
DEFAULT_ATTEMPTS: Final = 3
"""What is written for a job without a number of retries, and what the original's producer writes."""
FIND_MS: Final = 50
"""How often all workers together look for what original clients did."""
PEEK_MS: Final = 80
"""How often a worker that waits does so. An idle Redis ends a wait each 100 ms only."""
NEWS_MOST: Final = 1_000
"""Lanes of original producers that one look takes in."""
TOGETHER: Final = 50
"""Lanes that one command asks about."""
FOREIGN_LOOK: Final = 200
"""Lanes of original workers that one look checks."""
FOREIGN_BATCH: Final = 1_000
"""Jobs of an original worker's batch with timeouts that are added up."""
DROPS_MOST: Final = 20
"""Deleted jobs at the front of a lane that one claim removes, beyond those that it takes."""
DROPPED_MS: Final = 10 * limits.SECOND
"""How long after its last job a lane is looked at again, where there are original clients."""
INDEX_TTL_MS: Final = 10 * limits.MINUTE
"""How long the index of lanes lasts while only producers of Tenure use the queue."""
LANES_MOST: Final = 10_000
"""Lanes that are counted, and searched for a job in an unknown lane."""


class QueueFarmConfig(EngineConfig, frozen=True):
    """The numbers of the engine. All Tenure workers of one namespace should use the same.

    `delete_jobs`: as the original's `deleteJobs`; False: jobs that ended stay in Redis, without a limit.
    `apply_timeouts`: whether the timeout that another client set ends a run, as the timeout of a Tenure producer does.
    `default_timeout_ms`: after this time a batch of an original worker has stalled, if its jobs have no timeouts.
    `find_ms`: how often all workers together look for what original clients did.
    """

    delete_jobs: bool = True
    apply_timeouts: bool = False
    default_timeout_ms: int = DEFAULT_TIMEOUT_MS
    find_ms: int = FIND_MS

    def as_argument(self) -> str:
        own = {"keep": int(not self.delete_jobs), "default_timeout": self.default_timeout_ms, "find": self.find_ms}
        return self.encoded(**own)
