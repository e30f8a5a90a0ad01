"""Why a job waits: a paused queue, or no living worker that serves the queue or has the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tenure.core.engine import Feature, FullEngine
from tenure.core.errors import TenureError
from tenure.core.job import JobView, QueueView, State, WorkerView
from tenure.core.steps import Steps
from tenure.protocols.registry import entry_of

SILENT_MS: Final = 15_000
"""A worker that was last seen longer ago than this is shown as silent."""
_WAITING: Final = (State.READY, State.SCHEDULED, State.UNROUTABLE)


def reason(engine: FullEngine, view: JobView, now_ms: float) -> Steps[str | None]:
    """Return why the job waits; None: it does not, or no reason is known."""
    if view.state not in _WAITING or view.waits is not None:
        return view.waits
    if Feature.PAUSE in engine.features:
        settings = yield from engine.settings(view.queue)
        if settings.paused:
            return "the queue is paused"
    if entry_of(engine).has_foreign_clients:  # their workers do not announce themselves
        return None
    workers = yield from engine.workers()
    serving = [one for one in workers if view.queue in one.queues and is_living(one, now_ms)]
    if not serving:
        return "no living worker serves the queue"
    if view.task is not None and all(one.tasks is not None and view.task not in one.tasks for one in serving):
        return "no living worker of the queue has the task"
    return None


def state_and_reason(engine: FullEngine, view: JobView, now_ms: float) -> Steps[str]:
    """Describe the state of a job that has not ended, as in `It is ready: the queue is paused.`"""
    try:
        why = yield from reason(engine, view, now_ms)
    except TenureError:  # as for a user who may not read the workers
        why = None
    if view.worker is not None:
        why = f"worker {view.worker} holds it"
    return f"It is {view.state.value}{': ' * bool(why)}{why or ''}."


def is_living(view: WorkerView, now_ms: float) -> bool:
    """Return whether a worker has announced itself lately."""
    return now_ms - view.seen_ms <= SILENT_MS


def unserved(view: QueueView, workers: Sequence[WorkerView], now_ms: float) -> bool:
    """Return whether jobs wait in a queue that no living worker serves."""
    waiting = sum(view.counts.get(state, 0) for state in _WAITING)
    return waiting > 0 and not any(view.name in one.queues and is_living(one, now_ms) for one in workers)
