"""How many jobs of a queue ended in each minute of the last day, and how long they waited and ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tenure.core import limits
from tenure.core.latency import Percentiles, Times

QUARTER_MS: Final = 15 * limits.MINUTE


@dataclass(frozen=True, slots=True)
class Ends:
    """How many jobs of a queue ended in one worker since its last report. `times`: how long they waited and ran.

    `failed`: they ended in `failed` or `broken`. `retried`: failed attempts of jobs that run again.
    """

    completed: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    times: Times = field(default_factory=Times)


@dataclass(frozen=True, slots=True)
class MinuteCounts:
    """How many jobs ended in the minute that began at `at_ms`.

    `failed`: they ended in `failed` or `broken`. `retried`: failed attempts of jobs that run again.
    """

    at_ms: int
    completed: int
    failed: int
    retried: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class QuarterLatency:
    """How long the jobs of the quarter of an hour that began at `at_ms` waited and ran.

    None: there were none. A percentile is at most twice the true one; times above 2.3 hours count as 4.7 hours.
    """

    at_ms: int
    wait: Percentiles | None = None
    run: Percentiles | None = None


@dataclass(frozen=True, slots=True)
class Minutes:
    """The last 24 hours of a queue, the oldest first, without minutes and quarters of an hour in which no job ended."""

    counts: tuple[MinuteCounts, ...] = ()
    latency: tuple[QuarterLatency, ...] = ()
