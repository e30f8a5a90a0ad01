"""Cleaning: requeue items that a dead client left between two lists, in bounded pages.

A clean is one pass: the ids in `cleaning`, then the ids in `processing`, then (a deep clean) all items, then the items
with a mark. An item that may be in the hands of another client gets a mark, and returns when the mark is older than the
grace.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenure.core import limits
from tenure.core.steps import Arg, Call, Command, Invoke, Steps
from tenure.core.values import replace
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


def light_clean(prefix: str, config: RedisWorkQueueConfig, note: bool = True) -> Steps[Cleaned]:
    """Do the work that is due, and clean all of `processing`. `note` False: write no marks."""
    return (yield from clean(prefix, config, note=note))[0]


def deep_clean(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    """Do a light clean, and search all items for those in no list."""
    return (yield from clean(prefix, config, deep=True))[0]


def clean(
    prefix: str, config: RedisWorkQueueConfig, deep: bool = False, note: bool = True
) -> Steps[tuple[Cleaned, list[bytes]]]:
    """Clean a queue. Return also the first of the items in no list that are younger than the grace."""
    total = yield from checking_layout(prefix, _due(prefix, config))
    total += yield from requeue_leftovers(prefix, config)
    size: int = yield Command(("LLEN", f"{prefix}:processing"))
    # New ids enter on the other side: one pass over the ids that were there at first is enough.
    total += yield from requeue_unleased(prefix, config, size // LIGHT_PAGE + 1, 0, note)
    noted: list[bytes] = []
    turn, turns = 0, int(deep)
    while turn < turns:
        found, young, turns = yield from search(prefix, config, turn)
        total, turn = total + found, turn + 1
        noted += young[: STRAY_PAGE - len(noted)]
    total += yield from _requeue_all_unlisted(prefix, config)
    yield from _unmark(prefix)
    return total if config.stray_ms else replace(total, noted=0), noted


def search_again(prefix: str, config: RedisWorkQueueConfig, ids: Sequence[bytes]) -> Steps[list[bytes]]:
    """Requeue items after their grace. Return the `ids` that are still in no list, and younger."""
    yield from _requeue_all_unlisted(prefix, config)
    return (yield from _show(prefix, config, ids))[1]


def _show(
    prefix: str, config: RedisWorkQueueConfig, ids: Sequence[bytes], left: bool = False
) -> Steps[tuple[Cleaned, list[bytes]]]:
    """Show items to the script, which requeues or marks those in no list. Return also those that it marked."""
    total, rest = Cleaned(), list(ids)
    noted: list[bytes] = []
    for _ in range(STRAY_PAGE):
        if not rest:
            break
        args: tuple[Arg, ...] = (config.as_argument(), SEARCHES_MAX, int(left), *rest)
        requeued, found, rest, *_ = yield Invoke(SCRIPTS["unlisted"], (prefix,), args)
        total += Cleaned(requeued=requeued, noted=len(found))
        noted += found
    return total, noted


def requeue_leftovers(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    """Requeue or mark the items that a dead cleaner of another client has left in `cleaning`."""
    ids = yield Command(("LRANGE", f"{prefix}:cleaning", 0, LEFT_PAGE - 1))
    return (yield from _show(prefix, config, ids, left=True))[0]


def requeue_unleased(
    prefix: str, config: RedisWorkQueueConfig, pages: int, start: int = -1, note: bool = True
) -> Steps[Cleaned]:
    """Requeue or mark the ids in `processing` without a lease.

    `start` -1: continue where the last worker ended; 0: start at the oldest id; Tenure's expired leases end.
    """
    total, began, own = Cleaned(), 0, start == 0
    for _ in range(pages):
        args = (config.as_argument(), start, LIGHT_PAGE, int(own), began, int(note))
        *found, following, began = yield Invoke(SCRIPTS["unleased"], (prefix,), args)
        total += Cleaned(*found)
        if following < 0:
            break
        start = following if own else start
    return total


def requeue_unlisted(prefix: str, config: RedisWorkQueueConfig, calls: int = STRAY_STEPS) -> Steps[tuple[Cleaned, int]]:
    """Requeue the items in no list after their grace. Return also when the next mark is due, in ms; -1: never."""
    total, next_ms = Cleaned(), -1
    for _ in range(calls):
        args: tuple[Arg, ...] = (config.as_argument(), SEARCHES_MAX, 0)
        requeued, _, _, is_more, next_ms = yield Invoke(SCRIPTS["unlisted"], (prefix,), args)
        total += Cleaned(requeued=requeued)
        if not is_more:
            break
    return total, next_ms


def _requeue_all_unlisted(prefix: str, config: RedisWorkQueueConfig) -> Steps[Cleaned]:
    marks: int = yield Command(("ZCARD", f"{prefix}:stray"))
    return (yield from requeue_unlisted(prefix, config, marks // SEARCHES_MAX + 2))[0] if marks else Cleaned()


def search(prefix: str, config: RedisWorkQueueConfig, turn: int = 0) -> Steps[tuple[Cleaned, list[bytes], int]]:
    """Search all items for those in neither list. Return also the first ids that got a mark, and the number of turns.

    First the ids in the lists are read, then the items. Items that were in no list are shown to the script, many at a
    time, which searches again. One turn remembers at most `KNOWN_MAX` ids, so long lists need several.
    """
    lengths = 0
    for name in ("queue", "processing"):
        lengths += yield Command(("LLEN", f"{prefix}:{name}"))
    turns = lengths // KNOWN_MAX + 1

    def of_turn(ids: Sequence[bytes]) -> list[bytes]:
        return [id for id in ids if turns == 1 or hash(id) % turns == turn % turns]

    known: set[int] = set()
    # An id moves from `queue` to `processing`, so it is seen in one of them when they are read in this order.
    for name in ("queue", "processing"):
        place, ids = 0, [b""] * DEEP_PAGE
        while len(ids) == DEEP_PAGE:
            # The right end is where ids leave, so ids that come in on the left do not move the places.
            ids = yield Command(("LRANGE", f"{prefix}:{name}", -place - DEEP_PAGE, -place - 1))
            known.update(hash(id) for id in of_turn(ids))
            place += len(ids)

    total, found, noted, cursor = Cleaned(), list[bytes](), list[bytes](), -1
    # Keys of other types are not items: they may belong to a queue with a prefix among the items.
    options = ("MATCH", item_pattern(prefix), "COUNT", DEEP_PAGE, "TYPE", "string")
    head = len(f"{prefix}:item:".encode("utf-8", "surrogateescape"))
    while cursor:
        following, names = yield Command(("SCAN", max(cursor, 0), *options))
        cursor = int(following)
        total += Cleaned(looked=len(names))
        found += [id for id in of_turn([name[head:] for name in names]) if hash(id) not in known]
        while found and (not cursor or len(found) >= STRAY_PAGE):
            page, found = found[:STRAY_PAGE], found[STRAY_PAGE:]
            shown, young = yield from _show(prefix, config, page)
            total += shown
            noted += young[: STRAY_PAGE - len(noted)]
    return total, noted, turns


class ItemSearch:
    """A search that a worker makes a few calls at a time. A call that failed is sent again: each one is harmless to
    repeat."""

    def __init__(self, prefix: str, config: RedisWorkQueueConfig, turn: int) -> None:
        self.turn = turn
        self.is_done = False
        self._steps = search(prefix, config, turn)
        self._call: Call = next(self._steps)

    def run(self, calls: int = CLEAN_STEPS) -> Steps[None]:
        """Make up to `calls` calls."""
        for _ in range(calls):
            if self.is_done:
                break
            reply = yield self._call
            try:
                self._call = self._steps.send(reply)
            except StopIteration:
                self.is_done = True


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
