"""The commands `pause` and `resume`: whole queues, and single lanes."""

from __future__ import annotations

from shlex import quote

import click

from tenure.app.app import Tenure
from tenure.cli.completion import queue_names
from tenure.cli.errors import NotDone, note
from tenure.cli.output.lanes import way_on
from tenure.cli.output.tables import answer
from tenure.cli.reach import note_unknown, reaching
from tenure.client.inspect import LISTED
from tenure.core import limits
from tenure.core.hints import did_you_mean
from tenure.core.shape import LaneState


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--lane", metavar="NAME", help="Park only this lane.")
@reaching()
def pause(queue: str, lane: str | None, app: Tenure, as_json: bool) -> None:
    """Stop workers from starting jobs of a queue, or of one lane.

    Running jobs continue, and jobs can be enqueued. The pause lasts until `tenure resume` with the same arguments,
    also across restarts.

    Exit status: 0 paused, also if it was paused before; 1 Redis could not be reached; 2 the command line or a setting
    is wrong.
    """
    undo = f"To resume: tenure resume {quote(queue)}"
    if lane is None:
        note_unknown(app, queue)  # before the change, which adds the queue to the list
        app.control.pause(queue)
        answer(as_json, {"queue": queue, "lanes": None}, f"Queue {queue!r} is paused. {undo}")
    else:
        app.control.park_lane(queue, lane)
        text = f"Lane {lane!r} of queue {queue!r} is parked. {undo} --lane {quote(lane)}"
        answer(as_json, {"queue": queue, "lanes": [lane]}, text)
        _note_lane(app, queue, lane)
        note_unknown(app, queue)


@click.command()
@click.argument("queue", shell_complete=queue_names)
@click.option("--lane", metavar="NAME", help="Resume this parked lane.")
@click.option("all_lanes", "--all-lanes", is_flag=True, help="Resume all parked lanes of the queue.")
@reaching()
def resume(queue: str, lane: str | None, all_lanes: bool, app: Tenure, as_json: bool) -> None:
    """Resume a paused queue, or parked lanes.

    \b
    tenure resume QUEUE               the queue; parked lanes stay parked
    tenure resume QUEUE --lane NAME   a parked lane
    tenure resume QUEUE --all-lanes   all parked lanes

    A lane is parked by `tenure pause QUEUE --lane NAME`, or by a failure in a queue with `--lane-failure park`: see
    `tenure configure`. A lane that a failed job blocks continues after you retry or discard that job.

    Exit status: 0 resumed, also if the queue was not paused; 1 the lane is not parked, or Redis could not be
    reached; 2 the command line or a setting is wrong.
    """
    if lane is not None and all_lanes:
        raise click.UsageError("--lane and --all-lanes cannot both be given.")
    if lane is not None:
        _resume_lane(app, queue, lane, as_json)
    elif all_lanes:
        parked = [one.name for one in app.inspect.all_lanes(queue, LaneState.PARKED)[0]]
        resumed = [name for name in parked if app.control.resume_lane(queue, name)]
        count = "1 lane continues" if len(resumed) == 1 else f"{len(resumed):,} lanes continue"
        answer(as_json, {"queue": queue, "lanes": resumed}, f"Queue {queue!r}: {count}.")
    else:
        app.control.resume(queue)
        answer(as_json, {"queue": queue, "lanes": None}, f"Queue {queue!r} continues.")
        view = app.inspect.queue(queue)
        if view.parked_lanes:
            undo = f"tenure resume {quote(queue)} --all-lanes"
            note(f"Lanes that are still parked: {view.parked_lanes:,}. To resume them: {undo}")
        if view.blocked_lanes:
            look = f"tenure info {quote(queue)} --lanes blocked"
            note(f"Lanes that a failed job blocks: {view.blocked_lanes:,}. To see them: {look}")
    note_unknown(app, queue)


def _resume_lane(app: Tenure, queue: str, lane: str, as_json: bool) -> None:
    name = f"Lane {lane!r} of queue {queue!r}"
    resumed = app.control.resume_lane(queue, lane)
    if resumed:
        answer(as_json, {"queue": queue, "lanes": [lane]}, f"{name} continues.")
    _note_lane(app, queue, lane)
    if not resumed:
        note_unknown(app, queue)
        raise NotDone(f"{name} is not parked but {app.inspect.lane(queue, lane).state.value}; nothing was changed.")


def _note_lane(app: Tenure, queue: str, lane: str) -> None:
    """Note that a failed job blocks the lane, or that the lane has no jobs: its name may be mistyped."""
    view = app.inspect.lane(queue, lane)
    if view.blocked_by is not None:
        note(
            f"A failed job blocks lane {lane!r}: {view.blocked_by!r}. The lane continues after you retry or "
            f"discard that job: {way_on(queue, view.blocked_by)}."
        )
    if not view.waiting and not view.busy:
        known = {one.name for state in LISTED for one in app.inspect.all_lanes(queue, state, limits.PAGE_MAX)[0]} - {
            lane
        }
        note(f"Lane {lane!r} of queue {queue!r} has no waiting or running job.{did_you_mean(lane, known)}")
