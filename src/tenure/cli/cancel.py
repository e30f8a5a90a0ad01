"""The `cancel` command: a job, the jobs of a lane, or all jobs of a queue."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from shlex import quote

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import NotDone
from tenure.cli.many import Action, Asked, bulk, change
from tenure.cli.output.tables import answer
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import known_job, queue_of, reaching, without
from tenure.core.engine import Feature
from tenure.core.shape import CancelAnswer
from tenure.manage.control import CANCELLED, WAITING


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@click.argument("job_id", required=False)
@bulk(*CANCELLED)
@click.option("--reason", metavar="TEXT", default="", help="Why; stored with the jobs, and passed to their handlers.")
@reaching()
def cancel(queue: str | None, job_id: str | None, asked: Asked, reason: str, app: Tenure, as_json: bool) -> None:
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
    lane = asked.selection.lane
    if queue is not None and job_id is None and lane is not None and not asked.everything:
        asked = replace(asked, everything=True, yes=True)
    if job_id is None and not asked.everything:
        queue, job_id = None, queue
    if asked.everything == (job_id is not None):
        raise click.UsageError("Expected one of JOB_ID, QUEUE --lane NAME and --all.")
    if job_id is None:
        _cancel_many(app, replace(asked, queue=queue), reason, as_json)
    elif asked.selection or asked.state or asked.dry_run:
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


def _cancel_many(app: Tenure, asked: Asked, reason: str, as_json: bool) -> None:
    def remark(held: int) -> str:
        left = f"Held by workers and not cancelled: {jobs_text(held)}."
        return f"{left} {app.engine.name} cannot cancel running jobs." if held else ""

    cancelled = Action(
        partial(app.control.cancel_matching, reason=reason, everything=True),
        "Cancel",
        {"cancelled": "cancelled", "requested": "running, asked to end"},
        why_not="they have ended, or have been started",
    )
    if without(app, Feature.CANCEL):
        asked, cancelled = replace(asked, states=WAITING), replace(cancelled, remark=remark)
    change(app, asked, cancelled, as_json)
