"""Queues, their settings and workers, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from leasehold.cli.output.tables import Table, ago
from leasehold.core.job import QueueView, State, WorkerView
from leasehold.core.shape import LaneFailure, QueueSettings

SILENT_MS: Final = 15_000
"""A worker that was last seen longer ago than this is shown as silent."""

_STATES: Final = tuple(State)
_QUEUES: Final = ("queue", *(state.value for state in _STATES), "notes")
_WORKERS: Final = ("worker", "host", "pid", "held", "slots", "announced", "up", "queues", "state")
"""`held`: counted in Redis when asked; with what is claimed ahead it may be more than the slots."""
_SETTINGS: Final = ("paused", "max_length", "lane_failure")


def queue_table(queues: Sequence[QueueView]) -> Table:
    """The jobs of each queue, counted by state; and what is out of the ordinary, where anything is."""
    rows = tuple((view.name, *(str(view.counts.get(state, 0)) for state in _STATES), _notes(view)) for view in queues)
    empty = "No queues: nothing was enqueued lately."
    table = Table("Queues", _QUEUES, rows, frozenset(_QUEUES[1:-1]), empty, lists=frozenset({"notes"}))
    if not any(row[-1] for row in rows):
        table = table.without(("notes",))
    # What a narrow terminal leaves out is nothing; `ready` stays, so that an empty queue shows that it is.
    return replace(table, spare=(tuple(name for name in table.all_zero() if name != State.READY.value),))


def settings_table(settings: QueueSettings, view: QueueView | None = None) -> Table:
    """What is set for one queue; and, where it was looked at, how many of its lanes do not go on by themselves."""
    paused = "yes" if settings.paused else "no"
    row = (paused, str(settings.max_length or "none"), settings.lane_failure.value)
    if view is None:
        return Table("Settings", _SETTINGS, (row,), frozenset({"max_length"}))
    counts = {"parked_lanes": str(view.parked_lanes), "blocked_lanes": str(view.blocked_lanes)}
    if view.suspects:
        counts |= {"suspects": str(view.suspects), "reserved": view.reserved or "none"}
    if view.newer_layout:
        counts |= {"newer_layout": str(view.newer_layout)}
    right = frozenset({"max_length", *counts} - {"reserved"})
    return Table("Settings", (*_SETTINGS, *counts), ((*row, *counts.values()),), right)


def worker_table(workers: Sequence[WorkerView], now_ms: float) -> Table:
    rows = tuple(
        (
            view.id,
            view.host,
            str(view.pid),
            str(view.active),
            str(view.concurrency),
            f"{ago(now_ms - view.seen_ms)} ago",
            ago(now_ms - view.started_ms),
            ",".join(view.queues),
            _state(view, now_ms),
        )
        for view in workers
    )
    right = frozenset({"pid", "held", "slots", "announced", "up"})
    # The name of a worker begins with its host and its pid.
    spare = (("host", "pid"), ("up",), ("announced",))
    table = Table("Workers", _WORKERS, rows, right, "No workers.", spare, frozenset({"queues"}))
    return table if any(row[-1] for row in rows) else table.without(("state",))


def _state(view: WorkerView, now_ms: float) -> str:
    """What is not as usual. A worker says that it is there every ten seconds."""
    silent = now_ms - view.seen_ms > SILENT_MS
    words = ("quiet" if view.quiet else "", "alone" if view.alone else "", "silent" if silent else "")
    return ",".join(filter(None, words))


def queue_json(view: QueueView) -> dict[str, Any]:
    """A queue with the names of the fields of its view."""
    return {
        "name": view.name,
        "counts": {state.value: view.counts.get(state, 0) for state in _STATES},
        "totals": view.totals,
        "settings": settings_json(view.settings),
        "parked_lanes": view.parked_lanes,
        "blocked_lanes": view.blocked_lanes,
        "suspects": view.suspects,
        "reserved": view.reserved,
        "newer_layout": view.newer_layout,
    }


def settings_json(settings: QueueSettings) -> dict[str, Any]:
    return {
        "paused": settings.paused,
        "max_length": settings.max_length,
        "lane_failure": settings.lane_failure.value,
    }


def worker_json(view: WorkerView) -> dict[str, Any]:
    return {
        "id": view.id,
        "host": view.host,
        "pid": view.pid,
        "queues": view.queues,
        "concurrency": view.concurrency,
        "active": view.active,
        "quiet": view.quiet,
        "alone": view.alone,
        "started_ms": view.started_ms,
        "seen_ms": view.seen_ms,
    }


def _notes(view: QueueView) -> str:
    """Without spaces: one word in a pipe."""
    settings = view.settings
    notes = (
        "paused" if settings.paused else "",
        f"parked_lanes={view.parked_lanes}" if view.parked_lanes else "",
        f"blocked_lanes={view.blocked_lanes}" if view.blocked_lanes else "",
        f"suspects={view.suspects}" if view.suspects else "",
        f"reserved={view.reserved}" if view.reserved else "",
        f"newer_layout={view.newer_layout}" if view.newer_layout else "",
        f"max_length={settings.max_length}" if settings.max_length else "",
        f"lane_failure={settings.lane_failure}" if settings.lane_failure is not LaneFailure.SKIP else "",
    )
    return ",".join(filter(None, notes))
