"""Changes queues, jobs and workers, and many jobs at a time (`app.control`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypedDict

from tenure.client.client import asynchronous, blocking
from tenure.client.control import Control
from tenure.client.options import check_names
from tenure.core import limits, names
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, UnsupportedFeature, invalid
from tenure.core.functions import is_async
from tenure.core.hints import a
from tenure.core.job import WAITING, JobView, State
from tenure.core.shape import CancelAnswer
from tenure.core.steps import Steps
from tenure.core.unsupported import unsupported
from tenure.manage.audit import AuditEntry, note
from tenure.manage.bulk import CHANGED_MAX, RATE_MAX, BulkChange, Change, OnProgress, Request, run_change
from tenure.manage.search import Selection

if TYPE_CHECKING:
    from typing import Unpack

RETRIED: Final = (State.FAILED, State.BROKEN, State.CANCELLED, State.SCHEDULED, State.UNROUTABLE)
"""The states from which a job can be retried."""
CANCELLED: Final = (*WAITING, State.ACTIVE)
"""The states in which a job can be cancelled."""
REMOVED: Final = tuple(state for state in State if state is not State.ACTIVE)
"""The states in which a job can be removed."""
_ANSWERS: Final = {CancelAnswer.CANCELLED: "cancelled", CancelAnswer.REQUESTED: "requested"}


class Filters(TypedDict, total=False):
    """Which jobs are meant. `JobSearch.find` describes them."""

    task: str | None
    error: str | None
    lane: str | None
    older_than: float | timedelta | None
    newer_than: float | timedelta | None
    place: str | None


class BulkOptions(Filters, total=False):
    """Which jobs a bulk change is about, and how it runs. `BulkControl` describes them."""

    limit: int | None
    dry_run: bool
    rate: int | None
    progress: OnProgress | None


class BulkControl(Control):
    """Changes queues, jobs and workers, and many jobs at a time.

        change = app.control.retry_all("images", error="ConnectionError", dry_run=True)
        change.found, [job.id for job in change.jobs]

    The changes of many jobs take the filters of `app.inspect.find`, `queue` None for all queues, and these options.
    `limit`: the most jobs to change, 10,000 by default; of ended jobs those that ended first. `dry_run`: only find
    them. `rate`: the most jobs a second. `progress`: a function, not async, that gets the `BulkChange` before the first
    change and after each; an error that it raises ends the change. It must not block an event loop.

    A filter reads 10,000 jobs of each state and queue, of ended ones the newest, or with `older_than` the oldest. A job
    that has left its state before its turn comes stays as it is. They raise `InvalidArgument` and `UnsupportedFeature`.
    """

    @blocking
    def retry_all(
        self,
        queue: str | None = None,
        state: State | str | None = None,
        *,
        everything: bool = False,
        **options: Unpack[BulkOptions],
    ) -> Steps[BulkChange]:
        """Retry all jobs in one state that pass the filters. See `retry` and `BulkControl`.

            app.control.retry_all("images", error="ConnectionError", newer_than=3600, rate=50).done["retried"]

        `state` None: failed jobs. `everything`: allow a call without queue, state and filter.
        """
        request = _request(queue, State.FAILED if state is None else state, RETRIED, options)
        _check_meant(request, state, everything)

        def one(view: JobView) -> Steps[str | None]:
            return "retried" if (yield from self._client.engine.retry(view.queue, view.id)) else None

        rival = "unique key" if Feature.UNIQUE in self._client.engine.features else "id"
        return self._run(request, Change(("retried",), one, refusal=f"another job has its {rival}"), options)

    aretry_all = asynchronous(retry_all)

    @blocking
    def cancel_matching(
        self,
        queue: str | None = None,
        state: State | str | None = None,
        *,
        reason: str = "",
        everything: bool = False,
        **options: Unpack[BulkOptions],
    ) -> Steps[BulkChange]:
        """Cancel all jobs that pass the filters and have not ended, running ones too. See `cancel` and `BulkControl`.

            app.control.cancel_matching(task="shop.send", state="scheduled", reason="the shop is closed").done

        The numbers are `cancelled` and `requested`. `everything`: allow a call without queue, state and filter. Without
        a state and a filter other than `lane`, the jobs of a queue are cancelled at once.
        """
        engine, why = self._client.engine, names.reason(reason)
        can_end = Feature.CANCEL in engine.features
        if not can_end and state == State.ACTIVE:
            raise unsupported(engine.name, Feature.CANCEL)
        request = _request(queue, state, CANCELLED if can_end else WAITING, options)
        _check_meant(request, state, everything)

        def one(view: JobView) -> Steps[str | None]:
            try:
                return _ANSWERS.get((yield from engine.cancel(view.queue, view.id, why)))
            except UnsupportedFeature:  # a worker has started it
                return None

        def whole(name: str) -> Steps[Mapping[str, int]]:
            count = yield from engine.cancel_all(name, request.selection.lane, why)
            return {"cancelled": count.cancelled, "requested": count.requested}

        is_whole = state is None and request.selection == Selection(lane=request.selection.lane)
        refusal = "it has ended, or has been started"
        change = Change(("cancelled", "requested"), one, whole if is_whole else None, refusal)
        return self._run(request, change, options)

    acancel_matching = asynchronous(cancel_matching)

    @blocking
    def purge_matching(
        self, queue: str | None = None, state: State | str | None = None, **options: Unpack[BulkOptions]
    ) -> Steps[BulkChange]:
        """Remove all jobs in one state that pass the filters, with all their records. See `purge` and `BulkControl`.

            app.control.purge_matching(state="failed", older_than=7 * 86_400).done["removed"]

        `state` is needed. Without a filter, a queue is purged at once: jobs that enter the state during the purge may
        be removed, too.
        """
        if state is None:
            raise invalid("state", f"one of {', '.join(REMOVED)}", "None")
        request = _request(queue, state, REMOVED, options)

        def whole(name: str) -> Steps[Mapping[str, int]]:
            return {"removed": (yield from self._client.engine.purge(name, request.states[0]))}

        change = Change(("removed",), self._discarded, None if request.selection else whole)
        return self._run(request, change, options)

    apurge_matching = asynchronous(purge_matching)

    @blocking
    def discard_matching(
        self,
        queue: str | None = None,
        state: State | str | None = None,
        *,
        everything: bool = False,
        **options: Unpack[BulkOptions],
    ) -> Steps[BulkChange]:
        """Remove all jobs that pass the filters and that no worker holds, one by one. See `discard` and `BulkControl`.

            app.control.discard_matching("images", task="shop.thumbnail", rate=100).done["removed"]

        `everything`: allow a call without queue, state and filter.
        """
        request = _request(queue, state, REMOVED, options)
        _check_meant(request, state, everything)
        return self._run(request, Change(("removed",), self._discarded), options)

    adiscard_matching = asynchronous(discard_matching)

    @blocking
    def note(self, entry: AuditEntry) -> Steps[None]:
        """Log an action, and add it to the audit: see `app.inspect.audit`."""
        return note(self._client.engine, entry)

    anote = asynchronous(note)

    def _discarded(self, view: JobView) -> Steps[str | None]:
        return "removed" if (yield from self._client.engine.discard(view.queue, view.id)) else None

    def _run(self, request: Request, what: Change, options: BulkOptions) -> Steps[BulkChange]:
        now_ms = time.time() * limits.SECOND
        return run_change(self._client.engine, request, what, now_ms, options.get("progress"))


def _request(queue: str | None, state: State | str | None, states: tuple[State, ...], options: BulkOptions) -> Request:
    """Check what the caller asks for. `states`: those in which the change is possible."""
    check_names(options, frozenset(BulkOptions.__annotations__) | Filters.__annotations__.keys())
    if state is not None and state not in states:
        raise invalid("state", f"one of {', '.join(states)}", names.shown(state))
    limit, rate = options.get("limit"), options.get("rate")
    progress: object = options.get("progress")
    if progress is not None and (not callable(progress) or is_async(progress)):
        kind = "an async one" if is_async(progress) else a(type(progress).__name__)
        raise invalid("progress", "a function that is not async", kind)
    return Request(
        states if state is None else (State(state),),
        Selection.of(**{name: options.get(name) for name in Filters.__annotations__}),  # type: ignore[arg-type]
        None if queue is None else names.queue_name(queue),
        None if limit is None else names.count(limit, "limit", least=1, most=CHANGED_MAX),
        names.flag(options.get("dry_run", False), "dry_run"),
        None if rate is None else names.count(rate, "rate", least=1, most=RATE_MAX),
    )


def _check_meant(request: Request, state: State | str | None, everything: bool) -> None:
    """Refuse a call that means all jobs of all queues, perhaps because a variable is None by mistake."""
    names.flag(everything, "everything")
    if not everything and request.queue is None and state is None and not request.selection:
        raise InvalidArgument(
            "All jobs of all queues are meant. Name a queue, a state or a filter, or pass everything=True."
        )
