"""The commands `discard` and `purge`: remove jobs and their records."""

from __future__ import annotations

from dataclasses import replace

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import NotDone
from tenure.cli.many import Action, Asked, bulk, change
from tenure.cli.output.tables import answer
from tenure.cli.reach import known_job, queue_of, reaching
from tenure.core.job import State
from tenure.manage.control import REMOVED


@click.command()
@click.argument("queue", shell_complete=queue_names, metavar="[QUEUE]")
@click.argument("job_id", required=False, metavar="JOB_ID")
@reaching()
def discard(queue: str, job_id: str | None, app: Tenure, as_json: bool) -> None:
    """Remove a job that no worker holds, with all its records.

    Its payload, error and result are deleted for good. A lane that it blocks continues. To keep a record, use
    `tenure cancel` instead.

    Exit status: 0 the job is gone; 1 there is no such job, a worker holds it, or Redis could not be reached; 2 the
    command line or a setting is wrong.
    """
    if job_id is None:
        job_id = queue
        nothing = {"queue": None, "job": job_id, "discarded": False}
        queue = queue_of(app, job_id, nothing if as_json else None, whole="tenure purge {} --state failed")
    nothing = {"queue": queue, "job": job_id, "discarded": False}
    before = known_job(app, queue, job_id, nothing if as_json else None)
    done = app.control.discard(queue, job_id)
    text = f"Job {job_id!r} of queue {queue!r} is discarded; it was {before.state.value}."
    answer(as_json, {**nothing, "discarded": done}, text if done else None)
    if not done:
        is_held = known_job(app, queue, job_id).state is State.ACTIVE
        what = "is held by a worker; cancel it, or wait" if is_held else "still exists"
        raise NotDone(f"Job {job_id!r} of queue {queue!r} was not discarded: it {what}.")


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@bulk(*REMOVED)
@reaching()
def purge(queue: str | None, asked: Asked, app: Tenure, as_json: bool) -> None:
    """Remove all jobs in one state, of a queue or of all queues.

    \b
    tenure purge QUEUE --state completed
    tenure purge QUEUE --state failed --yes
    tenure purge QUEUE --state failed --task shop.send --older-than 2d
    tenure purge --all --state failed --error ConnectionError --dry-run

    Payloads, errors and results are deleted for good. Jobs that enter the state meanwhile may be removed, too, unless
    there is a selection (--lane, --task, --error, --older-than, --newer-than), which looks through 10,000 jobs of each
    queue. Active jobs cannot be purged: `tenure cancel QUEUE --all` asks their workers to end them.

    Exit status: 0 done, also if there was none; 1 not confirmed, some jobs could not be removed, or Redis could not be
    reached; 2 the command line or a setting is wrong.
    """
    if queue is None and not asked.everything:
        raise click.UsageError("Expected QUEUE, or --all for all queues.")
    if asked.state is None:
        raise click.UsageError(f"Expected --state. Choose from: {', '.join(REMOVED)}.")
    removed = Action(
        app.control.purge_matching,
        "Remove",
        {"removed": "removed"},
        then=" for good",
        why_not=f"no longer {asked.state}",
        may_be_none=True,
    )
    change(app, replace(asked, queue=queue), removed, as_json)
