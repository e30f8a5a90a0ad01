"""The counts of ended jobs by the minute, as they lie in `P:minutes`: a ring of 96 quarters of an hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tenure.core import limits
from tenure.core.latency import Times, latency_of
from tenure.core.minutes import QUARTER_MS, Ends, MinuteCounts, Minutes, QuarterLatency
from tenure.core.steps import Arg
from tenure.engines.native.config import CELL_BYTES, MINUTE_COUNTS, QUARTER_CELLS, QUARTER_MINUTES, QUARTERS

_BUCKETS: Final = 25
"""Buckets of waits, and of runs. The first ends at 1 ms, the next ones at 2, 4, 8 ms and so on; the last has no end."""
_FINER: Final = 4
"""Buckets of `core.latency` in one of these."""
_WAITS: Final = 1 + MINUTE_COUNTS * QUARTER_MINUTES
_RUNS: Final = _WAITS + _BUCKETS
_BYTES: Final = CELL_BYTES * QUARTER_CELLS


def ends_args(ends: Ends) -> tuple[Arg, ...]:
    """The arguments of the script `note_ends`: the four counts, then pairs of a cell and a count."""
    counts = ends.completed, ends.failed, ends.retried, ends.cancelled
    pairs = (*_added(_WAITS, ends.times.wait), *_added(_RUNS, ends.times.run))
    return (*counts, *(arg for pair in pairs for arg in pair))


def _added(first: int, buckets: Mapping[int, int]) -> Iterable[tuple[int, int]]:
    found: dict[int, int] = {}
    for bucket, count in buckets.items():
        cell = first + min(-(-bucket // _FINER), _BUCKETS - 1)
        found[cell] = found.get(cell, 0) + count
    return found.items()


def read_minutes(now_ms: int, data: bytes) -> Minutes:
    """Read the quarters of the last 24 hours, in the order of time."""
    now, quarters = now_ms // QUARTER_MS, {}
    for place, start in enumerate(range(0, len(data) - _BYTES + 1, _BYTES)):
        cells = _cells(data[start : start + _BYTES])
        if now - QUARTERS < cells[0] <= now and cells[0] % QUARTERS == place:
            quarters[cells[0]] = cells
    counts: list[MinuteCounts] = []
    latency: list[QuarterLatency] = []
    for quarter, cells in sorted(quarters.items()):
        counts += _counts(quarter * QUARTER_MS, cells)
        times = Times(_times(cells, _WAITS), _times(cells, _RUNS))
        if times.run:
            seen = latency_of([times])
            latency.append(QuarterLatency(quarter * QUARTER_MS, seen.wait, seen.run))
    return Minutes(tuple(counts), tuple(latency))


def _cells(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + CELL_BYTES], "big") for at in range(0, len(data), CELL_BYTES)]


def _counts(start_ms: int, cells: list[int]) -> Iterator[MinuteCounts]:
    for minute in range(QUARTER_MINUTES):
        first = 1 + minute * MINUTE_COUNTS
        found = cells[first : first + MINUTE_COUNTS]
        if any(found):
            yield MinuteCounts(start_ms + minute * limits.MINUTE, *found)


def _times(cells: list[int], first: int) -> dict[int, int]:
    return {bucket * _FINER: count for bucket, count in enumerate(cells[first : first + _BUCKETS]) if count}
