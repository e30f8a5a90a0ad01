"""Queues, their settings and workers, as tables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from leasehold.app.app import Leasehold
from leasehold.cli.output.tables import Table
from leasehold.cli.output.text import ago
from leasehold.core import limits
from leasehold.core.errors import RedisError, Unreachable
from leasehold.core.job import QueueView, Refused, State, WorkerView
from leasehold.core.shape import LaneFailure, QueueSettings

QUEUES_SHOWN: Final = 1_000
"""Queues that `leasehold info` shows."""

SILENT_MS: Final = 15_000
"""A worker that was last seen longer ago than this is shown as silent."""

_SHARED: Final = ("parked_lanes", "blocked_lanes", "suspects", "reserved", "newer_layout")
"""The fields of a queue that are shown when they have a value."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Queues and workers at one moment.

    `left_out`: how many further queues there are. `refused`: the queues that Redis refused to show.
    """

    queues: tuple[QueueView, ...]
    workers: tuple[WorkerView, ...]
    left_out: int = 0
    refused: tuple[Refused, ...] = ()

    def to_json(self) -> dict[str, Any]:
        refused = [{"queue": one.queue, "error": one.reason} for one in self.refused]
        return {"queues": self.queues, "workers": self.workers, "refused": refused}

    def troubles(self) -> list[str]:
        return [f"Queue {one.queue!r} cannot be shown. {one.reason}" for one in self.refused]

    def tables(self) -> list[Table]:
        return [queue_table(self.queues), worker_table(self.workers, time.time() * limits.SECOND)]


def look(app: Leasehold, queue: str | None) -> Overview:
    """Read all queues and workers, or one queue and the workers that serve it."""
    workers = sorted(app.inspect.workers(), key=lambda view: view.id)
    if queue is not None:
        return Overview((app.inspect.queue(queue),), tuple(one for one in workers if queue in one.queues))
    names = sorted(app.inspect.queues())
    queues: list[QueueView] = []
    refused: list[Refused] = []
    for name in names[:QUEUES_SHOWN]:
        try:
            queues.append(app.inspect.queue(name))
        except Unreachable:
            raise
        except RedisError as error:  # as when another program has a key of this queue: show the others
            refused.append(Refused(name, str(error)))
    return Overview(tuple(queues), tuple(workers), len(names[QUEUES_SHOWN:]), tuple(refused))


def queue_table(queues: Sequence[QueueView]) -> Table:
    """Count the jobs of each queue by state, with notes on what is unusual."""
    states = [state.value for state in State]
    rows = tuple(
        {
            "queue": view.name,
            **{state: str(view.counts.get(State(state), 0)) for state in states},
            "notes": _notes(view),
        }
        for view in queues
    )
    table = Table("Queues", rows, states, "No queues: nothing was enqueued lately.", lists=["notes"])
    # `ready` stays, so that an empty queue shows that it is empty.
    spare = tuple(name for name in table.only("0") if name != State.READY.value)
    return replace(table, spare=(spare,)).without_empty("notes")


def settings_table(settings: QueueSettings, view: QueueView | None = None) -> Table:
    """Show the settings of one queue; with `view`, also its parked and blocked lanes."""
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
    """Show workers. `held` is counted in Redis now; with prefetched jobs it may exceed `slots`."""
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
    words = {"quiet": view.quiet, "alone": view.alone, "silent": now_ms - view.seen_ms > SILENT_MS}
    return ",".join(word for word, is_so in words.items() if is_so)


def _notes(view: QueueView) -> str:
    """Format the notes without spaces: one word in a pipe."""
    settings = view.settings
    values = {name: getattr(view, name) for name in _SHARED} | {"max_length": settings.max_length}
    if settings.lane_failure is not LaneFailure.SKIP:
        values["lane_failure"] = settings.lane_failure
    return ",".join([*["paused"] * settings.paused, *(f"{name}={value}" for name, value in values.items() if value)])
