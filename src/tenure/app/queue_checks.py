"""Checks of what lies in the queues, for `tenure check`."""

from __future__ import annotations

from typing import Final

from tenure.app.preflight import Finding, Level
from tenure.core.engine import Feature, FullEngine
from tenure.core.errors import RedisError
from tenure.core.steps import Steps

LAYOUTS_CHECKED: Final = 1_000
"""The most queues whose layout version `tenure check` reads."""
OUTSIDE_CHECKED: Final = 100
"""The most queues of which `tenure check` looks for jobs outside of their partitions."""


def layouts(engine: FullEngine) -> Steps[Finding]:
    """Find the queues that a newer release has written to. Workers of this release claim nothing from them."""
    newer: list[str] = []
    try:
        queues = (yield from engine.queues())[:LAYOUTS_CHECKED]
        for queue in queues:
            version = yield from engine.layout_of(queue)
            if version > engine.layout:
                newer.append(f"{queue} (version {version})")
    except RedisError as error:
        return Finding("layout", Level.UNKNOWN, f"The layout versions of the queues could not be read: {error}")
    if not newer:
        return Finding("layout", Level.OK, f"Layout version {engine.layout} or older in {len(queues):,} queues.")
    shown = ", ".join(newer[:5]) + (f" and {len(newer) - 5:,} more" if len(newer) > 5 else "")
    text = f"A newer release has written to {shown}; this release reads layout versions up to {engine.layout}."
    return Finding("layout", Level.ERROR, text, "Update Tenure here. Until then its workers skip these queues.")


def outside(engine: FullEngine) -> Steps[tuple[Finding, ...]]:
    """Find jobs in partitions that their queue does not have, as after a restore of Redis: no worker looks there."""
    if Feature.PARTITIONS not in engine.features:
        return ()
    found: list[str] = []
    try:
        queues = (yield from engine.queues())[:OUTSIDE_CHECKED]
        for queue in queues:
            partitions = yield from engine.partitions_outside(queue)
            if partitions:
                found.append(f"{queue} ({', '.join(map(str, partitions))})")
    except RedisError as error:
        return (Finding("partitions", Level.UNKNOWN, f"The partitions of the queues could not be read: {error}"),)
    if not found:
        return (Finding("partitions", Level.OK, f"No jobs outside of the partitions of {len(queues):,} queues."),)
    text = f"Jobs lie in partitions that their queues do not have: {'; '.join(found[:5])}. No worker runs them."
    remedy = "`tenure configure QUEUE --partitions N`, with the number that the queue has, takes them back."
    return (Finding("partitions", Level.WARNING, text, remedy),)
