"""Counts of a worker process, which sends them to its parent, and their sums in the parent."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final, TypeAlias

from msgspec import Struct

from tenure.core import limits
from tenure.core.latency import BOUNDS
from tenure.core.text import cut
from tenure.metrics.families import BUCKETS, FAMILIES, Kind

VALUES_MAX: Final = 1_000
"""Values of one label. Further ones count as `OTHER`."""
TASKS_MAX: Final = 200
"""The same for the label `task`: histograms have a series for each task and each bucket."""
OTHER: Final = "other"
_INF: Final = len(BUCKETS)
_SUM: Final = _INF + 1
_BUCKET_OF: Final = tuple(bisect_left(BUCKETS, bound) for bound in (*BOUNDS, inf))
"""For each bucket of `core.latency` the bucket here."""
_WIDTHS: Final = {name: _SUM + 1 if one.kind is Kind.HISTOGRAM else 1 for name, one in FAMILIES.items()}

Key: TypeAlias = tuple[str, ...]
"""The name of a metric and the values of its labels."""


class Measured(Struct, frozen=True, tag=True):
    """What was counted since the last message: keys, and for each its number, or its buckets and their sum."""

    values: tuple[tuple[Key, tuple[float, ...]], ...] = ()


class Counts:
    """Numbers by metric and labels. Labels are cleaned, and their values bounded.

    >>> counts = Counts()
    >>> counts.add("tenure_retries_total", "mails", "shop.send")
    >>> counts.take()
    Measured(values=((('tenure_retries_total', 'mails', 'shop.send'), (1.0,)),))
    """

    def __init__(self) -> None:
        self._values: dict[Key, list[float]] = {}
        self._known: dict[tuple[str | None, ...], list[float]] = {}
        """The same lists by labels as they were given, so that a job costs one look-up."""
        self._labels: dict[str, set[str]] = {}

    def add(self, name: str, *labels: str | None, number: float = 1.0) -> None:
        self._cell(name, *labels)[0] += number

    def set(self, name: str, *labels: str | None, number: float) -> None:
        self._cell(name, *labels)[0] = number

    def observe(self, name: str, *labels: str | None, seconds: float) -> None:
        """Count a time in its bucket."""
        cell = self._cell(name, *labels)
        cell[bisect_left(BUCKETS, seconds)] += 1
        cell[_SUM] += seconds

    def observe_all(self, name: str, *labels: str | None, counts: Sequence[int], seconds: float) -> None:
        """Count times that were counted in the buckets of `core.latency.BOUNDS`. `seconds`: their sum."""
        if not any(counts):
            return
        cell = self._cell(name, *labels)
        for bucket, count in enumerate(counts):
            if count:
                cell[_BUCKET_OF[bucket]] += count
        cell[_SUM] += seconds

    def merge(self, measured: Measured) -> None:
        """Add what another process has counted. Raises `ValueError` for a metric that there is not."""
        for (name, *labels), numbers in measured.values:
            if name not in FAMILIES or len(numbers) != _WIDTHS[name] or len(labels) != len(FAMILIES[name].labels):
                raise ValueError(f"no metric {name!r} with {len(labels)} labels and {len(numbers)} numbers")
            cell = self._cell(name, *labels)
            cell[:] = map(float.__add__, cell, map(float, numbers))

    def snapshot(self) -> Measured:
        return Measured(tuple((key, tuple(cell)) for key, cell in self._values.items()))

    def take(self) -> Measured:
        """Return what was counted since the last call."""
        measured = self.snapshot()
        self._values.clear()
        self._known.clear()
        return measured

    def _cell(self, *key: str | None) -> list[float]:
        cell = self._known.get(key)
        if cell is None:
            name = key[0] or ""
            clean = (name, *map(self._clean, FAMILIES[name].labels, key[1:]))
            cell = self._values.setdefault(clean, [0.0] * _WIDTHS[name])
            if OTHER not in clean:  # the values that are left out may be any number
                self._known[key] = cell
        return cell

    def _clean(self, label: str, value: str | None) -> str:
        text = "".join(one if one.isprintable() else "?" for one in cut(value or "", limits.MAX_NAME))
        values = self._labels.setdefault(label, set())
        if text not in values:
            if len(values) >= (TASKS_MAX if label == "task" else VALUES_MAX):
                return OTHER
            values.add(text)
        return text


def totals(measured: Measured, names: Iterable[str]) -> dict[str, list[tuple[Key, tuple[float, ...]]]]:
    """Return the values of these metrics by name: of each its labels and its numbers."""
    found: dict[str, list[tuple[Key, tuple[float, ...]]]] = {name: [] for name in names}
    for (name, *labels), numbers in measured.values:
        found[name].append((tuple(labels), numbers))
    return found
