"""The `info` command: queues, lanes and workers, as tables for people, plain columns for a pipe, or JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from leasehold.app.app import Leasehold
from leasehold.cli.completion import queue_names
from leasehold.cli.errors import Exit, note, tell
from leasehold.cli.output import jobs, lanes, overview
from leasehold.cli.output.jobs import JOBS_SHOWN, dump
from leasehold.cli.output.live import follow
from leasehold.cli.output.tables import Table, show
from leasehold.cli.reach import Where, note_unknown, reach, reaching
from leasehold.core import limits
from leasehold.core.errors import NewerLayout, RedisError, Unreachable
from leasehold.core.job import QueueView, Refused, State, WorkerView
from leasehold.core.shape import LaneState

QUEUES_SHOWN: Final = 1_000
"""Queues that `leasehold info` shows."""

_LANES: Final = [state.value for state in lanes.LISTED]


@dataclass(frozen=True, slots=True)
class Overview:
    """Queues and workers as they were at one moment. `left_out`: so many queues were not looked at. `refused`: those
    that Redis would not let us look at, and why."""

    queues: tuple[QueueView, ...]
    workers: tuple[WorkerView, ...]
    left_out: int = 0
    refused: tuple[Refused, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "queues": self.queues,
            "workers": self.workers,
            "refused": [{"queue": one.queue, "error": one.reason} for one in self.refused],
        }

    def troubles(self) -> list[str]:
        return [f"Queue {one.queue!r} cannot be shown. {one.reason}" for one in self.refused]

    def tables(self, now_ms: float) -> list[Table]:
        return [overview.queue_table(self.queues), overview.worker_table(self.workers, now_ms)]


@click.command()
@click.argument("queue", required=False, shell_complete=queue_names)
@click.option(
    "listed", "--lanes", type=click.Choice(_LANES), help=f"Show lanes of QUEUE in this state, up to {limits.PAGE_MAX}."
)
@click.option("--lane", metavar="NAME", help="Show one lane of QUEUE, and the first jobs that wait in it.")
@click.option("watched", "--watch", is_flag=True, help="Look again every second, until Ctrl-C.")
@reaching
@click.pass_context
def info(
    context: click.Context,
    queue: str | None,
    listed: str | None,
    lane: str | None,
    watched: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Show queues and workers, or one queue and its lanes.

    \b
    leasehold info                        all queues and workers
    leasehold info --watch                the same, live
    leasehold info QUEUE                  one queue: settings, lanes, workers
    leasehold info QUEUE --lanes parked   its parked lanes
    leasehold info QUEUE --lanes blocked  lanes that a failed job blocks
    leasehold info QUEUE --lane NAME      a lane and the jobs that wait in it

    Of a worker, `held` are the jobs that it runs and those that it has claimed ahead for its `slots`, just now. Every
    ten seconds it tells of itself (`announced`); one that has not for 15 is `silent`. How many jobs it runs, and when
    Redis last answered it, its --health-file and --health-port tell.

    `leasehold jobs QUEUE` lists jobs, `leasehold job QUEUE JOB_ID` shows one. Nothing is changed. In a pipe, tables are
    columns with two spaces between, one line a row, names as they are (only control characters are escaped), and
    --watch writes them again and again; with --json it writes one document a line.

    Exit status: 0 done; 1 Redis could not be reached, or refused to show a queue; 2 an option or a setting is wrong;
    130 --watch was ended with Ctrl-C.
    """
    _check(queue, listed, lane, watched)
    with reach(where) as app:
        if watched:
            follow(lambda: look(app, queue), as_json=as_json)
        elif queue is None:
            seen = look(app, None)
            _show_all(seen, as_json)
            if seen.refused:
                context.exit(Exit.FAILED)
        else:
            if listed is not None:
                _show_lanes(app, queue, LaneState(listed), as_json)
            elif lane is not None:
                _show_lane(app, queue, lane, as_json)
            else:
                _show_queue(app, queue, as_json)
            note_unknown(app, queue)


