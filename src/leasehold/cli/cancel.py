"""The `cancel` command: a job, the jobs of a lane, or all jobs of a queue."""

from __future__ import annotations

import shlex
from typing import Final

import click

from leasehold.app.app import Leasehold
from leasehold.cli.completion import queue_names
from leasehold.cli.confirmation import jobs_text, sure
from leasehold.cli.errors import NotDone, note, safe
from leasehold.cli.output.jobs import dump
from leasehold.cli.reach import Where, note_unknown, reach, reaching, without
from leasehold.core.engine import Feature
from leasehold.core.job import State
from leasehold.core.shape import CancelAnswer, CancelCount

_WAITING: Final = (State.READY, State.SCHEDULED, State.UNROUTABLE)


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.argument("job_id", required=False)
@click.option("--lane", metavar="NAME", help="Cancel all jobs of this lane that have not ended.")
@click.option("everything", "--all", is_flag=True, help="Cancel all jobs of the queue that have not ended.")
@click.option("--reason", metavar="TEXT", default="", help="Why; stored with the jobs, and passed to their handlers.")
@click.option("--yes", is_flag=True, help="With --all: do not ask for confirmation.")
@reaching
@click.pass_context
def cancel(
    context: click.Context,
    queue: str,
    job_id: str | None,
    lane: str | None,
    everything: bool,
    reason: str,
    yes: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Cancel a job, the jobs of a lane, or all jobs of a queue.

    \b
    leasehold cancel QUEUE JOB_ID
    leasehold cancel QUEUE --lane NAME
    leasehold cancel QUEUE --all

    A waiting job ends in `cancelled` at once. The worker of a running job is asked to end it: an async handler is
    cancelled, any other handler ends when it checks `job.cancelled`. `leasehold job QUEUE JOB_ID --watch` shows the
    outcome.

    Exit status: 0 jobs were cancelled or asked to end; 1 there was nothing to cancel, or Redis could not be reached; 2
    the command line or a setting is wrong.
    """
    if sum([job_id is not None, lane is not None, everything]) != 1:
        raise click.UsageError("Expected one of JOB_ID, --lane NAME and --all after the queue.", context)
    with reach(where) as app:
        if job_id is not None:
            _cancel_job(app, queue, job_id, reason, as_json)
        elif lane is not None:
            _report(app, queue, lane, app.control.cancel_lane(queue, lane, reason), as_json)
        else:
            _ask(app, queue, yes)
            _report(app, queue, None, app.control.cancel_all(queue, reason), as_json)


def _cancel_job(app: Leasehold, queue: str, job_id: str, reason: str, as_json: bool) -> None:
    answer = app.control.cancel(queue, job_id, reason)
    if as_json:
        click.echo(dump({"queue": queue, "job": job_id, "answer": answer.value}))
    if answer is CancelAnswer.NOTHING:
        view = app.inspect.job(queue, job_id)
        if view is None:
            note_unknown(app, queue)
            raise NotDone(f"There is no job {job_id!r} in queue {queue!r}, or its record has expired.")
        raise NotDone(f"Job {job_id!r} of queue {queue!r} has ended already: {view.state.value}.")
    if not as_json and answer is CancelAnswer.CANCELLED:
        click.echo(safe(f"Job {job_id!r} of queue {queue!r}: cancelled."))
    elif not as_json:
        follow = f"leasehold job {shlex.quote(queue)} {shlex.quote(job_id)} --watch"
        click.echo(safe(f"Job {job_id!r} of queue {queue!r} runs: its worker is asked to end it. To follow: {follow}"))


def _report(app: Leasehold, queue: str, lane: str | None, count: CancelCount, as_json: bool) -> None:
    what = f"Queue {queue!r}" if lane is None else f"Lane {lane!r} of queue {queue!r}"
    if as_json:
        counts = {"cancelled": count.cancelled, "requested": count.requested}
        click.echo(dump({"queue": queue, "lane": lane, **counts}))
    if without(app, Feature.CANCEL) and (running := app.inspect.queue(queue).counts.get(State.ACTIVE, 0)):
        note(f"Held by workers and not cancelled: {jobs_text(running)}. {app.engine.name} cannot cancel running jobs.")
    if not count.cancelled and not count.requested:
        note_unknown(app, queue)
        left = "waits" if without(app, Feature.CANCEL) else "has not ended"
        raise NotDone(f"{what} has no job that {left}; there is nothing to cancel.")
    if not as_json:
        ended = f"{jobs_text(count.cancelled)} cancelled"
        asked = f"; {jobs_text(count.requested)} running, asked to end" if count.requested else ""
        click.echo(safe(f"{what}: {ended}{asked}."))


def _ask(app: Leasehold, queue: str, yes: bool) -> None:
    counts = app.inspect.queue(queue).counts
    waiting = sum(counts.get(state, 0) for state in _WAITING)
    running = counts.get(State.ACTIVE, 0)
    question = f"Cancel {waiting:,} waiting and {running:,} running jobs of queue {queue!r}?"
    why = "--all cancels every job of the queue that has not ended"
    if without(app, Feature.CANCEL):
        running = 0
        question = f"Cancel {jobs_text(waiting)} waiting in queue {queue!r}?"
        why = "--all cancels every waiting job of the queue"
    sure(question if waiting or running else "", yes=yes, why=why, undone="Nothing was cancelled.")
