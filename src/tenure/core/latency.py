"""How long jobs wait and run: counts in buckets, the same everywhere, so that the counts of several workers add up."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_A_DOUBLING: Final = 4
_DOUBLINGS: Final = 30
BOUNDS: Final = tuple(0.001 * 2 ** (n / _A_DOUBLING) for n in range(_A_DOUBLING * _DOUBLINGS + 1))
"""Seconds, from 1 ms to 12 days. Bucket n ends at bound n, and a percentile is the end of its bucket, at most a fifth
too high."""


def bucket_of(seconds: float) -> int:
    return bisect_right(BOUNDS, seconds)


@dataclass(frozen=True, slots=True)
class Times:
    """How many jobs of a queue had a time in each bucket: a worker's last five to ten minutes."""

    wait: Mapping[int, int] = field(default_factory=dict)
    run: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Half of `count` jobs took at most `p50` seconds, 95 % at most `p95`, 99 % at most `p99`."""

    count: int
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Latency:
    """How long the jobs of a queue lately waited, from enqueue to start, and ran. None: there were none.

    Jobs that were delayed or tried before count for `run` only.
    """

    wait: Percentiles | None = None
    run: Percentiles | None = None


def latency_of(times: Iterable[Times]) -> Latency:
    """Add up what workers counted."""
    wait: Counter[int] = Counter()
    run: Counter[int] = Counter()
    for one in times:
        wait.update(one.wait)
        run.update(one.run)
    return Latency(_percentiles(wait), _percentiles(run))


def _percentiles(counts: Mapping[int, int]) -> Percentiles | None:
    total = sum(counts.values())
    if total == 0:
        return None
    return Percentiles(total, *(_at(counts, share * total) for share in (0.5, 0.95, 0.99)))


def _at(counts: Mapping[int, int], rank: float) -> float:
    """The upper bound of the bucket that has this rank."""
    passed = 0
    for bucket in sorted(counts):
        passed += counts[bucket]
        if passed >= rank:
            break
    return BOUNDS[min(max(bucket, 0), len(BOUNDS) - 1)]


def mean_run(times: Iterable[Times]) -> float | None:
    """Return how many seconds jobs ran on average; None: there were none."""
    counts: Counter[int] = Counter()
    for one in times:
        counts.update(one.run)
    total = counts.total()
    return sum(count * _middle(bucket) for bucket, count in counts.items()) / total if total > 0 else None


def _middle(bucket: int) -> float:
    last = len(BOUNDS) - 1
    return (BOUNDS[min(max(bucket, 0), last)] + (BOUNDS[min(bucket, last) - 1] if bucket > 0 else 0.0)) / 2
