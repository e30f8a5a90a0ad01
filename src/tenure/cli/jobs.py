"""The `jobs` command: the jobs of a queue by their states, page by page, of one lane if asked."""

from __future__ import annotations

import time
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import note
from tenure.cli.output.jobs import JOBS_SHOWN, job_table
from tenure.cli.output.tables import Table, answer
from tenure.cli.reach import note_left_out, note_unknown, reaching
from tenure.cli.selection import selecting
from tenure.core import limits
from tenure.core.job import State
from tenure.manage.documents import listing_document
from tenure.manage.inspect import Listing
from tenure.manage.search import LOOK_MAX, ORDER, Found, Selection

JOBS_SHOWN_MAX: Final = 1_000
"""Jobs that `tenure jobs --limit` allows."""


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
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
    as_json: bool,
) -> None:
    """List the jobs of a queue, by their states.

    \b
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

    Exit status: 0 done; 1 Redis could not be reached; 2 the command line or a setting is wrong.
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
    document = {
        "queue": queue,
        "lane": selection.lane,
        "offset": offset or 0,
        **listing_document(listing),
    }
    table = _table(queue, selection.lane, None if after else offset or 0, listing)
    answer(as_json, document, [table if state is None else table.without("state")])
    if not as_json:
        _note_more(listing, queue)
    if queue is not None:
        note_unknown(app, queue)


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


def _note_more(listing: Listing, queue: str | None) -> None:
    found = listing.found
    for state, one in found.items():
        if one.is_cut:
            note(f"Only {LOOK_MAX:,} {state.value} jobs were looked through for the selection.")
    more = [(state, one.next) for state, one in found.items() if one.next]
    if more:
        note(f"There are more: --state {more[0][0].value} --after {more[0][1]}, or a larger --limit.")
    if queue is None and any(one.total is None or one.total > len(one.jobs) for one in found.values()):
        note("There may be more: name a queue, or give a larger --limit.")
