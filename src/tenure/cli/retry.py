"""The `retry` command: one job, optionally with another payload, or all jobs of a queue in one state."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import NotDone, note
from tenure.cli.input import edited, given
from tenure.cli.many import Action, Asked, bulk, change
from tenure.cli.output.tables import answer
from tenure.cli.reach import known_job, queue_of, reaching
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, NotUnique
from tenure.core.job import JobView, State
from tenure.manage.bulk import CHANGED_MAX
from tenure.manage.control import RETRIED

EDIT_ROUNDS: Final = 10
"""How often the user may edit an invalid payload again."""

_OTHERS: Final = {
    State.READY: "waits for a worker already",
    State.ACTIVE: "is held by a worker; cancel it first, or wait for its end",
    State.COMPLETED: "has completed; enqueue it anew",
}


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@click.argument("job_id", required=False)
@click.option("--payload", metavar="TEXT", help="The job's new payload. `-`: read it from stdin.")
@click.option("edit", "--edit", is_flag=True, help="Edit the payload in $VISUAL or $EDITOR.")
@click.option(
    "--limit", type=click.IntRange(1, CHANGED_MAX), default=CHANGED_MAX, metavar="N", show_default=True,
    help="With --all: at most N jobs; of ended jobs those that ended first.",
)  # fmt: skip
@bulk(*RETRIED)
@reaching()
def retry(
    queue: str | None,
    job_id: str | None,
    payload: str | None,
    edit: bool,
    limit: int,
    asked: Asked,
    app: Tenure,
    as_json: bool,
) -> None:
    """Retry a job now, with its attempt counters reset; optionally with another payload.

    \b
    tenure retry JOB_ID
    tenure retry QUEUE JOB_ID --edit --app shop:app
    tenure retry QUEUE JOB_ID --payload '[["dog.png"], {"size": 64}]'
    tenure retry QUEUE --all --state failed
    tenure retry --all --state failed --error ConnectionError --dry-run

    Without QUEUE it is searched for, and --all means all queues. A selection (--lane, --task, --error, --older-than,
    --newer-than) looks through 10,000 jobs of each queue.

    For jobs that are failed, broken, cancelled, scheduled or unroutable. The payload of a task's job is JSON,
    [[positional...], {named...}], as `tenure job --payload` shows it; with --app the task's signature and type
    hints check it.

    Exit status: 0 done; 1 there was nothing to retry, some jobs could not be retried, or Redis could not be reached; 2
    the command line, the payload or a setting is wrong.
    """
    if job_id is None and not asked.everything:
        queue, job_id = None, queue
    if asked.everything == (job_id is not None):
        raise click.UsageError("Expected one of JOB_ID and --all.")
    if not asked.everything and (asked.selection or asked.dry_run):
        raise click.UsageError("--lane, --task, --error, --older-than, --newer-than and --dry-run go with --all.")
    if asked.everything != (asked.state is not None):
        raise click.UsageError("--all and --state go together, as in `tenure retry QUEUE --all --state failed`.")
    if payload is not None and edit:
        raise click.UsageError("--payload and --edit do not go together; expected one of them.")
    if asked.everything and (payload is not None or edit):
        raise click.UsageError("A new payload goes with JOB_ID, not with --all.")
    if asked.everything:
        retried = Action(
            partial(app.control.retry_all, limit=limit),
            "Retry",
            {"retried": "retried"},
            why_not=f"no longer {asked.state}, or another job has the unique key, or the id, now",
        )
        change(app, replace(asked, queue=queue), retried, as_json)
    elif job_id is not None:
        if queue is None:
            nothing = {"queue": None, "job": job_id, "retried": False, "payload_changed": False}
            queue = queue_of(app, job_id, nothing if as_json else None, whole="tenure retry {} --all --state failed")
        _retry_one(app, queue, job_id, payload, edit, as_json)


def _retry_one(app: Tenure, queue: str, job_id: str, payload: str | None, edit: bool, as_json: bool) -> None:
    document = {"queue": queue, "job": job_id, "retried": False, "payload_changed": False}
    before = known_job(app, queue, job_id, document if as_json else None)
    is_changed = edit or payload is not None
    key = "its unique key now" if Feature.UNIQUE in app.engine.features else "its id now, and waits or is held"
    why = f"another job has {key}"
    try:
        if edit:
            _check_state(before)
            done = _edit(app, before)
        else:
            data = None if payload is None else given(payload, app.settings.payload_limit)
            done = app.control.retry(queue, job_id, payload=data)
    except NotUnique as error:
        done, why = False, f"job {error.other!r} has the unique key of the new arguments"
    what = " with the new payload" if is_changed else ""
    text = f"Job {job_id!r} of queue {queue!r} waits for a worker{what}; it was {before.state.value}."
    answer(as_json, {**document, "retried": done, "payload_changed": done and is_changed}, text if done else None)
    if not done:
        _check_state(known_job(app, queue, job_id))
        raise NotDone(f"Job {job_id!r} of queue {queue!r} was not retried: {why}.")


def _edit(app: Tenure, view: JobView) -> bool:
    """Let the user edit the payload until it is valid, or until they give up."""
    data, why = view.payload or b"", ""
    for _ in range(EDIT_ROUNDS):
        try:
            data = edited(data, is_json=view.task is not None, why=why)
            return app.control.retry(view.queue, view.id, payload=data)
        except InvalidArgument as error:
            why = str(error)
            note(why)
            if not click.confirm("Edit it again?", default=True, err=True):
                break
    raise NotDone("The payload was not right; nothing was changed.")


def _check_state(view: JobView) -> None:
    """Refuse a job in a state without retries: raise `NotDone`."""
    if view.state in _OTHERS:
        raise NotDone(f"Job {view.id!r} of queue {view.queue!r} {_OTHERS[view.state]}. Nothing was changed.")
