"""Cleaning: requeue items that a dead client left between two lists, in bounded pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tenure.core import limits
from tenure.core.steps import Arg, Command, Invoke, Steps
from tenure.engines.kit.base import checking_layout
from tenure.engines.kit.config import META_TTL_MS, NEVER_MS
from tenure.engines.kit.extras import Cleaned
from tenure.engines.redis_work_queue.config import (
    CLEAN_STEPS,
    DEEP_PAGE,
    KNOWN_MAX,
    LEFT_PAGE,
    LIGHT_PAGE,
    MARK_PAGE,
    SEARCHES_MAX,
    STRAY_PAGE,
    STRAY_STEPS,
    RedisWorkQueueConfig,
)
from tenure.engines.redis_work_queue.keys import item_pattern
from tenure.engines.redis_work_queue.scripts import SCRIPTS


def leftovers(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    """Note the items that a dead cleaner of another client has left in `cleaning`."""
    ids = yield Command(("LRANGE", f"{prefix}:cleaning", 0, LEFT_PAGE - 1))
    _, noted = yield from _show(prefix, config, ids, left=True)
    return Cleaned(noted=len(noted))


def _show(
    prefix: str, config: RedisWorkQueueConfig, ids: Sequence[bytes], left: bool = False
) -> Steps[tuple[int, list[bytes]]]:
    """Show ids to the script, which requeues those in no list, or notes them. In long lists one call searches for few.
    Return how many were requeued, and the ids that were noted."""
    requeued, rest = 0, list(ids)
    noted: list[bytes] = []
    for _ in range(STRAY_PAGE):
        if not rest:
            break
        args: tuple[Arg, ...] = (config.as_argument(), SEARCHES_MAX, int(left), *rest)
        count, found, rest = yield Invoke(SCRIPTS["deep"], (prefix,), args)
        requeued += count
        noted += found
    return requeued, noted


def requeue_unlisted(prefix: str, config: RedisWorkQueueConfig, steps: int = STRAY_STEPS) -> Steps[tuple[Cleaned, int]]:
    """Requeue the items in no list whose grace is over. Answers also when the next mark is due, in ms; -1: never."""
    total, next_ms = Cleaned(), -1
    for _ in range(steps):
        args: tuple[Arg, ...] = (config.as_argument(), SEARCHES_MAX, STRAY_PAGE)
        requeued, more, next_ms = yield Invoke(SCRIPTS["unlisted"], (prefix,), args)
        total += Cleaned(requeued=requeued)
        if not more:
            break
    return total, next_ms


def _unmark(prefix: str) -> Steps[None]:
    """Forget the marks of items that are gone."""
    for kind in ("unleased", "stray"):
        start = 0
        size: int = yield Command(("ZCARD", f"{prefix}:{kind}"))
        for _ in range((size + MARK_PAGE - 1) // MARK_PAGE):
            start = yield Invoke(SCRIPTS["unmark"], (prefix,), (kind, start, MARK_PAGE))
            if start < 0:
                break


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


@dataclass(slots=True)
class LightPass:
    """One pass through `processing`. `own`: expired leases of Tenure end at once. `note`: ids may be requeued later.

    `start` -1: it continues where the last call of any worker ended.
    """

    prefix: str
    start: int = -1
    own: bool = False
    note: bool = True
    began: int = 0
    done: bool = False

    def step(self, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
        """One page."""
        args = (config.as_argument(), self.start, LIGHT_PAGE, int(self.own), self.began, int(self.note))
        *found, following, self.began = yield Invoke(SCRIPTS["light"], (self.prefix,), args)
        self.done = following < 0
        self.start = following if self.start >= 0 else -1
        return Cleaned(*found)


def light_clean(prefix: str, config: RedisWorkQueueConfig, note: bool = True) -> Steps[Cleaned]:
    """Do the work that is due, and clean all of `processing`, page by page. `note`: see `LightPass`."""
    total = yield from checking_layout(prefix, _due(prefix, config))
    total += yield from _requeue_all_unlisted(prefix, config)
    total += yield from _at_once(prefix, config, (yield from leftovers(prefix, config)))
    size: int = yield Command(("LLEN", f"{prefix}:processing"))
    light = LightPass(prefix, 0, own=True, note=note)
    # New ids enter on the other side: one pass over the ids that were there at first is enough.
    for _ in range(size // LIGHT_PAGE + 1):
        total += yield from light.step(config)
        if light.done:
            break
    yield from _unmark(prefix)
    return total


def _requeue_all_unlisted(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    count: int = yield Command(("ZCARD", f"{prefix}:stray"))
    if not count:
        return Cleaned()
    return (yield from requeue_unlisted(prefix, config, count // SEARCHES_MAX + 2))[0]


def _at_once(prefix: str, config: RedisWorkQueueConfig, found: Cleaned) -> Steps[Cleaned]:
    """Without a grace, requeue what was noted."""
    if not found.noted or config.stray_ms:
        return found
    return replace(found, noted=0) + (yield from _requeue_all_unlisted(prefix, config))


@dataclass(slots=True)
class DeepPass:
    """One search through all items of a queue for those that are in neither list. `turn` of `turns`: which part.

    First the ids in the lists are read, then the items. Items that were in no list are shown to the script, many at a
    time, which searches again and requeues or notes them. `noted`: the first of those that it noted.
    """

    prefix: str
    turn: int = 0
    turns: int = 1
    place: int = 0
    cursor: int = 0
    reading: str = "queue"
    known: set[int] = field(default_factory=set)
    found: list[bytes] = field(default_factory=list)
    noted: list[bytes] = field(default_factory=list)
    done: bool = False

    def step(self, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
        """One call or two, about a page of ids each; none when it is done."""
        if self.done:
            return Cleaned()
        if self.reading:
            yield from self._read_list()
            return Cleaned()
        return (yield from self._look(config))

    def _mine(self, id: bytes) -> bool:
        return self.turns == 1 or hash(id) % self.turns == self.turn

    def _read_list(self) -> Steps[None]:
        if self.reading == "queue" and self.place == 0:
            lengths = 0
            for name in ("queue", "processing"):
                lengths += yield Command(("LLEN", f"{self.prefix}:{name}"))
            self.turns = lengths // KNOWN_MAX + 1
            self.turn %= self.turns
        # From the right end, where ids leave: those that come in on the left do not move the places.
        start, end = -self.place - DEEP_PAGE, -self.place - 1
        ids = yield Command(("LRANGE", f"{self.prefix}:{self.reading}", start, end))
        self.known.update(hash(id) for id in ids if self._mine(id))
        self.place += len(ids)
        if len(ids) < DEEP_PAGE:
            self.reading = "processing" if self.reading == "queue" else ""
            self.place = 0

    def _look(self, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
        # Keys of other types are not items: they may be those of a queue whose prefix lies among the items.
        options = ("MATCH", item_pattern(self.prefix), "COUNT", DEEP_PAGE, "TYPE", "string")
        following, names = yield Command(("SCAN", self.cursor, *options))
        self.cursor = int(following)
        head = len(f"{self.prefix}:item:".encode("utf-8", "surrogateescape"))
        ids = [name[head:] for name in names]
        self.found += [id for id in ids if self._mine(id) and hash(id) not in self.known]
        total = Cleaned(looked=len(ids))
        self.done = self.cursor == 0
        while self.found and (self.done or len(self.found) >= STRAY_PAGE):
            page, self.found = self.found[:STRAY_PAGE], self.found[STRAY_PAGE:]
            requeued, noted = yield from _show(self.prefix, config, page)
            self.noted += noted[: STRAY_PAGE - len(self.noted)]
            total += Cleaned(requeued=requeued, noted=len(noted))
        if self.done:
            self.known.clear()
        return total


def deep_clean(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    """A light clean, and one whole search for items in no list."""
    return (yield from search(prefix, config))[0]


def search(prefix: str, config: RedisWorkQueueConfig) -> Steps[tuple[Cleaned, list[bytes]]]:
    """Do a deep clean. Return also the first of the items that it left because they are younger than the grace."""
    total = yield from light_clean(prefix, config)
    turn, turns = 0, 1
    noted: list[bytes] = []
    while turn < turns:
        one = DeepPass(prefix, turn)
        while not one.done:
            total += yield from one.step(config)
        turn, turns = turn + 1, one.turns
        noted += one.noted[: STRAY_PAGE - len(noted)]
    return total, noted


def search_again(prefix: str, config: RedisWorkQueueConfig, ids: Sequence[bytes]) -> Steps[list[bytes]]:
    """Requeue the items whose grace is over. Return those of `ids` that are still in no list, and younger."""
    yield from _requeue_all_unlisted(prefix, config)
    return (yield from _show(prefix, config, ids))[1]
