"""The `cancel` command: a job, the jobs of a lane, or all jobs of a queue."""

from __future__ import annotations

from shlex import quote
from typing import Final

import click

from leasehold.app.app import Leasehold
from leasehold.cli.completion import queue_names
from leasehold.cli.errors import NotDone, note
from leasehold.cli.input import sure
from leasehold.cli.output.tables import answer
from leasehold.cli.output.text import jobs_text
from leasehold.cli.reach import known_job, note_unknown, queue_of, reaching, without
from leasehold.core.engine import Feature
from leasehold.core.job import State
from leasehold.core.shape import CancelAnswer, CancelCount

_WAITING: Final = (State.READY, State.SCHEDULED, State.UNROUTABLE)


@click.command()
@click.argument("queue", shell_complete=queue_names, metavar="[QUEUE]")
@click.argument("job_id", required=False)
@click.option("--lane", metavar="NAME", help="Cancel all jobs of this lane that have not ended.")
@click.option("everything", "--all", is_flag=True, help="Cancel all jobs of the queue that have not ended.")
@click.option("--reason", metavar="TEXT", default="", help="Why; stored with the jobs, and passed to their handlers.")
@click.option("--yes", is_flag=True, help="With --all: do not ask for confirmation.")
@reaching()
def cancel(
    queue: str,
    job_id: str | None,
    lane: str | None,
    everything: bool,
    reason: str,
    yes: bool,
    app: Leasehold,
    as_json: bool,
) -> None:
    """Cancel a job, the jobs of a lane, or all jobs of a queue.

    \b
    leasehold cancel JOB_ID
    leasehold cancel QUEUE JOB_ID
    leasehold cancel QUEUE --lane NAME
    leasehold cancel QUEUE --all

    A waiting job ends in `cancelled` at once. The worker of a running job is asked to end it: an async handler is
    cancelled, any other handler ends when it checks `job.cancelled`. `leasehold job QUEUE JOB_ID --watch` shows the
    outcome.

    Exit status: 0 jobs were cancelled or asked to end; 1 there was nothing to cancel, or Redis could not be reached; 2
    the command line or a setting is wrong.
    """
    if job_id is None and lane is None and not everything:
        job_id = queue
        queue = queue_of(app, job_id, {"queue": None, "job": job_id, "answer": "nothing"} if as_json else None)
    if sum([job_id is not None, lane is not None, everything]) != 1:
        raise click.UsageError("Expected one of JOB_ID, --lane NAME and --all after the queue.")
    if job_id is not None:
        _cancel_job(app, queue, job_id, reason, as_json)
    elif lane is not None:
        _report(app, queue, lane, app.control.cancel_lane(queue, lane, reason), as_json)
    else:
        _ask(app, queue, yes)
        _report(app, queue, None, app.control.cancel_all(queue, reason), as_json)


def _cancel_job(app: Leasehold, queue: str, job_id: str, reason: str, as_json: bool) -> None:
    found = app.control.cancel(queue, job_id, reason)
    name = f"Job {job_id!r} of queue {queue!r}"
    follow = f"leasehold job {quote(queue)} {quote(job_id)} --watch"
    texts = {
        CancelAnswer.CANCELLED: f"{name}: cancelled.",
        CancelAnswer.REQUESTED: f"{name} runs: its worker is asked to end it. To follow: {follow}",
    }
    answer(as_json, {"queue": queue, "job": job_id, "answer": found.value}, texts.get(found))
    if found is CancelAnswer.NOTHING:
        raise NotDone(f"{name} has ended already: {known_job(app, queue, job_id).state.value}.")


def _report(app: Leasehold, queue: str, lane: str | None, count: CancelCount, as_json: bool) -> None:
    cannot_end = without(app, Feature.CANCEL)
    name = f"Queue {queue!r}" if lane is None else f"Lane {lane!r} of queue {queue!r}"
    asked = f"; {jobs_text(count.requested)} running, asked to end" if count.requested else ""
    text = f"{name}: {jobs_text(count.cancelled)} cancelled{asked}." if count.cancelled or count.requested else None
    counts = {"cancelled": count.cancelled, "requested": count.requested}
    answer(as_json, {"queue": queue, "lane": lane, **counts}, text)
    if cannot_end and (running := app.inspect.queue(queue).counts.get(State.ACTIVE, 0)):
        note(f"Held by workers and not cancelled: {jobs_text(running)}. {app.engine.name} cannot cancel running jobs.")
    if text is None:
        note_unknown(app, queue)
        left = "waits" if cannot_end else "has not ended"
        raise NotDone(f"{name} has no job that {left}; there is nothing to cancel.")


def _ask(app: Leasehold, queue: str, yes: bool) -> None:
    counts = app.inspect.queue(queue).counts
    waiting, running = sum(counts.get(state, 0) for state in _WAITING), counts.get(State.ACTIVE, 0)
    question = f"Cancel {waiting:,} waiting and {running:,} running jobs of queue {queue!r}?"
    which = "job of the queue that has not ended"
    if without(app, Feature.CANCEL):
        running, which = 0, "waiting job of the queue"
        question = f"Cancel {jobs_text(waiting)} waiting in queue {queue!r}?"
    is_asked = bool(waiting or running)
    sure(question if is_asked else "", yes=yes, why=f"--all cancels every {which}", undone="Nothing was cancelled.")
