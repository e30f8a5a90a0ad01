"""Which partitions of a queue a worker looks at next. Pure: `PartitionedEngine` does the calls.

A worker knows how many jobs its last claim left in each partition. It claims from the longer of two that it picks. A
partition in which a first job arrives is named on the queue's post, a list from which one worker takes it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from tenure.core import limits

LOOK_MS: Final = 100
"""A worker with jobs takes the next partition from the post this often, so that none waits behind those it knows."""
AROUND_MS: Final = limits.IDLE_WAIT_MS - limits.MIN_WAIT_MS
"""A worker that knows of no job looks into all partitions this often, which is after each wait that ran out."""
POST_MS: Final = 50
"""A worker without a free slot names the same partition on the post no more often than this."""
REFUSED_MS: Final = 1_000
"""How long a partition that could not be reached is left alone."""


@dataclass(slots=True)
class Turns:
    """The partitions of one queue, as one worker knows them. Times are seconds of the monotonic clock.

    Threads that lease by hand share it, so each look goes over a copy, and may miss what another thread changes.

    waiting: how many jobs the last claim left, where it left any; 1 where that is unknown.
    due: when a job may become ready there without a message.
    """

    partitions: int
    clock: Callable[[], float] = time.monotonic
    waiting: dict[int, int] = field(default_factory=dict)
    due: dict[int, float] = field(default_factory=dict)
    suspect_in: int | None = None
    """A partition with a job that has to run alone and could not in the last claim."""
    _noted: set[int] = field(default_factory=set)
    """The partitions in which a job may have become ready since the last claim began."""
    _posted: dict[int, float] = field(default_factory=dict)
    _refused: dict[int, float] = field(default_factory=dict)
    _taken: int | None = None
    """The partition that was taken from the post, until it is claimed from."""
    _looked_at: float = 0.0
    _around_at: float = 0.0
    _beat: int = 0

    def __post_init__(self) -> None:
        self.look_everywhere()

    def look_everywhere(self) -> None:
        """Nothing is known: look into each partition once."""
        self.waiting |= {partition: 1 for partition in range(self.partitions) if partition not in self.waiting}

    def note(self, partition: int) -> None:
        """A job may be ready there. The answer of a claim that is under way does not know of it."""
        self.waiting.setdefault(partition, 1)
        self._noted.add(partition)

    def takes_post(self) -> bool:
        """Whether to take the next partition from the post before this claim."""
        now = self.clock()
        if self.waiting and now - self._looked_at < LOOK_MS / limits.SECOND:
            return False
        self._looked_at = now
        return True

    def looks_around(self) -> bool:
        """Whether to look for partitions that are not on the post: a process may have died before it named one."""
        now = self.clock()
        if self.waiting or now - self._around_at < AROUND_MS / limits.SECOND:
            return False
        self._around_at = now
        return True

    def order(self, posted: int | None) -> list[int]:
        """The partitions to claim from: until the worker has what it wants, or none is left."""
        now = self.clock()
        # Copies: another thread may change the dictionary while a loop over it, or even `list`, is interrupted.
        for partition, at in self.due.copy().items():
            if at <= now:
                self.due.pop(partition, None)
                self.note(partition)
        if posted is not None:
            self.note(posted)
            self._taken = posted
        self._noted.clear()
        waiting = self.waiting.copy()
        ready = [one for one in waiting if one != posted and self._refused.get(one, 0.0) <= now]
        random.shuffle(ready)
        if len(ready) > 1 and waiting[ready[1]] > waiting[ready[0]]:
            ready[0], ready[1] = ready[1], ready[0]
        return ready if posted is None else [posted, *ready]

    def learn(self, partition: int, left: int, next_ms: int | None) -> None:
        """What a claim answered: how many jobs it left, and how long until another may be due."""
        now = self.clock()
        self._refused.pop(partition, None)
        if partition == self._taken:
            self._taken = None
        if left > 0 or next_ms == 0 or partition in self._noted:
            self.waiting[partition] = max(1, left)
        else:
            self.waiting.pop(partition, None)
        if next_ms:
            self.due[partition] = now + next_ms / limits.SECOND
        else:
            self.due.pop(partition, None)

    def refuse(self, partition: int) -> bool:
        """A claim failed. Return whether that is news."""
        now = self.clock()
        is_news = self._refused.get(partition, 0.0) + REFUSED_MS / limits.SECOND < now
        self._refused[partition] = now + REFUSED_MS / limits.SECOND
        self.waiting[partition] = 1
        return is_news

    def to_post(self) -> int | None:
        """The partition to name on the post by a worker that takes no more: one that it leaves to others."""
        taken, self._taken = self._taken, None
        if taken is not None:
            return taken
        now = self.clock()
        waiting = self.waiting.copy()
        late = [one for one in waiting if now - self._posted.get(one, 0.0) >= POST_MS / limits.SECOND]
        if not late:
            return None
        chosen = max(late, key=waiting.__getitem__)
        self._posted[chosen] = now
        return chosen

    def next_ms(self) -> int | None:
        """How long until a claim may bring something without a message; None: unknown."""
        now = self.clock()
        free = [self._refused.get(one, 0.0) for one in self.waiting.copy()]
        if any(at <= now for at in free):
            return 0
        times = [*self.due.copy().values(), *free]
        return max(1, int((min(times) - now) * limits.SECOND)) if times else None

    def beats(self, held: Collection[int]) -> list[int]:
        """The partitions for one heartbeat: all, or those where jobs are held and a third of the others in turn.

        So each partition has one every 1.5 s, less than a lease: a claim may have brought jobs that are not reported.
        """
        if not held:
            return list(range(self.partitions))
        third = -(-self.partitions // 3)
        start = self._beat * third
        self._beat += 1
        return sorted({*held, *((start + n) % self.partitions for n in range(third))})
