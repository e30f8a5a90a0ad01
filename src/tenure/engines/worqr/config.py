"""The numbers of the engine."""

from __future__ import annotations

from typing import Final

from msgspec import field

from tenure.core import limits
from tenure.core.engine import Timing
from tenure.engines.kit.config import EngineConfig

TIMER_MS: Final = 3 * limits.SECOND
"""The time to live of a worker's timer, as originals set it. Tenure workers take over sooner."""
PRESENCE_MS: Final = limits.SECOND
"""How often an idle worker renews its timer, as originals do."""
STRAY_MS: Final = 5 * limits.SECOND
"""The grace: how long a process without a known owner must have been seen before its task returns to the queue."""
SWEEP_MS: Final = limits.MINUTE
"""How long after a search through all keys of the prefix a worker begins the next one."""
SWEEP_PAGE: Final = 1_000
"""Keys that one step of a search looks at."""
SWEEP_STEPS: Final = 40
"""Steps of a search in one round of maintenance."""
SWEEP_TASKS_MOST: Final = 100_000
"""Tasks that a search reads to find markers without a task. With more, it leaves all markers alone."""
FOREIGN_PAGE: Final = 200
"""Processes of a queue that one round of maintenance looks at."""
UNMARK_PAGE: Final = 100
"""Removed tasks for which one call removes markers."""
LIST_STEPS: Final = 10
"""Pages of keys in which a list of the queues looks for those that only originals use."""
WORKERS_MOST: Final = 1_000
"""Workers of originals that are looked at."""


class WorqrConfig(EngineConfig, frozen=True):
    """The numbers of the engine. All Tenure workers of one prefix should use the same.

    `timer_ms`: the time to live of a worker's timer, as originals see it. `stray_ms`: the grace before the task of a
    process without an owner returns. `sweep_ms`: how long after a search for such processes, and for markers without a
    task, the next one begins.
    """

    timing: Timing = field(default_factory=lambda: Timing(presence_ms=PRESENCE_MS))
    timer_ms: int = TIMER_MS
    stray_ms: int = STRAY_MS
    sweep_ms: int = SWEEP_MS

    def as_argument(self) -> str:
        return self.encoded(timer=self.timer_ms, stray=self.stray_ms)
