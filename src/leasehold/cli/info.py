"""The `info` command: queues, lanes, workers and jobs, as tables for people, plain columns for a pipe, or JSON."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import click

from leasehold.app import Leasehold
from leasehold.cli import jobs, lanes, overview
from leasehold.cli.errors import Exit, note
from leasehold.cli.jobs import dump
from leasehold.cli.reach import note_unknown, reach, reaching
from leasehold.cli.tables import show
from leasehold.cli.watch import watch
from leasehold.core import limits
from leasehold.core.errors import JobNotFound
from leasehold.core.job import State
from leasehold.core.shape import LaneState

_STATES: Final = [state.value for state in State]
_LANES: Final = [state.value for state in lanes.LISTED]


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user wants to see. At most one of the last five is asked for; all of them need a queue."""

    queue: str | None
    as_json: bool
    payload: bool
    job_id: str | None
    watched: bool
    state: str | None
    listed: str | None
    lane: str | None

    def check(self) -> None:
        """Raises `UsageError` for what does not go together."""
        of_queue = {"--state": self.state, "--lanes": self.listed, "--lane": self.lane}
        given = [name for name, value in of_queue.items() if value is not None]
        if given and (self.queue is None or self.job_id is not None):
            example = {"--state": "failed", "--lanes": "parked", "--lane": "NAME"}[given[0]]
            raise click.UsageError(
                f"{given[0]} goes with a queue and no job, as in `leasehold info QUEUE {given[0]} {example}`."
            )
        if len(given) > 1:
            raise click.UsageError(f"{given[0]} and {given[1]} do not go together; expected one of them.")
        for name, value in (("--payload", self.payload), ("--watch", self.watched)):
            if value and self.job_id is None:
                raise click.UsageError(f"{name} goes with one job, as in `leasehold info QUEUE JOB_ID {name}`.")


@click.command()
@click.argument("queue", required=False)
@click.argument("job_id", required=False)
@click.option(
    "--state", type=click.Choice(_STATES),
    help=f"Show the jobs of QUEUE in this state: the first {limits.PAGE_MAX}, of ended ones the newest.",
)  # fmt: skip
@click.option(
    "listed", "--lanes", type=click.Choice(_LANES), help=f"Show lanes of QUEUE in this state, up to {limits.PAGE_MAX}."
)
@click.option("--lane", metavar="NAME", help="Show one lane of QUEUE, and the first jobs that wait in it.")
@click.option("watched", "--watch", is_flag=True, help="Follow the job until it has ended.")
@click.option("--payload", is_flag=True, help="Show the payload and the result of the job, too.")
@reaching
@click.pass_context
def info(
    context: click.Context,
    queue: str | None,
    job_id: str | None,
    url: str | None,
    namespace: str | None,
    state: str | None,
    listed: str | None,
    lane: str | None,
    watched: bool,
    payload: bool,
    as_json: bool,
) -> None:
    """Show queues and workers, lanes, or jobs.

    \b
    leasehold info                        all queues and workers
    leasehold info QUEUE                  one queue: settings, lanes, workers
    leasehold info QUEUE --state failed   its failed jobs
    leasehold info QUEUE --lanes parked   its parked lanes
    leasehold info QUEUE --lanes blocked  lanes that a failed job blocks
    leasehold info QUEUE --lane NAME      a lane and the jobs that wait in it
    leasehold info QUEUE JOB_ID           one job: progress, times, error
    leasehold info QUEUE JOB_ID --watch   the same until it has ended

    Nothing is changed. In a pipe, tables are columns with two spaces between, one line a row, names as they are (only
    control characters are escaped), and --watch writes a line for each change.

    Exit status: 0 done; 1 Redis could not be reached, there is no such job, or a job that was watched did not complete;
    2 an option or a setting is wrong.
    """
    wish = Wish(queue, as_json, payload, job_id, watched, state, listed, lane)
    wish.check()
    with reach(url, namespace) as app:
        context.exit(_show(app, wish))


