"""The commands that change jobs: `retry`, `reschedule`, `discard`, `purge`, `cancel`."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from shlex import quote
from typing import Any, Final

import click

from tenure.app.app import Tenure
from tenure.cli.errors import NotDone, note
from tenure.cli.input import edited, given
from tenure.cli.many import Asked, BulkWords, bulk, change
from tenure.cli.output.tables import Answer
from tenure.cli.output.text import jobs_text
from tenure.cli.reach import ANY_JOB, ANY_QUEUE, JOB, job_meant, known_job, queue_of, reaching, without
from tenure.cli.units import Duration
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, NotUnique
from tenure.core.job import WAITING, JobView, State
from tenure.core.shape import CancelAnswer
from tenure.core.values import replace
from tenure.manage.bulk import CHANGED_MAX
from tenure.manage.control import CANCELLED, REMOVED, RETRIED

EDIT_ROUNDS: Final = 10
"""How often the user may edit an invalid payload again."""
_MAX_DELAY_S: Final = limits.MAX_DELAY_MS / limits.SECOND
_NOT_RETRIED: Final = {
    State.READY: "waits for a worker already",
    State.ACTIVE: "is held by a worker; cancel it first, or wait for its end",
    State.COMPLETED: "has completed; enqueue it again",
}


@ANY_QUEUE
@ANY_JOB
@click.option("--payload", metavar="TEXT", help="The job's new payload. `-`: read it from stdin.")
@click.option("edit", "--edit", is_flag=True, help="Edit the payload in $VISUAL or $EDITOR.")
@click.option(
    "--limit", type=click.IntRange(1, CHANGED_MAX), default=CHANGED_MAX, metavar="N", show_default=True,
    help="With --all: at most N jobs; of ended jobs those that ended first.",
)  # fmt: skip
@bulk(*RETRIED)
@reaching()
def retry(
    queue: str | None, job_id: str | None, payload: str | None, edit: bool, limit: int, asked: Asked, app: Tenure
) -> Answer:
    """\b
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
    if job_id is None:
        retried = BulkWords(
            partial(app.control.retry_all, limit=limit),
            "Retry",
            {"retried": "retried"},
        )
        return change(app, replace(asked, queue=queue), retried)
    whole = "tenure retry {} --all --state failed"
    before, document = job_meant(app, queue, job_id, whole, retried=False, payload_changed=False)
    return _retry_one(app, before, payload, edit, document)


def _retry_one(app: Tenure, before: JobView, payload: str | None, edit: bool, document: dict[str, Any]) -> Answer:
    queue, job_id = before.queue, before.id
    is_changed, other = edit or payload is not None, None
    if edit and before.state in _NOT_RETRIED:
        raise NotDone(_not_retried(app, before))
    try:
        if edit:
            done = _edit(app, before)
        else:
            data = None if payload is None else given(payload, app.settings.payload_limit)
            done = app.control.retry(queue, job_id, payload=data)
    except NotUnique as error:
        done, other = False, error.other
    what = " with the new payload" if is_changed else ""
    text = f"Job {job_id!r} of queue {queue!r} waits for a worker{what}; it was {before.state.value}."
    document |= {"retried": done, "payload_changed": done and is_changed}
    unchecked = f"Its arguments were not checked: for that, name the app that has task {before.task}, with --app."
    if done:
        hints = [unchecked] if is_changed and before.task not in (None, *app.tasks) else []
        return Answer(document, text, hints=hints)
    return Answer(document, None, errors=[_not_retried(app, known_job(app, queue, job_id, document), other)])


def _not_retried(app: Tenure, view: JobView, other: str | None = None) -> str:
    """Why a job was not retried. `other`: the job that has the unique key of its new arguments."""
    name = f"Job {view.id!r} of queue {view.queue!r}"
    if view.state in _NOT_RETRIED:
        return f"{name} {_NOT_RETRIED[view.state]}. Nothing was changed."
    if other is not None:
        return f"{name} was not retried: job {other!r} has the unique key of the new arguments."
    key = "its unique key now" if Feature.UNIQUE in app.engine.features else "its id now, and waits or is held"
    return f"{name} was not retried: another job has {key}."


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


