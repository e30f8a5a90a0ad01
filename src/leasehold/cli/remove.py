"""The commands `discard` and `purge`: remove jobs and their records."""

from __future__ import annotations

from typing import Final

import click

from leasehold.app.app import Leasehold
from leasehold.cli.completion import queue_names
from leasehold.cli.errors import NotDone, note
from leasehold.cli.input import sure
from leasehold.cli.output.tables import answer
from leasehold.cli.output.text import jobs_text
from leasehold.cli.reach import known_job, note_unknown, queue_of, reaching
from leasehold.cli.selection import LOOK_NOTE, Selection, selected, selecting
from leasehold.core.job import State

_PURGED: Final = tuple(state for state in State if state is not State.ACTIVE)


@click.command()
@click.argument("queue", shell_complete=queue_names, metavar="[QUEUE]")
@click.argument("job_id", required=False, metavar="JOB_ID")
@reaching()
def discard(queue: str, job_id: str | None, app: Leasehold, as_json: bool) -> None:
    """Remove a job that no worker holds, with all its records.

    Its payload, error and result are deleted for good. A lane that it blocks continues. To keep a record, use
    `leasehold cancel` instead.

    Exit status: 0 the job is gone; 1 there is no such job, a worker holds it, or Redis could not be reached; 2 the
    command line or a setting is wrong.
    """
    if job_id is None:
        job_id = queue
        queue = queue_of(app, job_id, {"queue": None, "job": job_id, "discarded": False} if as_json else None)
    nothing = {"queue": queue, "job": job_id, "discarded": False} if as_json else None
    before = known_job(app, queue, job_id, nothing)
    done = app.control.discard(queue, job_id)
    text = f"Job {job_id!r} of queue {queue!r} is discarded; it was {before.state.value}."
    answer(as_json, {"queue": queue, "job": job_id, "discarded": done}, text if done else None)
    if not done:
        is_held = known_job(app, queue, job_id).state is State.ACTIVE
        what = "is held by a worker; cancel it, or wait" if is_held else "still exists"
        raise NotDone(f"Job {job_id!r} of queue {queue!r} was not discarded: it {what}.")


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option(
    "--state", required=True, type=click.Choice([state.value for state in _PURGED]), help="The state of the jobs."
)
@selecting
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@reaching()
def purge(queue: str, state: str, selection: Selection, yes: bool, app: Leasehold, as_json: bool) -> None:
    """Remove all jobs of a queue in one state.

    \b
    leasehold purge QUEUE --state completed
    leasehold purge QUEUE --state failed --yes
    leasehold purge QUEUE --state failed --task shop.send --older-than 2d

    Payloads, errors and results are deleted for good. Jobs that enter the state meanwhile may be removed, too. Active
    jobs cannot be purged: `leasehold cancel QUEUE --all` asks their workers to end them.

    Exit status: 0 done, also if there was none; 1 not confirmed, or Redis could not be reached; 2 the command line
    or a setting is wrong.
    """
    if selection:
        return _purge_selected(app, queue, State(state), selection, yes, as_json)
    count = app.inspect.page(queue, state, 0, 1).total
    why = f"It removes every {state} job of the queue, {count:,} at present, for good"
    question = f"Remove {count:,} {state} {'job' if count == 1 else 'jobs'} of queue {queue!r} for good?"
    sure(question if count else "", yes=yes, why=why, undone="Nothing was removed.")
    removed = app.control.purge(queue, state) if count else 0
    text = f"Queue {queue!r}: {jobs_text(removed)} removed from {state}."
    answer(as_json, {"queue": queue, "state": state, "removed": removed}, text)
    note_unknown(app, queue)


def _purge_selected(app: Leasehold, queue: str, state: State, selection: Selection, yes: bool, as_json: bool) -> None:
    views, is_whole = selected(app, queue, state, selection)
    what = f"{jobs_text(len(views))} in {state.value} of queue {queue!r}"
    why = f"It removes every selected job, {what} at present, for good"
    sure(f"Remove {what} for good?" if views else "", yes=yes, why=why, undone="Nothing was removed.")
    removed = sum(app.control.discard(queue, view.id) for view in views)
    text = f"Queue {queue!r}: {jobs_text(removed)} removed from {state.value}."
    answer(as_json, {"queue": queue, "state": state.value, "removed": removed}, text)
    if not is_whole:
        note(LOOK_NOTE)
    note_unknown(app, queue)
