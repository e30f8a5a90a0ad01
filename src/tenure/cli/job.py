"""The `job` command: one job with all its facts, once or until it has ended."""

from __future__ import annotations

import time

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import Exit, UserError, note
from tenure.cli.output import jobs
from tenure.cli.reach import known_job, queue_of, reaching, without
from tenure.cli.watch import watch
from tenure.client.reasons import AWAITING_PAGE
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.manage.documents import Parts, encoded, job_document


@click.command()
@click.argument("queue", shell_complete=queue_names, metavar="[QUEUE]")
@click.argument("job_id", required=False, metavar="JOB_ID")
@click.option("watched", "--watch", is_flag=True, help="Follow the job until it has ended.")
@click.option("--payload", is_flag=True, help="Show the payload and the result, too.")
@click.option("--headers", is_flag=True, help="Show the headers, too.")
@reaching()
def job(
    queue: str, job_id: str | None, watched: bool, payload: bool, headers: bool, app: Tenure, as_json: bool
) -> Exit:
    """Show one job: its progress, times, error.

    \b
    tenure job JOB_ID             as it is now, in any state and any queue
    tenure job QUEUE JOB_ID       the same, if you know its queue
    tenure job JOB_ID --payload   with its payload and its result
    tenure job JOB_ID --headers   with its headers
    tenure job JOB_ID --watch     until it has ended

    Nothing is changed. Payloads, results and headers are shown only when asked for, and of long payloads and results
    the beginning; --json has them whole. A job that completed has no payload and no headers. In a pipe, --watch writes
    a line for each change.

    Exit status: 0 done; 1 there is no such job, the job that was watched did not complete, or Redis could not be
    reached; 2 the command line or a setting is wrong.
    """
    if job_id is None:
        job_id = queue
        nothing = {"queue": None, "id": job_id, "state": None}
        queue = queue_of(app, job_id, nothing if as_json else None, whole="tenure jobs {}")
    parts = Parts(content=payload, headers=headers)
    if watched:
        if without(app, Feature.RESULTS):
            raise UserError(
                f"--watch: the protocol {app.engine.name!r} keeps no record of a job that completed, so its end cannot "
                "be seen. Without --watch, the command shows the job as long as it is there."
            )
        return watch(app, queue, job_id, parts=parts, as_json=as_json)
    view, awaiting = app.inspect.explained(queue, job_id)
    if view is None:
        view = known_job(app, queue, job_id, {"queue": queue, "id": job_id, "state": None} if as_json else None)
    if as_json:
        click.echo(encoded(job_document(view, parts)))
        return Exit.OK
    click.echo(jobs.describe(view, time.time() * limits.SECOND, parts))
    if awaiting:
        note(
            f"Worker {view.worker} has announced awaiting={awaiting}: jobs that wait for the result of another job. "
            f"This may be one of them. See {AWAITING_PAGE}."
        )
    return Exit.OK
