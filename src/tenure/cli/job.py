"""The `job` command: one job with all its facts, once or until it has ended."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import Exit, UserError, note
from tenure.cli.output import jobs
from tenure.cli.output.text import dump
from tenure.cli.reach import known_job, queue_of, reaching, without
from tenure.cli.watch import watch
from tenure.client.connections import Connections
from tenure.client.reasons import AWAITING_PAGE, awaiting_beside, reason
from tenure.core import limits
from tenure.core.engine import Feature


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
    parts = jobs.Parts(content=payload, headers=headers)
    if watched:
        if without(app, Feature.RESULTS):
            raise UserError(
                f"--watch: the protocol {app.engine.name!r} keeps no record of a job that completed, so its end cannot "
                "be seen. Without --watch, the command shows the job as long as it is there."
            )
        return watch(app, queue, job_id, parts=parts, as_json=as_json)
    view = known_job(app, queue, job_id, {"queue": queue, "id": job_id, "state": None} if as_json else None)
    now_ms = time.time() * limits.SECOND
    with closing(Connections(app.settings)) as connections:
        view = replace(view, waits=connections.run(reason(app.engine, view, now_ms)))
        awaiting = 0 if as_json else connections.run(awaiting_beside(app.engine, view))
    if as_json:
        click.echo(dump(jobs.to_json(view, parts)))
    else:
        click.echo(jobs.describe(view, now_ms, parts))
        if awaiting:
            note(
                f"Worker {view.worker} has announced awaiting={awaiting}: jobs that wait for the result of another job."
                f" This may be one of them. See {AWAITING_PAGE}."
            )
    return Exit.OK
