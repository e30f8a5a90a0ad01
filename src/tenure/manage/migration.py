"""Moves the waiting jobs of a queue to a queue of the default protocol, on the same Redis."""

from __future__ import annotations

from tenure.core import limits
from tenure.core.engine import FullEngine
from tenure.core.errors import QueueFull
from tenure.core.steps import Steps
from tenure.engines.kit.extras import Moved
from tenure.protocols.spec import Migration


def migrate(migration: Migration, target: FullEngine, queue: str, to: str) -> Steps[tuple[Moved, QueueFull | None]]:
    """Move page by page until no job is left that can be moved. If a page has no room, a smaller one may.

    Return what was moved, and the error if the destination is full.
    """
    count, size = 0, limits.MAX_BATCH
    refused: dict[str, None] = {}
    unfit: dict[str, None] = {}
    full: QueueFull | None = None
    for _ in range(limits.PURGE_ROUNDS):
        try:
            page = yield from migration.page(queue, target, to, size)
        except QueueFull as error:
            if size > 1:
                size //= 2
                continue
            full = error
            break
        known = len(refused) + len(unfit)
        count += page.count
        refused |= dict.fromkeys(page.refused)
        unfit |= dict.fromkeys(page.unfit)
        # Refused jobs go to the end of the queue. If a page has only jobs that were refused before, all were seen.
        stays = page.refused or page.unfit
        if not page.looked or (stays and not page.count and len(refused) + len(unfit) == known):
            break
    return Moved(0, count, tuple(refused), tuple(unfit)), full
