"""The `info` command: queues, lanes and workers, as tables for people, plain columns for a pipe, or JSON."""

from __future__ import annotations

import time

import click

from tenure.app.app import Tenure
from tenure.cli.errors import NotDone
from tenure.cli.output import jobs, lanes
from tenure.cli.output.live import follow
from tenure.cli.output.overview import (
    latency_tables,
    minutes_tables,
    overview_tables,
    queue_table,
    settings_table,
    worker_table,
)
from tenure.cli.output.tables import Answer
from tenure.cli.reach import ANY_QUEUE, reaching, unknown
from tenure.client.inspect import LISTED
from tenure.client.why import AWAITING, AWAITING_PAGE
from tenure.core import limits
from tenure.core.errors import NewerLayout
from tenure.core.job import State
from tenure.core.shape import LaneState, LaneView
from tenure.core.values import replace
from tenure.manage.documents import job_document, minutes_document, overview_document, refused_document
from tenure.manage.search import Selection


@ANY_QUEUE
@click.option(
    "listed",
    "--lanes",
    type=click.Choice([state.value for state in LISTED]),
    help=f"Show lanes of QUEUE in this state, up to {limits.PAGE_MAX}.",
)
@click.option("--lane", metavar="NAME", help="Show one lane of QUEUE, and the first jobs that wait in it.")
@click.option("by_minute", "--minutes", is_flag=True, help="Show how the jobs of QUEUE ended in the last 24 hours.")
@click.option("watched", "--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
@reaching(streams=True)
def info(
    queue: str | None,
    listed: str | None,
    lane: str | None,
    by_minute: bool,
    watched: bool,
    app: Tenure,
    as_json: bool,
) -> Answer:
    """\b
    tenure info                        all queues and workers
    tenure info --watch                the same, live
    tenure info QUEUE                  one queue: settings, lanes, workers
    tenure info QUEUE --lanes parked   its parked lanes
    tenure info QUEUE --lanes blocked  lanes that a failed job blocks
    tenure info QUEUE --lane NAME      a lane and the jobs that wait in it
    tenure info QUEUE --minutes        its last 24 hours: ends, waits and runs of jobs

    `notes` has what is unusual, such as `paused`, `no_worker` (jobs wait, and no living worker serves the queue) or
    `all_awaiting` (jobs are ready, and jobs that wait for the results of other jobs hold all slots).
    `held` counts the jobs that a worker runs and those that it has claimed ahead for its `slots`. A worker announces
    itself every ten seconds (`announced`); after 15 seconds without it is `silent`. Its --health-file and
    --health-port have how many jobs it runs, and when Redis last replied.

    `tenure jobs QUEUE` lists jobs, `tenure job QUEUE JOB_ID` shows one. Nothing is changed. In a pipe, tables are
    columns with two spaces between, one line a row, names as they are (only control characters are escaped), and
    --watch writes them again and again; with --json it writes one document a line.

    Exit status: 0 done; 1 Redis could not be reached, also for a part of a queue, or refused to show one; 2 an
    option or a setting is wrong; 130 --watch was ended with Ctrl-C.
    """
    given = [name for name, value in (("--lanes", listed), ("--lane", lane)) if value is not None]
    given += ["--minutes"] * by_minute
    if given and queue is None:
        example = {"--lanes": " parked", "--lane": " NAME"}.get(given[0], "")
        raise click.UsageError(f"{given[0]} goes with a queue, as in `tenure info QUEUE {given[0]}{example}`.")
    given += ["--watch"] * watched
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} do not go together; expected one of them.")
    if watched:
        follow(app, queue, as_json=as_json)
    if queue is None:
        seen = app.inspect.overview()
        document = overview_document(seen) | refused_document(seen)
        more = f"There are {seen.left_out:,} more queues: `tenure info QUEUE` shows one by its name."
        notes = [more] if seen.left_out else []
        return Answer(document, overview_tables(seen), notes, errors=seen.troubles())
    if listed is not None:
        answer = _lanes_answer(app, queue, LaneState(listed))
    elif lane is not None:
        answer = _lane_answer(app, queue, lane)
    elif by_minute:
        answer = _minutes_answer(app, queue)
    else:
        answer = _queue_answer(app, queue)
    return replace(answer, notes=unknown(app, queue))


def _queue_answer(app: Tenure, queue: str) -> Answer:
    seen, now_ms = app.inspect.overview(queue), time.time() * limits.SECOND
    if seen.refused:
        raise NotDone(seen.troubles()[0])
    view = seen.queues[0]
    is_whole = not view.unreachable  # a list of lanes needs all partitions
    parked = _lanes(app, queue, LaneState.PARKED) if view.parked_lanes and is_whole else ([], False)
    blocked = _lanes(app, queue, LaneState.BLOCKED) if view.blocked_lanes and is_whole else ([], False)
    document = overview_document(seen) | {"parked": parked[0], "blocked": blocked[0]}
    tables = [queue_table([view], now_ms).without("notes"), settings_table(view, with_lanes=True)]
    tables += latency_tables(seen.latency)
    for state, (found, more) in ((LaneState.PARKED, parked), (LaneState.BLOCKED, blocked)):
        if found:
            tables.append(lanes.lane_table(queue, state, found, more, now_ms))
    hints = []
    if view.newer_layout:
        reason = NewerLayout(queue, view.newer_layout, app.engine.layout)
        hints.append(f"Workers of this release claim nothing from this queue. {reason}")
    if seen.without_worker:
        hints.append(f"No living worker serves {queue!r}: its jobs wait for `tenure worker MODULE:APP -q {queue}`.")
    if seen.all_awaiting:
        hints.append(f"No worker of {queue!r} has a free slot: {AWAITING}. See {AWAITING_PAGE}.")
    shown = [*tables, worker_table(seen.workers, now_ms)]
    return Answer(document, shown, hints=hints, errors=seen.troubles())


def _minutes_answer(app: Tenure, queue: str) -> Answer:
    found = app.inspect.minutes(queue)
    return Answer(minutes_document(queue, found), minutes_tables(found, time.time() * limits.SECOND))


def _lanes(app: Tenure, queue: str, state: LaneState) -> tuple[list[LaneView], bool]:
    return app.inspect.all_lanes(queue, state, limits.PAGE_MAX)


def _lanes_answer(app: Tenure, queue: str, state: LaneState) -> Answer:
    found, more = _lanes(app, queue, state)
    table = lanes.lane_table(queue, state, found, more, time.time() * limits.SECOND)
    hints = [f"There are more {state} lanes than these {len(found)}."] if more else []
    if state is LaneState.BLOCKED and found:
        way = lanes.way_on(queue, found[0].blocked_by or "JOB")
        hints.append(f"A blocked lane goes on when its failed job is retried or discarded: {way}.")
    return Answer({"lanes": found, "more": more}, [table], hints=hints)


def _lane_answer(app: Tenure, queue: str, name: str) -> Answer:
    view, now_ms = app.inspect.lane(queue, name), time.time() * limits.SECOND
    page = app.inspect.listing(queue, (State.READY,), Selection(lane=name), limit=jobs.JOBS_SHOWN).found[State.READY]
    title = f"{name}: {len(page.jobs):,} of {page.total:,} that wait, in their order"
    table = jobs.job_table(page.jobs, now_ms, title, "No jobs wait in it.").without("lane", "state")
    document = {"lane": view, "jobs": [job_document(one) for one in page.jobs], "total": page.total}
    return Answer(document, [lanes.describe(queue, view, now_ms), table])
