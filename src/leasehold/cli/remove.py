"""The commands `discard` and `purge`: remove jobs and their records."""

from __future__ import annotations

from typing import Final

import click

from leasehold.cli.choices import OneOf
from leasehold.cli.completion import queue_names
from leasehold.cli.confirmation import jobs_text, sure
from leasehold.cli.errors import NotDone, safe
from leasehold.cli.job import known_job
from leasehold.cli.output.jobs import dump
from leasehold.cli.reach import Where, note_unknown, reach, reaching
from leasehold.core.job import State

_PURGED: Final = tuple(state for state in State if state is not State.ACTIVE)


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.argument("job_id")
@reaching
def discard(queue: str, job_id: str, where: Where, as_json: bool) -> None:
    """Remove a job that no worker holds, with all its records.

    Its payload, error and result are deleted for good. A lane that it blocks continues. To keep a record, use
    `leasehold cancel` instead.

    Exit status: 0 the job is gone; 1 there is no such job, a worker holds it, or Redis could not be reached; 2 the
    command line or a setting is wrong.
    """
    with reach(where) as app:
        nothing = {"queue": queue, "job": job_id, "discarded": False} if as_json else None
        before = known_job(app, queue, job_id, nothing)
        done = app.control.discard(queue, job_id)
        if as_json:
            click.echo(dump({"queue": queue, "job": job_id, "discarded": done}))
        if not done:
            view = known_job(app, queue, job_id)
            what = "is held by a worker; cancel it, or wait" if view.state is State.ACTIVE else "still exists"
            raise NotDone(f"Job {job_id!r} of queue {queue!r} was not discarded: it {what}.")
    if not as_json:
        click.echo(safe(f"Job {job_id!r} of queue {queue!r} is discarded; it was {before.state.value}."))


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--state", required=True, type=OneOf([state.value for state in _PURGED]), help="The state of the jobs.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@reaching
def purge(queue: str, state: str, yes: bool, where: Where, as_json: bool) -> None:
    """Remove all jobs of a queue in one state.

    \b
    leasehold purge QUEUE --state completed
    leasehold purge QUEUE --state failed --yes

    Payloads, errors and results are deleted for good. Jobs that enter the state meanwhile may be removed, too. Active
    jobs cannot be purged: `leasehold cancel QUEUE --all` asks their workers to end them.

    Exit status: 0 done, also if there was none; 1 not confirmed, or Redis could not be reached; 2 the command line
    or a setting is wrong.
    """
    with reach(where) as app:
        count = app.inspect.page(queue, state, 0, 1).total
        why = f"It removes every {state} job of the queue, {count:,} at present, for good"
        question = f"Remove {count:,} {state} {'job' if count == 1 else 'jobs'} of queue {queue!r} for good?"
        sure(question if count else "", yes=yes, why=why, undone="Nothing was removed.")
        removed = app.control.purge(queue, state) if count else 0
        if as_json:
            click.echo(dump({"queue": queue, "state": state, "removed": removed}))
        else:
            click.echo(safe(f"Queue {queue!r}: {jobs_text(removed)} removed from {state}."))
        note_unknown(app, queue)
