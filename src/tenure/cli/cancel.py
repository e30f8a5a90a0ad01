"""The `cancel` command: a job, the jobs of a lane, or all jobs of a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from shlex import quote
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import NotDone
from tenure.cli.many import Change, Request, bulk, change
from tenure.cli.output.tables import answer
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import known_job, queue_of, reaching, without
from tenure.core.engine import Feature
from tenure.core.errors import UnsupportedFeature
from tenure.core.job import JobView, State
from tenure.core.shape import CancelAnswer
from tenure.core.unsupported import unsupported
from tenure.manage.search import Selection

_WAITING: Final = (State.READY, State.SCHEDULED, State.UNROUTABLE)
_CANCELLED: Final = (*_WAITING, State.ACTIVE)
_COUNTED: Final = {CancelAnswer.CANCELLED: "cancelled", CancelAnswer.REQUESTED: "requested"}


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@click.argument("job_id", required=False)
@bulk(*_CANCELLED)
@click.option("--reason", metavar="TEXT", default="", help="Why; stored with the jobs, and passed to their handlers.")
@reaching()
def cancel(queue: str | None, job_id: str | None, request: Request, reason: str, app: Tenure, as_json: bool) -> None:
    """Cancel a job, the jobs of a lane, or all jobs of a queue or of all queues.

    \b
    tenure cancel JOB_ID
    tenure cancel QUEUE JOB_ID
    tenure cancel QUEUE --lane NAME
    tenure cancel QUEUE --all
    tenure cancel --all --task shop.send --state scheduled --dry-run

    A waiting job ends in `cancelled` at once. The worker of a running job is asked to end it: it cancels an async
    handler, kills a job process that does not end within 5 seconds, and any other handler has to call
    `check_cancelled()`. `tenure job QUEUE JOB_ID --watch` shows the
    outcome. `QUEUE --lane NAME` does not ask for confirmation. --state, --task, --error, --older-than and --newer-than
    look through 10,000 jobs of each state and queue, and cancel them one by one while workers continue.

    Exit status: 0 jobs were cancelled or asked to end; 1 there was nothing to cancel, some jobs had ended before, or
    Redis could not be reached; 2 the command line or a setting is wrong.
    """
    lane = request.selection.lane
    if queue is not None and job_id is None and lane is not None and not request.everything:
        request = replace(request, everything=True, yes=True)
    if job_id is None and not request.everything:
        queue, job_id = None, queue
    if request.everything == (job_id is not None):
        raise click.UsageError("Expected one of JOB_ID, QUEUE --lane NAME and --all.")
    if job_id is None:
        _cancel_many(app, replace(request, queue=queue), reason, as_json)
    elif request.selection or request.state or request.dry_run:
        raise click.UsageError(
            "--state, --lane, --task, --error, --older-than, --newer-than and --dry-run go with --all."
        )
    else:
        if queue is None:
            nothing = {"queue": None, "job": job_id, "answer": "nothing"}
            queue = queue_of(app, job_id, nothing if as_json else None, whole="tenure cancel {} --all")
        _cancel_job(app, queue, job_id, reason, as_json)


def _cancel_job(app: Tenure, queue: str, job_id: str, reason: str, as_json: bool) -> None:
    found = app.control.cancel(queue, job_id, reason)
    name = f"Job {job_id!r} of queue {queue!r}"
    follow = f"tenure job {quote(queue)} {quote(job_id)} --watch"
    texts = {
        CancelAnswer.CANCELLED: f"{name}: cancelled.",
        CancelAnswer.REQUESTED: f"{name} runs: its worker is asked to end it. To follow: {follow}",
    }
    answer(as_json, {"queue": queue, "job": job_id, "answer": found.value}, texts.get(found))
    if found is CancelAnswer.NOTHING:
        raise NotDone(f"{name} has ended already: {known_job(app, queue, job_id).state.value}.")


def _cancel_many(app: Tenure, request: Request, reason: str, as_json: bool) -> None:
    cannot_end = without(app, Feature.CANCEL)
    if cannot_end and request.state is State.ACTIVE:
        raise unsupported(app.engine.name, Feature.CANCEL)
    lane = request.selection.lane

    def one(view: JobView) -> str | None:
        try:
            return _COUNTED.get(app.control.cancel(view.queue, view.id, reason))
        except UnsupportedFeature:  # a worker has started it meanwhile
            return None

    def whole(queue: str) -> Mapping[str, int]:
        control = app.control
        count = control.cancel_all(queue, reason) if lane is None else control.cancel_lane(queue, lane, reason)
        return {"cancelled": count.cancelled, "requested": count.requested}

    def remark(held: int) -> str:
        left = f"Held by workers and not cancelled: {jobs_text(held)}."
        return f"{left} {app.engine.name} cannot cancel running jobs." if held else ""

    is_whole = request.state is None and request.selection == Selection(lane=lane)
    cancelled = Change(
        "Cancel",
        {"cancelled": "cancelled", "requested": "running, asked to end"},
        one,
        whole if is_whole else None,
        why_not="they have ended, or have been started",
    )
    if cannot_end:
        request, cancelled = replace(request, states=_WAITING), replace(cancelled, remark=remark)
    change(app, request, cancelled, as_json)
