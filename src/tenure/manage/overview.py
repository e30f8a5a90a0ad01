"""Queues and workers at one moment, and what is unusual about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tenure.client.inspect import full_view, queue_names
from tenure.client.why import are_awaiting, serving
from tenure.core.engine import FullEngine
from tenure.core.errors import RedisError, is_silent
from tenure.core.job import WAITING, QueueView, State
from tenure.core.latency import Latency, latency_of
from tenure.core.steps import Steps
from tenure.core.worker_view import WorkerView
from tenure.protocols.registry import entry_of

QUEUES_SHOWN: Final = 1_000
"""Queues of an overview."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Queues and workers at one moment.

    `left_out`: how many further queues there are. `refused`: the queues that Redis refused to show, or with a node of a
    cluster is lost.
    """

    queues: tuple[QueueView, ...]
    workers: tuple[WorkerView, ...]
    left_out: int = 0
    refused: Mapping[str, RedisError] = field(default_factory=dict)
    without_worker: frozenset[str] = frozenset()
    """The queues with waiting jobs that no living worker serves."""
    all_awaiting: frozenset[str] = frozenset()
    """The queues with ready jobs and living workers, where jobs that wait for results hold all slots."""

    @property
    def latency(self) -> dict[str, Latency]:
        """How long jobs lately waited and ran, of each queue of the workers."""
        times = [pair for worker in self.workers for pair in worker.times.items()]
        found = {view.name: latency_of(one for name, one in times if name == view.name) for view in self.queues}
        return {name: latency for name, latency in found.items() if latency.run is not None}

    def troubles(self) -> list[str]:
        """Return what is not shown, and why: queues with the same reason, such as a lost node, in one text."""
        by_reason: dict[str, list[str]] = {}
        for name, error in self.refused.items():
            by_reason.setdefault(str(error), []).append(repr(name))
        refused = [
            f"Queue{'s' * (len(names) > 1)} {', '.join(names)} cannot be shown. {why}"
            for why, names in by_reason.items()
        ]
        return refused + [
            f"Queue {view.name!r} is shown without these partitions, because their nodes cannot be reached: "
            f"{', '.join(map(str, view.unreachable))}."
            for view in self.queues
            if view.unreachable
        ]


def overview_of(
    engine: FullEngine, queue: str | None, now_ms: float, after: str = "", limit: int = QUEUES_SHOWN
) -> Steps[Overview]:
    """Read up to `limit` queues behind `after` and all workers, or one queue and the workers that serve it."""
    workers = sorted((yield from engine.workers()), key=lambda view: view.id)
    if queue is not None:
        workers = [one for one in workers if queue in one.queues]
    names = [] if queue is None else [queue]
    if queue is None:
        names = [name for name in sorted((yield from queue_names(engine))) if name > after]
    queues: list[QueueView] = []
    refused: dict[str, RedisError] = {}
    for name in names[:limit]:
        try:
            queues.append((yield from full_view(engine, name)))
        except RedisError as error:
            if is_silent(error):
                raise
            # As when another program has a key of this queue: show the others
            refused[name] = error
    # Workers of other programs do not announce themselves.
    alone = () if entry_of(engine).has_foreign_clients else queues
    without_worker = frozenset(view.name for view in alone if unserved(view, workers, now_ms))
    all_awaiting = frozenset(view.name for view in alone if has_no_free_slot(view, workers, now_ms))
    return Overview(tuple(queues), tuple(workers), len(names[limit:]), refused, without_worker, all_awaiting)


def unserved(view: QueueView, workers: Sequence[WorkerView], now_ms: float) -> bool:
    """Return whether jobs wait in a queue that no living worker serves."""
    waiting = sum(view.counts.get(state, 0) for state in WAITING)
    return waiting > 0 and not serving(view.name, workers, now_ms)


def has_no_free_slot(view: QueueView, workers: Sequence[WorkerView], now_ms: float) -> bool:
    """Return whether jobs of a queue are ready, and jobs that wait for results hold all slots of its living workers."""
    living = serving(view.name, workers, now_ms)
    return view.counts.get(State.READY, 0) > 0 and bool(living) and are_awaiting(living)