def look(app: Leasehold, queue: str | None) -> Overview:
    """All queues and workers, or one queue and the workers that serve it."""
    workers = sorted(app.inspect.workers(), key=lambda view: view.id)
    if queue is not None:
        return Overview((app.inspect.queue(queue),), tuple(one for one in workers if queue in one.queues))
    names = sorted(app.inspect.queues())
    queues: list[QueueView] = []
    refused: list[Refused] = []
    for name in names[:QUEUES_SHOWN]:
        try:
            queues.append(app.inspect.queue(name))
        except Unreachable:
            raise
        except RedisError as error:  # as when another program has a key of this queue: the others are there to be seen
            refused.append(Refused(name, str(error)))
    return Overview(tuple(queues), tuple(workers), len(names[QUEUES_SHOWN:]), tuple(refused))


def _check(queue: str | None, listed: str | None, lane: str | None, watched: bool) -> None:
    given = [name for name, value in (("--lanes", listed), ("--lane", lane)) if value is not None]
    if given and queue is None:
        example = {"--lanes": "parked", "--lane": "NAME"}[given[0]]
        raise click.UsageError(f"{given[0]} goes with a queue, as in `leasehold info QUEUE {given[0]} {example}`.")
    given += ["--watch"] if watched else []
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} do not go together; expected one of them.")


def _show_all(seen: Overview, as_json: bool) -> None:
    if as_json:
        click.echo(dump(seen.to_json()))
    else:
        show(seen.tables(_now_ms()))
    if seen.left_out:
        note(f"There are {seen.left_out:,} more queues: `leasehold info QUEUE` shows one by its name.")
    for trouble in seen.troubles():
        tell(trouble)


def _show_queue(app: Leasehold, queue: str, as_json: bool) -> None:
    seen = look(app, queue)
    view = seen.queues[0]
    stopped = {
        state: lanes.first_lanes(app, queue, state)
        for state, count in ((LaneState.PARKED, view.parked_lanes), (LaneState.BLOCKED, view.blocked_lanes))
        if count
    }
    if as_json:
        shown = {
            "queues": [view],
            **{state.value: stopped.get(state, ([], False))[0] for state in (LaneState.PARKED, LaneState.BLOCKED)},
            "workers": seen.workers,
        }
        click.echo(dump(shown))
        return
    tables = [lanes.lane_table(queue, state, *found, _now_ms()) for state, found in stopped.items() if found[0]]
    show(
        [
            overview.queue_table([view]).without("notes"),
            overview.settings_table(view.settings, view),
            *tables,
            overview.worker_table(seen.workers, _now_ms()),
        ]
    )
    if view.newer_layout:
        reason = NewerLayout(queue, view.newer_layout, app.engine.layout)
        note(f"Workers of this release claim nothing from this queue. {reason}")


def _show_lanes(app: Leasehold, queue: str, state: LaneState, as_json: bool) -> None:
    found, more = lanes.first_lanes(app, queue, state)
    if as_json:
        click.echo(dump({"lanes": found, "more": more}))
        return
    show([lanes.lane_table(queue, state, found, more, _now_ms())])
    if more:
        note(f"There are more {state} lanes than these {len(found)}.")
    if state is LaneState.BLOCKED and found:
        first = found[0].blocked_by or "JOB"
        note(f"A blocked lane goes on when its failed job is retried or discarded: {lanes.way_on(queue, first)}.")


def _show_lane(app: Leasehold, queue: str, name: str, as_json: bool) -> None:
    view = app.inspect.lane(queue, name)
    page = app.inspect.page(queue, State.READY, limit=JOBS_SHOWN, lane=name)
    if as_json:
        waiting: Sequence[object] = [jobs.to_json(one, content=False) for one in page.jobs]
        click.echo(dump({"lane": view, "jobs": waiting, "total": page.total}))
        return
    click.echo(f"{lanes.describe(queue, view, _now_ms())}\n")
    title = f"{name}: {len(page.jobs):,} of {page.total:,} that wait, in their order"
    table = jobs.job_table(page.jobs, _now_ms(), title, "No jobs wait in it.")
    show([table.without("lane", "state")])


def _now_ms() -> float:
    return time.time() * limits.SECOND