def _time(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    try:
        found = None if value is None else datetime.fromisoformat(value)
    except ValueError:
        found = None
    if value is not None and (found is None or found.tzinfo is None):
        raise click.BadParameter(f"{value!r} is not a time with a zone, as in 2026-03-01T09:00:00+01:00.")
    return found


@ANY_QUEUE
@ANY_JOB
@click.option(
    "--delay",
    type=Duration(0, _MAX_DELAY_S),
    metavar="DURATION",
    help="How long it waits from now on: seconds, or 90s, 15m, 2h, 7d. 0: now.",
)
@click.option("--run-after", metavar="TIME", callback=_time, help="When it may run, as in 2026-03-01T09:00:00+01:00.")
@click.option(
    "--priority", type=click.IntRange(limits.MIN_PRIORITY, limits.MAX_PRIORITY), metavar="N",
    help=f"{limits.MIN_PRIORITY} to {limits.MAX_PRIORITY}; higher priorities run first.",
)  # fmt: skip
@reaching()
def reschedule(queue: str | None, job_id: str | None, app: Tenure, **changes: Any) -> Answer:
    """\b
    tenure reschedule JOB_ID --delay 0
    tenure reschedule QUEUE JOB_ID --run-after 2026-03-01T09:00:00+01:00
    tenure reschedule QUEUE JOB_ID --priority 10

    For jobs that are ready, scheduled or unroutable. The job keeps its attempts, its lane and its unique key. `tenure
    retry` runs a job that has ended.
    """
    if job_id is None:
        queue, job_id = None, queue
    if job_id is None:
        raise click.UsageError("Expected JOB_ID.")
    if all(value is None for value in changes.values()):
        raise click.UsageError("Expected --delay, --run-after or --priority.")
    if changes["delay"] is not None and changes["run_after"] is not None:
        raise click.UsageError("Expected one of --delay and --run-after.")
    before, document = job_meant(app, queue, job_id, "tenure jobs {}", rescheduled=False)
    document["rescheduled"] = app.control.reschedule(before.queue, job_id, **changes)
    after = known_job(app, before.queue, job_id, document)
    name = f"Job {job_id!r} of queue {before.queue!r}"
    place = "for a worker" if after.due_at is None else f"until {after.due_at:%Y-%m-%d %H:%M:%S} UTC"
    if document["rescheduled"]:
        return Answer(document, f"{name} waits {place}, with priority {after.shape.priority}.")
    if after.state is State.ACTIVE:
        why = "is held by a worker; cancel it, or wait for its end"
    elif after.state.ended:
        why = f"has ended already: {after.state.value}"
    else:
        why = "waits for the end of another job, or jobs of its queue are just being cancelled"
    return Answer(document, None, errors=[f"{name} was not rescheduled: it {why}."])


@JOB
@reaching()
def discard(queue: str, job_id: str | None, app: Tenure) -> Answer:
    """Its payload, error and result are deleted for good. A lane that it blocks continues. To keep a record, use
    `tenure cancel` instead."""
    named, id = (queue, job_id) if job_id is not None else (None, queue)
    before, document = job_meant(app, named, id, "tenure purge {} --state failed", discarded=False)
    name = f"Job {id!r} of queue {before.queue!r}"
    document["discarded"] = app.control.discard(before.queue, id)
    if document["discarded"]:
        return Answer(document, f"{name} is discarded; it was {before.state.value}.")
    is_held = known_job(app, before.queue, id, document).state is State.ACTIVE
    what = "is held by a worker; cancel it, or wait" if is_held else "still exists"
    return Answer(document, None, errors=[f"{name} was not discarded: it {what}."])


@ANY_QUEUE
@bulk(*REMOVED)
@reaching()
def purge(queue: str | None, asked: Asked, app: Tenure) -> Answer:
    """\b
    tenure purge QUEUE --state completed
    tenure purge QUEUE --state failed --yes
    tenure purge QUEUE --state failed --task shop.send --older-than 2d
    tenure purge --all --state failed --error ConnectionError --dry-run

    Payloads, errors and results are deleted for good. Jobs that enter the state during the purge may be removed, too,
    unless there is a selection (--lane, --task, --error, --older-than, --newer-than), which looks through 10,000 jobs
    of each queue. Active jobs cannot be purged: `tenure cancel QUEUE --all` asks their workers to end them.
    """
    if queue is None and not asked.everything:
        raise click.UsageError("Expected QUEUE, or --all for all queues.")
    if asked.state is None:
        raise click.UsageError(f"Expected --state. Choose from: {', '.join(REMOVED)}.")
    removed = BulkWords(
        app.control.purge_matching,
        "Remove",
        {"removed": "removed"},
        then=" for good",
        may_be_none=True,
    )
    return change(app, replace(asked, queue=queue), removed)


@ANY_QUEUE
@ANY_JOB
@bulk(*CANCELLED)
@click.option("--reason", metavar="TEXT", default="", help="Why; stored with the jobs, and passed to their handlers.")
@reaching()
def cancel(queue: str | None, job_id: str | None, asked: Asked, reason: str, app: Tenure) -> Answer:
    """\b
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
    """
    lane = asked.selection.lane
    if queue is not None and job_id is None and lane is not None and not asked.everything:
        asked = replace(asked, everything=True, yes=True)
    if job_id is None and not asked.everything:
        queue, job_id = None, queue
    if asked.everything == (job_id is not None):
        raise click.UsageError("Expected one of JOB_ID, QUEUE --lane NAME and --all.")
    if job_id is None:
        return _cancel_many(app, replace(asked, queue=queue), reason)
    if asked.selection or asked.state or asked.dry_run:
        raise click.UsageError(
            "--state, --lane, --task, --error, --older-than, --newer-than and --dry-run go with --all."
        )
    document = {"queue": queue, "job": job_id, "answer": CancelAnswer.NOTHING.value}
    if queue is None:
        queue = document["queue"] = queue_of(app, job_id, "tenure cancel {} --all", document)
    found = app.control.cancel(queue, job_id, reason)
    name = f"Job {job_id!r} of queue {queue!r}"
    if found is CancelAnswer.NOTHING:
        ended = known_job(app, queue, job_id, document).state.value
        return Answer(document, None, errors=[f"{name} has ended already: {ended}."])
    follow = f"tenure job {quote(queue)} {quote(job_id)} --watch"
    asks = f"{name} runs: its worker is asked to end it. To follow: {follow}"
    return Answer(
        document | {"answer": found.value}, f"{name}: cancelled." if found is CancelAnswer.CANCELLED else asks
    )


def _cancel_many(app: Tenure, asked: Asked, reason: str) -> Answer:
    def remark(held: int) -> str:
        left = f"Held by workers and not cancelled: {jobs_text(held)}."
        return f"{left} {app.engine.name} cannot cancel running jobs." if held else ""

    cancelled = BulkWords(
        partial(app.control.cancel_matching, reason=reason, everything=True),
        "Cancel",
        {"cancelled": "cancelled", "requested": "running, asked to end"},
    )
    if without(app, Feature.CANCEL):
        asked, cancelled = replace(asked, states=WAITING), replace(cancelled, remark=remark)
    return change(app, asked, cancelled)
