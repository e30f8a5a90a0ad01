"""The commands `jobs`, the jobs of a queue by their states, and `job`, one with all its facts."""

from __future__ import annotations

import time
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.errors import Exit, UserError
from tenure.cli.many import selecting
from tenure.cli.output.jobs import JOBS_SHOWN, describe, job_table
from tenure.cli.output.tables import Answer, Table
from tenure.cli.reach import ANY_QUEUE, JOB, no_job, note_left_out, queue_of, reaching, unknown, without
from tenure.cli.watch import watch
from tenure.client.why import AWAITING_PAGE
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.job import WAITING, State
from tenure.manage.documents import JobDetail, job_document, listing_document
from tenure.manage.inspect import Listing
from tenure.manage.search import LOOK_MAX, ORDER, Found, Selection

JOBS_SHOWN_MAX: Final = 1_000
"""Jobs that `tenure jobs --limit` allows."""


@ANY_QUEUE
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only jobs in this state.")
@click.option(
    "--limit", type=click.IntRange(1, JOBS_SHOWN_MAX), default=JOBS_SHOWN, metavar="N", show_default=True,
    help="List at most this many jobs of each state.",
)  # fmt: skip
@click.option(
    "--offset", type=click.IntRange(0, limits.PAGE_OFFSET_MAX), metavar="N",
    help="Skip this many jobs at the beginning; needs --state.",
)  # fmt: skip
@click.option("--after", metavar="CURSOR", help="Continue after an earlier page; needs --state.")
@selecting
@reaching()
def jobs(
    queue: str | None,
    state: str | None,
    limit: int,
    offset: int | None,
    after: str | None,
    selection: Selection,
    app: Tenure,
) -> Answer:
    """\b
    tenure jobs --state failed --error ConnectionError --newer-than 2h
    tenure jobs QUEUE                                  some of each state
    tenure jobs QUEUE --state failed                   the newest first
    tenure jobs QUEUE --state failed --after CURSOR    the next page
    tenure jobs QUEUE --lane NAME                      jobs of one lane

    Jobs that wait come in the order in which they will run, those that have ended the newest first. Only the next
    job of each lane stands among the ready ones; --lane shows all that wait in it. For other states --lane, and for all
    states --task, --error, --older-than and --newer-than, look through 10,000 jobs of each queue. Without QUEUE the
    jobs of all queues are listed. Nothing is changed. Each page of a queue ends with the CURSOR of the next one, `next`
    in JSON: while jobs come and go, the next page begins with the job that follows. --offset counts from the beginning
    each time, and so may repeat jobs or leave some out.
    """
    for option, value, example in (("--offset", offset, "20"), ("--after", after, "CURSOR")):
        if value is not None and state is None:
            example = f"tenure jobs QUEUE --state failed {option} {example}"
            raise click.UsageError(f"{option} goes with --state, as in `{example}`.")
        if value is not None and queue is None:
            raise click.UsageError(f"{option} goes with a queue.")
    if offset is not None and after is not None:
        raise click.UsageError("--offset and --after do not go together; expected one of them.")
    states = ORDER if state is None else (State(state),)
    listing = app.inspect.listing(queue, states, selection, limit=limit, offset=offset or 0, after=after)
    note_left_out(listing.left_out)
    document = {"queue": queue, "lane": selection.lane, "offset": offset or 0, **listing_document(listing)}
    table = _table(queue, selection.lane, None if after else offset or 0, listing)
    shown = [table if state is None else table.without("state")]
    return Answer(document, shown, unknown(app, queue), _more(listing, queue))


def _table(queue: str | None, lane: str | None, offset: int | None, listing: Listing) -> Table:
    """Show the jobs. `offset`: how many come before them; None if that is not known."""
    found = listing.found
    whose = "all queues" if queue is None else queue
    whose = whose if lane is None else f"{whose}, lane {lane}"
    what = "jobs" if len(found) > 1 else f"{next(iter(found)).value} jobs"
    title = f"{whose}: " + ", ".join(_count(state, one, offset) for state, one in found.items() if one.jobs)
    after = " behind this cursor" if offset is None else f" after the first {offset:,}" if offset else ""
    shown = [view for one in found.values() for view in one.jobs]
    return job_table(
        shown,
        time.time() * limits.SECOND,
        title,
        f"No {what} in {whose.replace('all queues', 'any queue') if queue is None else whose}{after}.",
        queues=queue is None,
    )


def _count(state: State, one: Found, offset: int | None) -> str:
    shown, total = len(one.jobs), "" if one.total is None else f" of {one.total:,}"
    if offset is None or (not offset and shown == one.total):
        return f"{shown:,}{total if offset is None else ''} {state.value}"
    return f"{offset + 1:,} to {offset + shown:,}{total} {state.value}"


def _more(listing: Listing, queue: str | None) -> list[str]:
    """Return notes on jobs that are not shown."""
    found = listing.found
    notes = [
        f"Only {LOOK_MAX:,} {state.value} jobs were looked through for the selection."
        for state, one in found.items()
        if one.is_cut
    ]
    more = [(state, one.next) for state, one in found.items() if one.next]
    if more:
        notes.append(f"There are more: --state {more[0][0].value} --after {more[0][1]}, or a larger --limit.")
    if queue is None and any(one.total is None or one.total > len(one.jobs) for one in found.values()):
        notes.append("There may be more: name a queue, or give a larger --limit.")
    return notes


@JOB
@click.option("watched", "--watch", is_flag=True, help="Follow the job until it has ended.")
@click.option("--payload", is_flag=True, help="Show the payload and the result, too.")
@click.option("--headers", is_flag=True, help="Show the headers, too.")
@reaching(streams=True)
def job(
    queue: str, job_id: str | None, watched: bool, payload: bool, headers: bool, app: Tenure, as_json: bool
) -> Answer | Exit:
    """\b
    tenure job JOB_ID             as it is now, in any state and any queue
    tenure job QUEUE JOB_ID       the same, if you know its queue
    tenure job JOB_ID --payload   with its payload and its result
    tenure job JOB_ID --headers   with its headers
    tenure job JOB_ID --watch     until it has ended

    Nothing is changed. Payloads, results and headers are shown only when asked for, and of long payloads and results
    the beginning; --json has them whole. A job that completed has no payload and no headers. In a pipe, --watch writes
    a line for each change.
    """
    nothing = {"queue": None if job_id is None else queue, "id": job_id or queue, "state": None}
    if job_id is None:
        job_id, queue = queue, queue_of(app, queue, "tenure jobs {}", nothing)
        nothing["queue"] = queue
    parts = JobDetail(content=payload, headers=headers)
    if watched:
        if without(app, Feature.RESULTS):
            raise UserError(
                f"--watch: the protocol {app.engine.name!r} keeps no record of a job that completed, so its end cannot "
                "be seen. Without --watch, the command shows the job as long as it is there."
            )
        return watch(app, queue, job_id, parts=parts, as_json=as_json)
    found = app.inspect.explained(queue, job_id)
    if found is None:
        no_job(app, queue, job_id, nothing)
    view = found.view
    hints = [f"`{found.why.command}` mends it."] if view.state in WAITING and found.why.command else []
    if found.awaiting:
        hints.append(
            f"Worker {view.worker} has announced awaiting={found.awaiting}: jobs that wait for the result of another "
            f"job. This may be one of them. See {AWAITING_PAGE}."
        )
    document = {**job_document(view, parts), "why": found.why}
    return Answer(document, [describe(view, time.time() * limits.SECOND, parts)], hints=hints)
