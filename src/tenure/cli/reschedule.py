"""The command `reschedule`: another time or priority for a job that waits."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import NotDone
from tenure.cli.output.tables import answer
from tenure.cli.reach import known_job, queue_of, reaching
from tenure.cli.units import Duration
from tenure.core import limits
from tenure.core.job import State

_MAX_DELAY_S: Final = limits.MAX_DELAY_MS / limits.SECOND


def _time(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    try:
        found = None if value is None else datetime.fromisoformat(value)
    except ValueError:
        found = None
    if value is not None and (found is None or found.tzinfo is None):
        raise click.BadParameter(f"{value!r} is not a time with a zone, as in 2026-03-01T09:00:00+01:00.")
    return found


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@click.argument("job_id", required=False)
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
def reschedule(queue: str | None, job_id: str | None, app: Tenure, as_json: bool, **changes: Any) -> None:
    """Give a job that waits another time or priority.

    \b
    tenure reschedule JOB_ID --delay 0
    tenure reschedule QUEUE JOB_ID --run-after 2026-03-01T09:00:00+01:00
    tenure reschedule QUEUE JOB_ID --priority 10

    For jobs that are ready, scheduled or unroutable. The job keeps its attempts, its lane and its unique key. `tenure
    retry` runs a job that has ended.

    Exit status: 0 done; 1 the job does not wait, or Redis could not be reached; 2 the command line or a setting is
    wrong.
    """
    if job_id is None:
        queue, job_id = None, queue
    if job_id is None:
        raise click.UsageError("Expected JOB_ID.")
    if all(value is None for value in changes.values()):
        raise click.UsageError("Expected --delay, --run-after or --priority.")
    if changes["delay"] is not None and changes["run_after"] is not None:
        raise click.UsageError("Expected one of --delay and --run-after.")
    document = {"queue": queue, "job": job_id, "rescheduled": False}
    if queue is None:
        queue = document["queue"] = queue_of(app, job_id, document if as_json else None, whole="tenure jobs {}")
    known_job(app, queue, job_id, document if as_json else None)
    done = app.control.reschedule(queue, job_id, **changes)
    after = known_job(app, queue, job_id)
    name = f"Job {job_id!r} of queue {queue!r}"
    place = "for a worker" if after.due_at is None else f"until {after.due_at:%Y-%m-%d %H:%M:%S} UTC"
    text = f"{name} waits {place}, with priority {after.shape.priority}."
    answer(as_json, {**document, "rescheduled": done}, text if done else None)
    if not done:
        if after.state is State.ACTIVE:
            why = "is held by a worker; cancel it, or wait for its end"
        elif after.state.ended:
            why = f"has ended already: {after.state.value}"
        else:
            why = "waits for the end of another job, or jobs of its queue are just being cancelled"
        raise NotDone(f"{name} was not rescheduled: it {why}.")
