"""The `jobs` command: the jobs of a queue by their states, page by page, of one lane if asked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import note
from tenure.cli.output.jobs import JOBS_SHOWN, job_table, to_json
from tenure.cli.output.tables import Table, answer
from tenure.cli.reach import note_unknown, reaching
from tenure.cli.selection import NO_SELECTION, Selection, queues_meant, selecting
from tenure.core import limits
from tenure.core.job import JobView, State

JOBS_SHOWN_MAX: Final = 1_000
"""Jobs that `tenure jobs --limit` allows."""
LANE_LOOK: Final = 10_000
"""Jobs of one state that a search for the jobs of a lane reads, unless it finds enough before."""

_ORDER: Final = (
    State.ACTIVE,
    State.READY,
    State.SCHEDULED,
    State.UNROUTABLE,
    State.FAILED,
    State.BROKEN,
    State.CANCELLED,
    State.COMPLETED,
)
"""The states in the order of the output: running, waiting, failed, done."""


@dataclass(frozen=True, slots=True)
class Found:
    """Jobs in one state. `total`: how many there are in the state; None if those of a lane were not all counted.

    `next`: the cursor of the next page; None if there is none. `is_cut`: the search for a lane's jobs stopped there.
    """

    state: State
    jobs: tuple[JobView, ...]
    total: int | None
    next: str | None
    is_cut: bool = False


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
    lane = selection.lane
    states = _ORDER if state is None else (State(state),)
    if queue is None:
        found = [_in_all_queues(app, one, selection, limit) for one in states]
    else:
        found = [find_jobs(app, queue, one, lane, offset or 0, limit, after, selection) for one in states]
    document = {
        "queue": queue,
        "lane": lane,
        "offset": offset or 0,
        "jobs": [to_json(view) for one in found for view in one.jobs],
        "totals": {one.state.value: one.total for one in found},
        "more": [one.state.value for one in found if one.next],
        "next": {one.state.value: one.next for one in found if one.next},
    }
    table = _table(queue, lane, None if after else offset or 0, found)
    answer(as_json, document, [table if state is None else table.without("state")])
    if not as_json:
        _note_more(found, queue)
    if queue is not None:
        note_unknown(app, queue)


def find_jobs(
    app: Tenure,
    queue: str,
    state: State,
    lane: str | None,
    offset: int,
    limit: int,
    after: str | None = None,
    selection: Selection = NO_SELECTION,
) -> Found:
    """Return up to `limit` jobs in one state, from the `offset`th on, behind a cursor; of a lane, or selected."""
    # Redis has a list of the ready jobs of a lane. For other states, this searches the jobs of all lanes.
    listed = lane if state is State.READY else None
    wanted, now_ms = replace(selection, lane=None if listed else lane), time.time() * limits.SECOND
    is_search = bool(wanted)
    is_whole = after is None
    start, skip = (0, offset) if is_search else (offset, 0)
    jobs: list[JobView] = []
    looked = 0
    while True:
        size = min(skip + limit - len(jobs), limits.PAGE_MAX)
        page = app.inspect.page(queue, state, start, size, lane=listed, after=after)
        jobs += (view for view in page.jobs if wanted.has(view, now_ms))
        looked += len(page.jobs)
        start, after = 0, page.next
        is_full = len(jobs) == skip + limit
        if after is None or is_full or (is_search and looked >= LANE_LOOK):
            break
    total: int | None = page.total
    if is_search:
        total = len(jobs) if is_whole and after is None else None
    return Found(state, tuple(jobs[skip:]), total, after, is_cut=after is not None and not is_full)


def _in_all_queues(app: Tenure, state: State, selection: Selection, limit: int) -> Found:
    """Return up to `limit` selected jobs in one state, queue by queue."""
    jobs: list[JobView] = []
    total: int | None = 0
    is_cut = False
    for queue in queues_meant(app, None):
        found = find_jobs(app, queue, state, selection.lane, 0, limit, selection=selection)
        jobs += found.jobs
        total = None if total is None or found.total is None else total + found.total
        is_cut = is_cut or found.is_cut
    return Found(state, tuple(jobs[:limit]), total, None, is_cut)


def _table(queue: str | None, lane: str | None, offset: int | None, found: Sequence[Found]) -> Table:
    """Show the jobs. `offset`: how many come before them; None if that is not known."""
    whose = "all queues" if queue is None else queue
    whose = whose if lane is None else f"{whose}, lane {lane}"
    what = "jobs" if len(found) > 1 else f"{found[0].state.value} jobs"
    title = f"{whose}: " + ", ".join(_count(one, offset) for one in found if one.jobs)
    after = " behind this cursor" if offset is None else f" after the first {offset:,}" if offset else ""
    shown = [view for one in found for view in one.jobs]
    return job_table(
        shown,
        time.time() * limits.SECOND,
        title,
        f"No {what} in {whose.replace('all queues', 'any queue') if queue is None else whose}{after}.",
        queues=queue is None,
    )


def _count(one: Found, offset: int | None) -> str:
    shown, total = len(one.jobs), "" if one.total is None else f" of {one.total:,}"
    if offset is None or (not offset and shown == one.total):
        return f"{shown:,}{total if offset is None else ''} {one.state.value}"
    return f"{offset + 1:,} to {offset + shown:,}{total} {one.state.value}"


def _note_more(found: Sequence[Found], queue: str | None) -> None:
    for one in found:
        if one.is_cut:
            note(f"Only {LANE_LOOK:,} {one.state.value} jobs were looked through for the selection.")
    more = [one for one in found if one.next]
    if more:
        note(f"There are more: --state {more[0].state.value} --after {more[0].next}, or a larger --limit.")
    if queue is None and any(one.total is None or one.total > len(one.jobs) for one in found):
        note("There may be more: name a queue, or give a larger --limit.")
