"""Batches: leases gather until a batch is full or has waited long enough; a handler answers for each of its jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from tenure.core import limits
from tenure.core.outcome import Outcome
from tenure.runtime.jobs import outcomes
from tenure.runtime.jobs.held import Batch, Held, Outcomes

Key: TypeAlias = tuple[str, str | None, int]
"""Queue, lane (None: not by lane), and a number for each job that must be alone."""


@dataclass(slots=True, eq=False)
class Group:
    """Leases that will run together. `ripe_at`: when they start, full or not."""

    key: Key
    ripe_at: float
    held: list[Held] = field(default_factory=list)

    @property
    def first(self) -> int:
        return self.held[0].number


class Gathering:
    """Leases of batch handlers that have not started. Pure: the caller brings the time.

    With `one_lane` a batch has jobs of one lane, or only jobs without a lane. Jobs of a lane with one running job
    come in one claim, so they wait for no others. A persistent job is alone: it ends only when it is stopped.
    """

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._open: dict[Key, Group] = {}
        """The groups that are not full."""
        self.group_of: dict[Held, Group] = {}
        """The group of each lease; empty in most workers, so the hot path tests it first."""

    def add(self, held: Held, now: float) -> None:
        rule = held.spec.batch
        assert rule is not None
        shape = held.lease.record.shape
        lane = shape.lane if rule.one_lane else None
        key = (held.lease.record.queue, lane, held.number if shape.persistent else 0)
        group = self._open.get(key)
        if group is None:
            waits = not shape.persistent and (lane is None or shape.lane_limit > 1)
            ripe_at = now + rule.linger_ms / limits.SECOND if waits else now
            group = self._open[key] = Group(key, ripe_at)
            self._groups.append(group)
        group.held.append(held)
        self.group_of[held] = group
        if len(group.held) >= rule.size:
            group.ripe_at = min(group.ripe_at, now)
            del self._open[key]

    def remove(self, held: Held) -> bool:
        """False: the lease is not here."""
        group = self.group_of.pop(held, None)
        if group is None:
            return False
        group.held.remove(held)
        if not group.held:
            self._drop(group)
        return True

    def ripe(self, now: float) -> Group | None:
        """The group that was claimed first among the ripe ones."""
        ripe = [group for group in self._groups if group.ripe_at <= now]
        return min(ripe, key=lambda group: group.first, default=None)

    def next_at(self) -> float:
        """When the next group is ripe; infinite without groups."""
        return min((group.ripe_at for group in self._groups), default=math.inf)

    def take(self, group: Group) -> Batch:
        self._drop(group)
        for held in group.held:
            del self.group_of[held]
        return Batch(group.held[0].spec, group.held, group.held[0].persistent)  # a persistent job is alone

    def ripe_at(self, held: Held) -> float:
        return self.group_of[held].ripe_at

    def count(self, queue: str) -> int:
        return sum(len(group.held) for group in self._groups if group.key[0] == queue)

    def groups(self, but: str | None = None) -> int:
        """How many groups there are, except for the queue `but`. Each needs a slot."""
        return sum(1 for group in self._groups if group.key[0] != but)

    def _drop(self, group: Group) -> None:
        self._groups.remove(group)
        if self._open.get(group.key) is group:
            del self._open[group.key]


def outcomes_of_answers(batch: Batch, value: object, random: outcomes.Random) -> Outcomes:
    """What a batch handler returned: None (all are completed), or a list with one entry for each job.

    Any other value is an error of the handler, which counts for every job without an outcome.
    """
    count = len(batch.members)
    entries = [None] * count if value is None else value
    if not isinstance(entries, (list, tuple)) or len(entries) != count:
        entries = [_not_answers(count, value)] * count
    still_open = set(batch.open())
    answers = zip(batch.members, entries, strict=True)
    return [(held, _outcome_of_entry(held, entry, random)) for held, entry in answers if held in still_open]


def _outcome_of_entry(held: Held, value: object, random: outcomes.Random) -> Outcome:
    if isinstance(value, BaseException):
        return outcomes.outcome_of_error(held, value, random)
    return outcomes.outcome_of_return(held, value, random)


def _not_answers(count: int, value: object) -> TypeError:
    if outcomes.closed(value):
        return TypeError("a sync handler returned a coroutine: declare it `async def`")
    kind = type(value).__name__
    found = f"{kind} of {len(value)}" if isinstance(value, (list, tuple)) else kind
    return TypeError(
        f"The handler of a batch of {count} jobs returned {found}; expected None, or a list with one entry for each "
        "job: its result, or a Retry, a Fail or another exception."
    )