def _show(app: Leasehold, wish: Wish) -> Exit:
    if wish.queue is None:
        _show_all(app, wish)
    elif wish.job_id is not None and wish.watched:
        return watch(app, wish.queue, wish.job_id, content=wish.payload, as_json=wish.as_json)
    elif wish.job_id is not None:
        _show_job(app, wish.queue, wish.job_id, wish)
    else:
        if wish.state is not None:
            _show_page(app, wish.queue, State(wish.state), wish)
        elif wish.listed is not None:
            _show_lanes(app, wish.queue, LaneState(wish.listed), wish)
        elif wish.lane is not None:
            _show_lane(app, wish.queue, wish.lane, wish)
        else:
            _show_queue(app, wish.queue, wish)
        note_unknown(app, wish.queue)
    return Exit.OK


def _show_all(app: Leasehold, wish: Wish) -> None:
    queues = [app.inspect.queue(name) for name in sorted(app.inspect.queues())]
    workers = sorted(app.inspect.workers(), key=lambda view: view.id)
    if wish.as_json:
        shown = {"queues": map(overview.queue_json, queues), "workers": map(overview.worker_json, workers)}
        click.echo(dump({name: list(views) for name, views in shown.items()}))
    else:
        show([overview.queue_table(queues), overview.worker_table(workers, _now_ms())])


def _show_queue(app: Leasehold, queue: str, wish: Wish) -> None:
    view = app.inspect.queue(queue)
    workers = sorted((one for one in app.inspect.workers() if queue in one.queues), key=lambda one: one.id)
    stopped = {
        state: lanes.first_lanes(app, queue, state)
        for state, count in ((LaneState.PARKED, view.parked_lanes), (LaneState.BLOCKED, view.blocked_lanes))
        if count
    }
    if wish.as_json:
        shown = {
            "queues": [overview.queue_json(view)],
            **{
                state.value: [lanes.to_json(lane) for lane in stopped.get(state, ([], False))[0]]
                for state in (LaneState.PARKED, LaneState.BLOCKED)
            },
            "workers": [overview.worker_json(one) for one in workers],
        }
        click.echo(dump(shown))
        return
    tables = [lanes.lane_table(queue, state, *found, _now_ms()) for state, found in stopped.items() if found[0]]
    show(
        [
            overview.queue_table([view]).without(("notes",)),
            overview.settings_table(view.settings, view),
            *tables,
            overview.worker_table(workers, _now_ms()),
        ]
    )


def _show_job(app: Leasehold, queue: str, job_id: str, wish: Wish) -> None:
    view = app.inspect.job(queue, job_id)
    if view is None:
        raise JobNotFound(f"There is no job {job_id!r} in queue {queue!r}, or its record is no longer kept.")
    if wish.as_json:
        click.echo(dump(jobs.to_json(view, content=wish.payload)))
    else:
        click.echo(jobs.describe(view, _now_ms(), content=wish.payload))


def _show_page(app: Leasehold, queue: str, state: State, wish: Wish) -> None:
    page = app.inspect.page(queue, state)
    if wish.as_json:
        click.echo(dump(jobs.page_json(page)))
    else:
        show([jobs.state_table(queue, state, page, _now_ms())])


def _show_lanes(app: Leasehold, queue: str, state: LaneState, wish: Wish) -> None:
    found, more = lanes.first_lanes(app, queue, state)
    if wish.as_json:
        click.echo(dump({"lanes": [lanes.to_json(lane) for lane in found], "more": more}))
        return
    show([lanes.lane_table(queue, state, found, more, _now_ms())])
    if more:
        note(f"There are more {state} lanes than these {len(found)}.")
    if state is LaneState.BLOCKED and found:
        first = found[0].blocked_by or "JOB"
        note(f"A blocked lane goes on when its failed job is retried or discarded: {lanes.way_on(queue, first)}.")


def _show_lane(app: Leasehold, queue: str, name: str, wish: Wish) -> None:
    view = app.inspect.lane(queue, name)
    page = app.inspect.page(queue, State.READY, lane=name)
    if wish.as_json:
        click.echo(dump({"lane": lanes.to_json(view), **jobs.page_json(page)}))
        return
    click.echo(f"{lanes.describe(queue, view, _now_ms())}\n")
    title = f"{name}: {len(page.jobs):,} of {page.total:,} that wait, in their order"
    table = jobs.page_table(page, _now_ms(), title, "No jobs wait in it.")
    show([table.without(("lane",))])


def _now_ms() -> float:
    return time.time() * limits.SECOND
