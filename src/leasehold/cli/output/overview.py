"""Queues, their settings and workers, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from leasehold.cli.output.tables import Table, ago
from leasehold.core.job import QueueView, State, WorkerView
from leasehold.core.shape import LaneFailure, QueueSettings

SILENT_MS: Final = 15_000
"""A worker that was last seen longer ago than this is shown as silent."""

_SHARED: Final = ("parked_lanes", "blocked_lanes", "suspects", "reserved", "newer_layout")
"""The fields of a queue that are shown when they have a value."""


def queue_table(queues: Sequence[QueueView]) -> Table:
    """The jobs of each queue, counted by state, and notes on what is not usual."""
    rows = tuple(
        {"queue": view.name, **{state.value: str(view.counts.get(state, 0)) for state in State}, "notes": _notes(view)}
        for view in queues
    )
    right = [state.value for state in State]
    table = Table("Queues", rows, right, "No queues: nothing was enqueued lately.", lists=["notes"]).without_empty(
        "notes"
    )
    # `ready` stays, so that an empty queue shows that it is empty.
    return replace(table, spare=(tuple(name for name in table.only("0") if name != State.READY.value),))


def settings_table(settings: QueueSettings, view: QueueView | None = None) -> Table:
    """The settings of one queue; with `view`, also its parked and blocked lanes."""
    row = {
        "paused": "yes" if settings.paused else "no",
        "max_length": str(settings.max_length or "none"),
        "lane_failure": settings.lane_failure.value,
    }
    if view is not None:
        row |= {"parked_lanes": str(view.parked_lanes), "blocked_lanes": str(view.blocked_lanes)}
        if view.suspects:
            row |= {"suspects": str(view.suspects), "reserved": view.reserved or "none"}
        if view.newer_layout:
            row["newer_layout"] = str(view.newer_layout)
    return Table("Settings", (row,), {"max_length", *_SHARED} - {"reserved"})


def worker_table(workers: Sequence[WorkerView], now_ms: float) -> Table:
    """Workers. `held` is counted in Redis now; with prefetched jobs it may exceed `slots`."""
    rows = tuple(
        {
            "worker": view.id,
            "host": view.host,
            "pid": str(view.pid),
            "held": str(view.active),
            "slots": str(view.concurrency),
            "announced": f"{ago(now_ms - view.seen_ms)} ago",
            "up": ago(now_ms - view.started_ms),
            "queues": ",".join(view.queues),
            "state": _state(view, now_ms),
        }
        for view in workers
    )
    # The name of a worker begins with its host and its pid.
    spare = (("host", "pid"), ("up",), ("announced",))
    right = ("pid", "held", "slots", "announced", "up")
    return Table("Workers", rows, right, "No workers.", spare, ["queues"]).without_empty("state")


def _state(view: WorkerView, now_ms: float) -> str:
    """What is not usual. A worker announces itself every ten seconds."""
    is_silent = now_ms - view.seen_ms > SILENT_MS
    return ",".join(
        word for word, is_so in (("quiet", view.quiet), ("alone", view.alone), ("silent", is_silent)) if is_so
    )


def _notes(view: QueueView) -> str:
    """Without spaces: one word in a pipe."""
    settings = view.settings
    values = {name: getattr(view, name) for name in _SHARED} | {"max_length": settings.max_length}
    if settings.lane_failure is not LaneFailure.SKIP:
        values["lane_failure"] = settings.lane_failure
    return ",".join([*["paused"] * settings.paused, *(f"{name}={value}" for name, value in values.items() if value)])
