"""Cleaning: requeue items that a dead client left between two lists, in bounded pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from leasehold.core import limits
from leasehold.core.steps import Arg, Command, Invoke, Steps
from leasehold.engines.kit.base import checking_layout
from leasehold.engines.kit.config import META_TTL_MS, NEVER_MS
from leasehold.engines.kit.extras import Cleaned
from leasehold.engines.redis_work_queue.config import (
    CLEAN_STEPS,
    DEEP_PAGE,
    KNOWN_MAX,
    LEFT_PAGE,
    LIGHT_PAGE,
    SEARCHES_MAX,
    RedisWorkQueueConfig,
)
from leasehold.engines.redis_work_queue.keys import item_pattern
from leasehold.engines.redis_work_queue.scripts import SCRIPTS


def leftovers(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    """Requeue items that a dead cleaner of another client has left in `cleaning`."""
    ids = yield Command(("LRANGE", f"{prefix}:cleaning", 0, LEFT_PAGE - 1))
    if not ids:
        return Cleaned()
    return Cleaned(len(ids)) + (yield from _search(prefix, config, ids))


def _search(prefix: str, config: RedisWorkQueueConfig, ids: Sequence[bytes]) -> Steps[Cleaned]:
    """Show ids to the script. Searching long lists is slow, so one call searches for a few ids."""
    total, left = Cleaned(), list(ids)
    for _ in range(DEEP_PAGE):
        if not left:
            break
        args: tuple[Arg, ...] = (config.as_argument(), SEARCHES_MAX, *left)
        requeued, noted, left = yield Invoke(SCRIPTS["deep"], (prefix,), args)
        total += Cleaned(requeued=requeued, noted=noted)
    return total


def _due(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    """Do the maintenance that workers do, for a queue without workers."""
    # The workers limit how many records are kept.
    unbounded = replace(config, failed_max=NEVER_MS).as_argument()
    args: tuple[Arg, ...] = (unbounded, limits.MAX_BATCH, META_TTL_MS, NEVER_MS)
    total = Cleaned()
    for _ in range(CLEAN_STEPS):
        _, reclaimed, *_, more, _ = yield Invoke(SCRIPTS["maintain"], (prefix,), args)
        total += Cleaned(requeued=reclaimed)
        if not more:
            break
    return total


def light_page(
    prefix: str, config: RedisWorkQueueConfig, start: int = -1, own: bool = False
) -> Steps[tuple[Cleaned, int]]:
    """Clean one page of `processing`. Answers also where the next one begins; -1: that was the last.

    `start` -1: where the last call of any client ended. `own`: expired leases of Leasehold end at once.
    """
    args = (config.as_argument(), start, LIGHT_PAGE, int(own))
    *found, following = yield Invoke(SCRIPTS["light"], (prefix,), args)
    return Cleaned(*found), following


def light_clean(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    """Do the work that is due, and clean all of `processing`, page by page."""
    total = yield from checking_layout(prefix, _due(prefix, config))
    total += yield from leftovers(prefix, config)
    start = 0
    size: int = yield Command(("LLEN", f"{prefix}:processing"))
    # New ids enter on the other side: one pass over the ids that were there at first is enough.
    for _ in range(size // LIGHT_PAGE + 1):
        page, start = yield from light_page(prefix, config, start, own=True)
        total += page
        if start < 0:
            break
    return total


@dataclass(slots=True)
class DeepPass:
    """One search through all items of a queue for those that are in neither list. `turn` of `turns`: which part.

    First the ids in the lists are read, then the items. Items in no list are shown to the script, which searches again.
    New ones are noted, and forgotten when they are found in a list.
    """

    prefix: str
    turn: int = 0
    turns: int = 1
    place: int = 0
    cursor: int = 0
    list: str = "queue"
    known: set[int] = field(default_factory=set)
    done: bool = False

    def step(self, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
        """One call or two, about a page of ids each; none when it is done."""
        if self.done:
            return Cleaned()
        if self.list:
            yield from self._read_list()
            return Cleaned()
        return (yield from self._look(config))

    def _mine(self, id: bytes) -> bool:
        return self.turns == 1 or hash(id) % self.turns == self.turn

    def _read_list(self) -> Steps[None]:
        if self.list == "queue" and self.place == 0:
            lengths = 0
            for name in ("queue", "processing"):
                lengths += yield Command(("LLEN", f"{self.prefix}:{name}"))
            self.turns = lengths // KNOWN_MAX + 1
            self.turn %= self.turns
        # From the right end, where ids leave: those that come in on the left do not move the places.
        start, end = -self.place - DEEP_PAGE, -self.place - 1
        ids = yield Command(("LRANGE", f"{self.prefix}:{self.list}", start, end))
        self.known.update(hash(id) for id in ids if self._mine(id))
        self.place += len(ids)
        if len(ids) < DEEP_PAGE:
            self.list = "processing" if self.list == "queue" else ""
            self.place = 0

    def _look(self, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
        command = Command(("SCAN", self.cursor, "MATCH", item_pattern(self.prefix), "COUNT", DEEP_PAGE))
        following, names = yield command
        self.cursor = int(following)
        head = len(f"{self.prefix}:item:".encode("utf-8", "surrogateescape"))
        ids = [name[head:] for name in names]
        found = [id for id in ids if self._mine(id) and hash(id) not in self.known]
        total = Cleaned(looked=len(ids))
        for start in range(0, len(found), DEEP_PAGE):
            total += yield from _search(self.prefix, config, found[start : start + DEEP_PAGE])
        if self.cursor == 0:
            self.done = True
            self.known.clear()
        return total


def deep_clean(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    """One whole pass, and a light clean before it."""
    total = yield from light_clean(prefix, config)
    turn, turns = 0, 1
    while turn < turns:
        one = DeepPass(prefix, turn)
        while not one.done:
            total += yield from one.step(config)
        turn, turns = turn + 1, one.turns
    return total
