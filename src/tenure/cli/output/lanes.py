"""Lanes as `tenure info` shows them: a table of those in one state, or one with all its facts."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Final

from tenure.cli.output.tables import Table
from tenure.cli.output.text import ago, facts, time_of
from tenure.core.shape import LaneState, LaneView

_MEANINGS: Final = {
    LaneState.READY: "",
    LaneState.BUSY: "",
    LaneState.BLOCKED: " (a failed job keeps a place of it until it is retried or discarded)",
    LaneState.PARKED: " (set aside until it is resumed)",
    LaneState.IDLE: " (no job of it waits or runs)",
}


def lane_table(queue: str, state: LaneState, lanes: Sequence[LaneView], more: bool, now_ms: float) -> Table:
    """Show lanes in one state: when parked ones were parked, and the failed job that parked or blocks a lane."""
    rows = tuple(
        {
            "lane": view.name,
            "waiting": str(view.waiting),
            "busy": str(view.busy),
            "limit": str(view.limit),
            "parked": "-" if view.parked_ms is None else f"{ago(now_ms - view.parked_ms)} ago",
            "parked_by": view.parked_by or "-",
            "blocked_by": view.blocked_by or "",
        }
        for view in lanes
    )
    what = f"{len(rows):,} {state} {'lane' if len(rows) == 1 else 'lanes'}"
    title = f"{queue}: {'the first ' if more else ''}{what}"
    spare = ("limit",) if all(view.limit == 1 for view in lanes) else ()
    right = ("waiting", "busy", "limit", "parked")
    table = Table(title, rows, right, f"No {state} lanes in {queue}.", (spare, ("parked",))).without_empty("blocked_by")
    return table if state is LaneState.PARKED else table.without("parked", "parked_by")


def way_on(queue: str, job_id: str) -> str:
    """Return the commands that unblock a lane."""
    words = f"{quote(queue)} {quote(job_id)}"
    return f"`tenure retry {words}` or `tenure discard {words}`"


def describe(queue: str, view: LaneView, now_ms: float) -> str:
    """Format all facts of a lane, one in each line."""
    return facts(
        [
            ("lane", view.name),
            ("queue", queue),
            ("state", f"{view.state}{_MEANINGS[view.state]}"),
            ("waiting", str(view.waiting)),
            ("busy", str(view.busy)),
            ("limit", str(view.limit) if view.limit != 1 else None),
            ("parked", time_of(view.parked_ms, now_ms)),
            ("parked by", view.parked_by),
            ("blocked by", view.blocked_by),
            ("to go on", None if view.blocked_by is None else way_on(queue, view.blocked_by)),
        ]
    )
