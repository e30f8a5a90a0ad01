"""The `info` command: queues, lanes and workers, as tables for people, plain columns for a pipe, or JSON."""

from __future__ import annotations

import time

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import Exit, NotDone, note, tell
from tenure.cli.output import jobs, lanes
from tenure.cli.output.live import follow
from tenure.cli.output.overview import latency_tables, overview_tables, queue_table, settings_table, worker_table
from tenure.cli.output.tables import answer, show
from tenure.cli.reach import note_unknown, reaching
from tenure.client.inspect import LISTED
from tenure.client.reasons import AWAITING, AWAITING_PAGE
from tenure.core import limits
from tenure.core.errors import NewerLayout
from tenure.core.job import State
from tenure.core.shape import LaneState, LaneView
from tenure.manage.documents import encoded, job_document, overview_document, refused_document
from tenure.manage.overview import Overview


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@click.option(
    "listed",
    "--lanes",
    type=click.Choice([state.value for state in LISTED]),
    help=f"Show lanes of QUEUE in this state, up to {limits.PAGE_MAX}.",
)
@click.option("--lane", metavar="NAME", help="Show one lane of QUEUE, and the first jobs that wait in it.")
@click.option("watched", "--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
@reaching()
def info(queue: str | None, listed: str | None, lane: str | None, watched: bool, app: Tenure, as_json: bool) -> Exit:
    """Show queues and workers, or one queue and its lanes.

    \b
    tenure info                        all queues and workers
    tenure info --watch                the same, live
    tenure info QUEUE                  one queue: settings, lanes, workers
    tenure info QUEUE --lanes parked   its parked lanes
    tenure info QUEUE --lanes blocked  lanes that a failed job blocks
    tenure info QUEUE --lane NAME      a lane and the jobs that wait in it

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
    if given and queue is None:
        example = "parked" if listed else "NAME"
        raise click.UsageError(f"{given[0]} goes with a queue, as in `tenure info QUEUE {given[0]} {example}`.")
    given += ["--watch"] * watched
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} do not go together; expected one of them.")
    if watched:
        follow(app, queue, as_json=as_json)
    if queue is None:
        return _show_all(app, as_json)
    status = Exit.OK
    if listed is not None:
        _show_lanes(app, queue, LaneState(listed), as_json)
    elif lane is not None:
        _show_lane(app, queue, lane, as_json)
    else:
        status = _show_queue(app, queue, as_json)
    note_unknown(app, queue)
    return status


def _show_all(app: Tenure, as_json: bool) -> Exit:
    seen = app.inspect.overview()
    answer(as_json, overview_document(seen) | refused_document(seen), overview_tables(seen))
    if seen.left_out:
        note(f"There are {seen.left_out:,} more queues: `tenure info QUEUE` shows one by its name.")
    return _status(seen)


def _status(seen: Overview) -> Exit:
    """The exit status, after the errors."""
    for trouble in seen.troubles():
        tell(trouble)
    return Exit.FAILED if seen.troubles() else Exit.OK


def _show_queue(app: Tenure, queue: str, as_json: bool) -> Exit:
    seen, now_ms = app.inspect.overview(queue), time.time() * limits.SECOND
    if seen.refused:
        raise NotDone(seen.troubles()[0])
    view = seen.queues[0]
    is_whole = not view.unreachable  # a list of lanes needs all partitions
    parked = _lanes(app, queue, LaneState.PARKED) if view.parked_lanes and is_whole else ([], False)
    blocked = _lanes(app, queue, LaneState.BLOCKED) if view.blocked_lanes and is_whole else ([], False)
    if as_json:
        lanes_json = {"parked": parked[0], "blocked": blocked[0]}
        click.echo(encoded(overview_document(seen) | lanes_json))
        return _status(seen)
    tables = [queue_table([view], now_ms).without("notes"), settings_table(view, with_lanes=True)]
    tables += latency_tables(seen.latency)
    for state, (found, more) in ((LaneState.PARKED, parked), (LaneState.BLOCKED, blocked)):
        if found:
            tables.append(lanes.lane_table(queue, state, found, more, now_ms))
    show([*tables, worker_table(seen.workers, now_ms)])
    if view.newer_layout:
        reason = NewerLayout(queue, view.newer_layout, app.engine.layout)
        note(f"Workers of this release claim nothing from this queue. {reason}")
    if seen.without_worker:
        note(f"No living worker serves {queue!r}: its jobs wait for `tenure worker MODULE:APP -q {queue}`.")
    if seen.all_awaiting:
        note(f"No worker of {queue!r} has a free slot: {AWAITING}. See {AWAITING_PAGE}.")
    return _status(seen)


def _lanes(app: Tenure, queue: str, state: LaneState) -> tuple[list[LaneView], bool]:
    return app.inspect.all_lanes(queue, state, limits.PAGE_MAX)


def _show_lanes(app: Tenure, queue: str, state: LaneState, as_json: bool) -> None:
    found, more = _lanes(app, queue, state)
    table = lanes.lane_table(queue, state, found, more, time.time() * limits.SECOND)
    answer(as_json, {"lanes": found, "more": more}, [table])
    if more and not as_json:
        note(f"There are more {state} lanes than these {len(found)}.")
    if state is LaneState.BLOCKED and found and not as_json:
        first = found[0].blocked_by or "JOB"
        note(f"A blocked lane goes on when its failed job is retried or discarded: {lanes.way_on(queue, first)}.")


def _show_lane(app: Tenure, queue: str, name: str, as_json: bool) -> None:
    view, now_ms = app.inspect.lane(queue, name), time.time() * limits.SECOND
    page = app.inspect.page(queue, State.READY, limit=jobs.JOBS_SHOWN, lane=name)
    title = f"{name}: {len(page.jobs):,} of {page.total:,} that wait, in their order"
    table = jobs.job_table(page.jobs, now_ms, title, "No jobs wait in it.").without("lane", "state")
    if not as_json:
        click.echo(f"{lanes.describe(queue, view, now_ms)}\n")
    waiting = [job_document(one) for one in page.jobs]
    answer(as_json, {"lane": view, "jobs": waiting, "total": page.total}, [table])
