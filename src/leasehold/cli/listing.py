"""The `jobs` command: the jobs of a queue by their states, page by page, of one lane if asked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import click

from leasehold.app import Leasehold
from leasehold.cli.completion import queue_names
from leasehold.cli.errors import note
from leasehold.cli.jobs import dump, job_table, to_json
from leasehold.cli.reach import Where, note_unknown, reach, reaching
from leasehold.cli.tables import show
from leasehold.core import limits
from leasehold.core.job import JobView, State

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
"""What goes on, what waits, what went wrong, what is done."""


@dataclass(frozen=True, slots=True)
class Found:
    """Jobs in one state. `total`: how many there are in it; of a lane, None where they cannot be counted.

    `more`: there are others behind those found. `cut`: not all of the state was looked through.
    """

    state: State
    jobs: tuple[JobView, ...]
    total: int | None
    more: bool
    cut: bool = False


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only jobs in this state.")
@click.option("--lane", metavar="NAME", help="Only jobs of this lane; ready ones in its order.")
@click.option(
    "--limit", type=click.IntRange(1, limits.JOBS_SHOWN_MAX), default=limits.JOBS_SHOWN, metavar="N", show_default=True,
    help="So many of each state at the most.",
)  # fmt: skip
@click.option(
    "--offset", type=click.IntRange(0, limits.PAGE_OFFSET_MAX), metavar="N",
    help="Leave out so many at the beginning; goes with --state.",
)  # fmt: skip
@reaching
def jobs(
    queue: str,
    state: str | None,
    lane: str | None,
    limit: int,
    offset: int | None,
    where: Where,
    as_json: bool,
) -> None:
    """List the jobs of a queue, by their states.

    \b
    leasehold jobs QUEUE                               some of each state
    leasehold jobs QUEUE --state failed                the newest first
    leasehold jobs QUEUE --state failed --offset 20    the next page
    leasehold jobs QUEUE --lane NAME                   those of one lane

    Jobs that wait come in the order in which they will run, those that have ended the newest first. Of each lane only
    the next job stands among the ready ones; --lane shows all that wait in it. For other states --lane looks through
    the first 10,000 jobs. Nothing is changed. --offset counts anew each time: while jobs come and go, the next page may
    begin with jobs of the one before, or leave some out.

    Exit status: 0 done; 1 Redis could not be reached; 2 the command line or a setting is wrong.
    """
    if offset is not None and state is None:
        raise click.UsageError("--offset goes with --state, as in `leasehold jobs QUEUE --state failed --offset 20`.")
    states = _ORDER if state is None else (State(state),)
    with reach(where) as app:
        found = [find_jobs(app, queue, one, lane, offset or 0, limit) for one in states]
        if as_json:
            click.echo(dump(_json(queue, lane, offset or 0, found)))
        else:
            _show(queue, lane, offset or 0, found, of_all=state is None)
            _note_more(found, limit, offset or 0)
        note_unknown(app, queue)


def find_jobs(app: Leasehold, queue: str, state: State, lane: str | None, offset: int, limit: int) -> Found:
    """Up to `limit` jobs in one state, from the `offset`th on. `lane`: only those of this lane."""
    if lane is not None and state is not State.READY:
        return _look_through(app, queue, state, lane, offset, limit)
    jobs: dict[str, JobView] = {}
    looked = total = 0
    while len(jobs) <= limit and looked < limits.LANE_LOOK:
        # One more than asked for: whether there is a next page. When a job ends between two pages, the last job of the
        # first may be the first of the second: it is shown once.
        wanted = limits.PAGE_MAX if looked else min(limit + 1, limits.PAGE_MAX)
        page = app.inspect.page(queue, state, offset + looked, wanted, lane=lane)
        jobs |= {view.id: view for view in page.jobs}
        looked += len(page.jobs)
        total = page.total
        if len(page.jobs) < wanted:
            break
    return Found(state, tuple(jobs.values())[:limit], total, len(jobs) > limit)


def _look_through(app: Leasehold, queue: str, state: State, lane: str, offset: int, limit: int) -> Found:
    """Jobs of a lane in a state that nothing lists by lane. They are found once, though others come and go."""
    jobs: dict[str, JobView] = {}
    looked = 0
    while looked < limits.LANE_LOOK:
        page = app.inspect.page(queue, state, looked, limits.PAGE_MAX)
        jobs |= {view.id: view for view in page.jobs if view.shape.lane == lane}
        looked += len(page.jobs)
        if len(page.jobs) < limits.PAGE_MAX:
            return Found(state, tuple(jobs.values())[offset : offset + limit], len(jobs), len(jobs) > offset + limit)
        if len(jobs) > offset + limit:
            return Found(state, tuple(jobs.values())[offset : offset + limit], None, True)
    return Found(state, tuple(jobs.values())[offset:], None, False, cut=True)


def _show(queue: str, lane: str | None, offset: int, found: Sequence[Found], *, of_all: bool) -> None:
    now_ms = time.time() * limits.SECOND
    shown = [view for one in found for view in one.jobs]
    whose = queue if lane is None else f"{queue}, lane {lane}"
    what = "jobs" if of_all else f"{found[0].state.value} jobs"
    title = f"{whose}: " + ", ".join(_count(one, offset) for one in found if one.jobs)
    after = f" after the first {offset:,}" if offset else ""
    table = job_table(shown, now_ms, title, f"No {what} in {whose}{after}.")
    show([table if of_all else table.without(("state",))])


def _count(one: Found, offset: int) -> str:
    """How many are shown of how many."""
    first, last = offset + 1, offset + len(one.jobs)
    total = "" if one.total is None else f" of {one.total:,}"
    if not offset and last == one.total:
        return f"{last:,} {one.state.value}"
    return f"{first:,} to {last:,}{total} {one.state.value}"


def _note_more(found: Sequence[Found], limit: int, offset: int) -> None:
    for one in found:
        if one.cut:
            note(f"Only the first {limits.LANE_LOOK:,} {one.state.value} jobs were looked through for the lane.")
    more = [one.state.value for one in found if one.more]
    if more:
        note(f"There are more: --state {more[0]} --offset {offset + limit}, or a larger --limit.")


def _json(queue: str, lane: str | None, offset: int, found: Sequence[Found]) -> dict[str, object]:
    return {
        "queue": queue,
        "lane": lane,
        "offset": offset,
        "jobs": [to_json(view, content=False) for one in found for view in one.jobs],
        "totals": {one.state.value: one.total for one in found},
        "more": [one.state.value for one in found if one.more or one.cut],
    }
