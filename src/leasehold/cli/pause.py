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
@click.option("--lane", metavar="NAME", help="Set only this lane aside: it is parked, as after a failure.")
@reaching
def pause(queue: str, lane: str | None, where: Where, as_json: bool) -> None:
    """Let no worker start a job of a queue, or of one lane.

    What runs goes on, and jobs can be enqueued. It lasts until `leasehold resume` with the same words, whatever is
    restarted.

    Exit status: 0 it is paused, also when it was before; 1 Redis could not be reached; 2 the command line or a setting
    is wrong.
    """
    with reach(where) as app:
        if lane is None:
            app.control.pause(queue)
            _say(as_json, queue, f"Queue {queue!r} is paused. To go on: leasehold resume {quote(queue)}")
        else:
            app.control.park_lane(queue, lane)
            undo = f"leasehold resume {quote(queue)} --lane {quote(lane)}"
            _say(as_json, queue, f"Lane {lane!r} of queue {queue!r} is parked. To go on: {undo}", [lane])
            _note_lane(app, queue, lane)
        note_unknown(app, queue)


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--lane", metavar="NAME", help="Let this parked lane go on.")
@click.option("all_lanes", "--all-lanes", is_flag=True, help="Let all parked lanes of the queue go on.")
@reaching
def resume(queue: str, lane: str | None, all_lanes: bool, where: Where, as_json: bool) -> None:
    """Let a paused queue, or parked lanes, go on.

    \b
    leasehold resume QUEUE               the queue; parked lanes stay parked
    leasehold resume QUEUE --lane NAME   a lane that is parked
    leasehold resume QUEUE --all-lanes   all lanes that are parked

    A lane is parked by `leasehold pause QUEUE --lane NAME`, or by a failure in a queue with `--lane-failure park`: see
    `leasehold configure`. One that a failed job blocks goes on when that job is retried or discarded.

    Exit status: 0 it goes on, also when the queue was not paused; 1 the lane is not parked, or Redis could not be
    reached; 2 the command line or a setting is wrong.
    """
    if lane is not None and all_lanes:
        raise click.UsageError("--lane and --all-lanes do not go together; expected one of them.")
    with reach(where) as app:
        if lane is not None:
            _resume_lane(app, queue, lane, as_json)
        elif all_lanes:
            resumed = [one.name for one in lanes_of(app, queue, LaneState.PARKED) if _resumed(app, queue, one.name)]
            count = "1 lane goes on" if len(resumed) == 1 else f"{len(resumed):,} lanes go on"
            _say(as_json, queue, f"Queue {queue!r}: {count}.", resumed)
        else:
            app.control.resume(queue)
            _say(as_json, queue, f"Queue {queue!r} goes on.")
            _note_parked(app, queue)
        note_unknown(app, queue)


def _note_parked(app: Leasehold, queue: str) -> None:
    """Who lets a queue go on may believe that all of it goes on."""
    view = app.inspect.queue(queue)
    if view.parked_lanes:
        undo = f"leasehold resume {quote(queue)} --all-lanes"
        note(f"Lanes that are still parked: {view.parked_lanes:,}. To let them go on: {undo}")
    if view.blocked_lanes:
        look = f"leasehold info {quote(queue)} --lanes blocked"
        note(f"Lanes that a failed job blocks: {view.blocked_lanes:,}. To see them: {look}")


def _note_lane(app: Leasehold, queue: str, lane: str) -> None:
    """Who has steered a lane may have mistyped its name, or may not know that a failed job blocks it."""
    view = app.inspect.lane(queue, lane)
    if view.blocked_by is not None:
        note(
            f"A failed job blocks lane {lane!r}: {view.blocked_by!r}. The lane goes on when that job is retried or "
            f"discarded: {way_on(queue, view.blocked_by)}."
        )
    if not view.waiting and not view.busy:
        known = [one.name for state in LISTED for one in first_lanes(app, queue, state)[0] if one.name != lane]
        near = difflib.get_close_matches(lane, known, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        note(f"Lane {lane!r} of queue {queue!r} has no job that waits or runs.{meant}")


def _resume_lane(app: Leasehold, queue: str, lane: str, as_json: bool) -> None:
    resumed = _resumed(app, queue, lane)
    if resumed:
        _say(as_json, queue, f"Lane {lane!r} of queue {queue!r} goes on.", [lane])
    _note_lane(app, queue, lane)
    if not resumed:
        state = app.inspect.lane(queue, lane).state
        note_unknown(app, queue)
        raise NotDone(f"Lane {lane!r} of queue {queue!r} is not parked but {state.value}; nothing was changed.")


def _resumed(app: Leasehold, queue: str, lane: str) -> bool:
    return app.control.resume_lane(queue, lane)


def _say(as_json: bool, queue: str, text: str, lanes: list[str] | None = None) -> None:
    """What was done. As JSON: the lanes that were changed, null where it was the queue."""
    click.echo(dump({"queue": queue, "lanes": lanes}) if as_json else safe(text))
