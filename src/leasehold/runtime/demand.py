"""How many jobs of which queues a worker claims next. Pure: the caller brings the time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from leasehold.core import limits
from leasehold.core.task import BatchRule
from leasehold.runtime.jobs.suspects import Suspects
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.round_robin import WeightedRoundRobin
from leasehold.runtime.settler import Settler

Part = tuple[str, ...]
"""Queues that one call claims from."""


class Demand:
    """See the module. `batches`: the rules of the queues whose raw payloads are handled in batches. `most`: jobs
    that one call claims; a batch of one lane is claimed whole."""

    def __init__(
        self,
        inflight: Inflight,
        turns: WeightedRoundRobin,
        batches: Mapping[str, BatchRule],
        settler: Settler,
        suspects: Suspects,
        most: int,
    ) -> None:
        self._inflight = inflight
        self.turns = turns
        self._batches = batches
        self._settler = settler
        self._suspects = suspects
        self._most = most
        self.of_lane = {queue: rule.size for queue, rule in batches.items() if rule.one_lane} or None
        """How many jobs of one lane a claim may take together, by queue."""

    def parts(self) -> list[Part]:
        """The queues in the order of their turns; those with a batch handler apart, as each has room of its own.

        Without those whose outcomes Redis refuses.
        """
        order = tuple(queue for queue in self.turns.order if not self._settler.is_refused(queue))
        if self._suspects.reserved in order:
            order = (self._suspects.reserved,)
        if not self._batches:
            return [order] if order else []
        parts: list[Part] = []
        for queue in order:
            if parts and queue not in self._batches and parts[-1][0] not in self._batches:
                parts[-1] += (queue,)
            else:
                parts.append((queue,))
        return parts

    def startable(self, refused: Collection[str]) -> Part:
        """The queues of which a job could be claimed and started now, but for those that Redis refuses.

        A worker that could not start a job must not be woken for it in the place of another that is idle.
        """
        queues = (queue for part in self.parts() if self._startable(part) > 0 for queue in part)
        return tuple(queue for queue in queues if queue not in refused)

    def slots(self, part: Part) -> int:
        """How many jobs of these queues can run at one time."""
        rule = self._batches.get(part[0])
        return self._inflight.slots * (1 if rule is None else rule.size)

    def room(self, part: Part, now: float) -> int:
        """How many to claim now. 0: enough is pending, and no slot is idle.

        Of a queue with a batch handler, as many as fill a batch for each idle slot. Of one whose batches are of one
        lane each, as many as fill one: nobody knows how many lanes they will be.
        """
        inflight = self._inflight
        ahead = inflight.ahead(now)
        rule = self._batches.get(part[0])
        pending = len(inflight.pending) if rule is None else inflight.gathering.count(part[0])
        startable = self._startable(part)
        if startable <= 0 and (pending > inflight.low_water or ahead == 0):
            return 0
        wanted = max(startable, -pending) + ahead
        at_once = rule.size if rule is not None and rule.one_lane else self._most
        return max(0, min(wanted, at_once, limits.MAX_HELD - inflight.held + self._settler.refused))

    def _startable(self, part: Part) -> int:
        """How many more could be started now than are pending."""
        inflight, gathering = self._inflight, self._inflight.gathering
        rule = self._batches.get(part[0])
        if rule is None:
            return inflight.free - gathering.groups() - len(inflight.pending)
        idle = inflight.free - len(inflight.pending) - gathering.groups(but=part[0])
        return max(0, idle) * rule.size - gathering.count(part[0])
