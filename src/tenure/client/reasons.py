"""Why a job waits: a paused queue, no living worker that serves the queue or has the task, or no slot for it."""

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
AWAITING: Final = "jobs that wait for the results of other jobs hold all slots"
AWAITING_PAGE: Final = "docs/howto/results.md#a-job-that-waits-for-another"
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
    serving = _serving(view.queue, workers, now_ms)
    if not serving:
        return "no living worker serves the queue"
    able = [one for one in serving if view.task is None or one.tasks is None or view.task in one.tasks]
    if not able:
        return "no living worker of the queue has the task"
    return AWAITING if view.state is State.READY and _are_awaiting(able) else None


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
    return waiting > 0 and not _serving(view.name, workers, now_ms)


def has_no_free_slot(view: QueueView, workers: Sequence[WorkerView], now_ms: float) -> bool:
    """Return whether jobs of a queue are ready, and jobs that wait for results hold all slots of its living workers."""
    serving = _serving(view.name, workers, now_ms)
    return view.counts.get(State.READY, 0) > 0 and bool(serving) and _are_awaiting(serving)


def awaiting_beside(engine: FullEngine, view: JobView) -> Steps[int]:
    """Count the jobs, on the worker that runs this one, that wait for the result of another job. This may be one."""
    if view.state is not State.ACTIVE or entry_of(engine).has_foreign_clients:
        return 0
    try:
        workers = yield from engine.workers()
    except TenureError:  # as for a user who may not read the workers
        return 0
    return sum(one.awaiting for one in workers if one.id == view.worker)


def _serving(queue: str, workers: Sequence[WorkerView], now_ms: float) -> list[WorkerView]:
    return [one for one in workers if queue in one.queues and is_living(one, now_ms)]


def _are_awaiting(workers: Sequence[WorkerView]) -> bool:
    """Return whether each of these workers has announced a waiting job for each of its slots."""
    return all(one.awaiting >= one.concurrency for one in workers)
