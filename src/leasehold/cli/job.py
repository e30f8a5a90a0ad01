"""The `job` command: one job with all its facts, once or until it has ended."""

from __future__ import annotations

import time
from typing import Any

import click

from leasehold.app.app import Leasehold
from leasehold.cli.completion import queue_names
from leasehold.cli.errors import Exit, UserError
from leasehold.cli.output import jobs
from leasehold.cli.reach import Where, note_unknown, reach, reaching, without
from leasehold.cli.watch import watch
from leasehold.core import limits
from leasehold.core.engine import Feature
from leasehold.core.errors import JobNotFound
from leasehold.core.job import JobView


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.argument("job_id")
@click.option("watched", "--watch", is_flag=True, help="Follow the job until it has ended.")
@click.option("--payload", is_flag=True, help="Show the payload and the result, too.")
@reaching
@click.pass_context
def job(
    context: click.Context,
    queue: str,
    job_id: str,
    watched: bool,
    payload: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Show one job: its progress, times, error.

    \b
    leasehold job QUEUE JOB_ID             as it is now, in any state
    leasehold job QUEUE JOB_ID --payload   with its payload and its result
    leasehold job QUEUE JOB_ID --watch     until it has ended

    Nothing is changed. Payloads and results are shown only when asked for, and of long ones the beginning; --json has
    them whole. In a pipe, --watch writes a line for each change.

    Exit status: 0 done; 1 there is no such job, the job that was watched did not complete, or Redis could not be
    reached; 2 the command line or a setting is wrong.
    """
    with reach(where) as app:
        if watched:
            if without(app, Feature.RESULTS):
                raise UserError(
                    f"--watch: the protocol {app.engine.name!r} keeps no record of a job that completed, and tells "
                    "nobody. Leave out --watch: as long as the job is there, it is shown."
                )
            context.exit(watch(app, queue, job_id, content=payload, as_json=as_json))
        view = known_job(app, queue, job_id, {"queue": queue, "id": job_id, "state": None} if as_json else None)
        if as_json:
            click.echo(jobs.dump(jobs.to_json(view, content=payload)))
        else:
            click.echo(jobs.describe(view, time.time() * limits.SECOND, content=payload))
    context.exit(Exit.OK)


def known_job(app: Leasehold, queue: str, job_id: str, document: dict[str, Any] | None = None) -> JobView:
    """Return an existing job. Raises `JobNotFound`, after a note if the queue is unknown.

    `document`: what is printed as JSON then.
    """
    view = app.inspect.job(queue, job_id)
    if view is None:
        if document is not None:
            click.echo(jobs.dump(document))
        note_unknown(app, queue)
        raise JobNotFound(f"There is no job {job_id!r} in queue {queue!r}, or its record is no longer kept.")
    return view
