"""Which queue is looked at first: smooth weighted turns. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument


class WeightedRoundRobin:
    """Weights 5 and 1 give the first look to the one five times of six, spread evenly; nobody starves.

    With equal weights the queues go round, each first in its turn. The numbers of turns owed always add up to nothing
    and come back to nothing after as many turns as the weights add up to.
    """

    def __init__(self, queues: Sequence[str], weights: Mapping[str, int] | None = None) -> None:
        for queue, weight in (weights or {}).items():
            if queue not in queues or not 1 <= weight <= limits.MAX_WEIGHT:
                raise InvalidArgument(
                    f"weights has {queue!r}: {weight}; expected queues of this worker and 1 to {limits.MAX_WEIGHT}."
                )
        self._weights = {queue: (weights or {}).get(queue, 1) for queue in queues}
        self._owed = dict.fromkeys(self._weights, 0)
        self._all = sum(self._weights.values())
        self._woken: str | None = None

    @property
    def order(self) -> tuple[str, ...]:
        """The queues, the one whose turn it is first, then those to which the most is owed."""
        owed, weights, woken = self._owed, self._weights, self._woken
        return tuple(sorted(weights, key=lambda queue: (queue != woken, -owed[queue] - weights[queue])))

    def advance(self) -> None:
        """The first of `order` has had its turn."""
        if self._woken is not None:
            # It came out of turn, when nobody else had anything. Counted, it would have to wait for that later.
            self._woken = None
            return
        first = self.order[0]
        for queue, weight in self._weights.items():
            self._owed[queue] += weight
        self._owed[first] -= self._all

    def woken(self, queue: str | None) -> None:
        """This one is said to have work: let it be first once, out of turn."""
        if queue in self._weights:
            self._woken = queue
