"""The commands `pause` and `resume`: whole queues, and single lanes."""

from __future__ import annotations

import difflib
from shlex import quote

import click

from leasehold.app.app import Leasehold
from leasehold.cli.completion import queue_names
from leasehold.cli.errors import NotDone, note, safe
from leasehold.cli.output.jobs import dump
from leasehold.cli.output.lanes import LISTED, first_lanes, lanes_of, way_on
from leasehold.cli.reach import Where, note_unknown, reach, reaching
from leasehold.core.shape import LaneState


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--lane", metavar="NAME", help="Park only this lane.")
@reaching
def pause(queue: str, lane: str | None, where: Where, as_json: bool) -> None:
    """Stop workers from starting jobs of a queue, or of one lane.

    Running jobs continue, and jobs can be enqueued. The pause lasts until `leasehold resume` with the same arguments,
    also across restarts.

    Exit status: 0 paused, also if it was paused before; 1 Redis could not be reached; 2 the command line or a setting
    is wrong.
    """
    with reach(where) as app:
        if lane is None:
            app.control.pause(queue)
            _say(as_json, queue, f"Queue {queue!r} is paused. To resume: leasehold resume {quote(queue)}")
        else:
            app.control.park_lane(queue, lane)
            undo = f"leasehold resume {quote(queue)} --lane {quote(lane)}"
            _say(as_json, queue, f"Lane {lane!r} of queue {queue!r} is parked. To resume: {undo}", [lane])
            _note_lane(app, queue, lane)
        note_unknown(app, queue)


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--lane", metavar="NAME", help="Resume this parked lane.")
@click.option("all_lanes", "--all-lanes", is_flag=True, help="Resume all parked lanes of the queue.")
@reaching
def resume(queue: str, lane: str | None, all_lanes: bool, where: Where, as_json: bool) -> None:
    """Resume a paused queue, or parked lanes.

    \b
    leasehold resume QUEUE               the queue; parked lanes stay parked
    leasehold resume QUEUE --lane NAME   a parked lane
    leasehold resume QUEUE --all-lanes   all parked lanes

    A lane is parked by `leasehold pause QUEUE --lane NAME`, or by a failure in a queue with `--lane-failure park`: see
    `leasehold configure`. A lane that a failed job blocks continues after you retry or discard that job.

    Exit status: 0 resumed, also if the queue was not paused; 1 the lane is not parked, or Redis could not be
    reached; 2 the command line or a setting is wrong.
    """
    if lane is not None and all_lanes:
        raise click.UsageError("--lane and --all-lanes cannot both be given.")
    with reach(where) as app:
        if lane is not None:
            _resume_lane(app, queue, lane, as_json)
        elif all_lanes:
            resumed = [one.name for one in lanes_of(app, queue, LaneState.PARKED) if _resumed(app, queue, one.name)]
            count = "1 lane continues" if len(resumed) == 1 else f"{len(resumed):,} lanes continue"
            _say(as_json, queue, f"Queue {queue!r}: {count}.", resumed)
        else:
            app.control.resume(queue)
            _say(as_json, queue, f"Queue {queue!r} continues.")
            _note_parked(app, queue)
        note_unknown(app, queue)


def _note_parked(app: Leasehold, queue: str) -> None:
    """Note the lanes that stay parked or blocked after the queue continues."""
    view = app.inspect.queue(queue)
    if view.parked_lanes:
        undo = f"leasehold resume {quote(queue)} --all-lanes"
        note(f"Lanes that are still parked: {view.parked_lanes:,}. To resume them: {undo}")
    if view.blocked_lanes:
        look = f"leasehold info {quote(queue)} --lanes blocked"
        note(f"Lanes that a failed job blocks: {view.blocked_lanes:,}. To see them: {look}")


def _note_lane(app: Leasehold, queue: str, lane: str) -> None:
    """Note that a failed job blocks the lane, or that the lane has no jobs: its name may be mistyped."""
    view = app.inspect.lane(queue, lane)
    if view.blocked_by is not None:
        note(
            f"A failed job blocks lane {lane!r}: {view.blocked_by!r}. The lane continues after you retry or "
            f"discard that job: {way_on(queue, view.blocked_by)}."
        )
    if not view.waiting and not view.busy:
        known = [one.name for state in LISTED for one in first_lanes(app, queue, state)[0] if one.name != lane]
        near = difflib.get_close_matches(lane, known, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        note(f"Lane {lane!r} of queue {queue!r} has no waiting or running job.{meant}")


def _resume_lane(app: Leasehold, queue: str, lane: str, as_json: bool) -> None:
    resumed = _resumed(app, queue, lane)
    if resumed:
        _say(as_json, queue, f"Lane {lane!r} of queue {queue!r} continues.", [lane])
    _note_lane(app, queue, lane)
    if not resumed:
        state = app.inspect.lane(queue, lane).state
        note_unknown(app, queue)
        raise NotDone(f"Lane {lane!r} of queue {queue!r} is not parked but {state.value}; nothing was changed.")


def _resumed(app: Leasehold, queue: str, lane: str) -> bool:
    return app.control.resume_lane(queue, lane)


def _say(as_json: bool, queue: str, text: str, lanes: list[str] | None = None) -> None:
    """Print the result. As JSON: the changed lanes, null for the whole queue."""
    click.echo(dump({"queue": queue, "lanes": lanes}) if as_json else safe(text))
