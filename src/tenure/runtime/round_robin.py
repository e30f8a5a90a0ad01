"""Which queue a claim takes jobs from first: smooth weighted round robin. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenure.core import limits
from tenure.core.errors import invalid


class WeightedRoundRobin:
    """With weights 5 and 1, the one queue is first five times of six, spread evenly. With equal weights, each queue is
    first in its turn. The turns owed always add up to 0."""

    def __init__(self, queues: Sequence[str], weights: Mapping[str, int] | None = None) -> None:
        for queue, weight in (weights or {}).items():
            if queue not in queues or not 1 <= weight <= limits.MAX_WEIGHT:
                raise invalid("weights", f"1 to {limits.MAX_WEIGHT} for queues of this worker", f"{queue!r}: {weight}")
        self._weights = {queue: (weights or {}).get(queue, 1) for queue in queues}
        self._owed = dict.fromkeys(self._weights, 0)
        self._all = sum(self._weights.values())
        self._woken: str | None = None

    @property
    def order(self) -> tuple[str, ...]:
        """The queues, those first to which the most turns are owed."""
        owed, weights, woken = self._owed, self._weights, self._woken
        return tuple(sorted(weights, key=lambda queue: (queue != woken, -owed[queue] - weights[queue])))

    def advance(self) -> None:
        """The first of `order` has had its turn."""
        if self._woken is not None:
            self._woken = None  # out of turn, when the other queues had no jobs: not counted
            return
        first = self.order[0]
        for queue, weight in self._weights.items():
            self._owed[queue] += weight
        self._owed[first] -= self._all

    def woken(self, queue: str | None) -> None:
        """This queue may have work: let it be first once, out of turn."""
        if queue in self._weights:
            self._woken = queue
