"""The commands about queues, lanes and workers: `pause`, `resume`, `configure`, `quiet`, `stacks`."""

from __future__ import annotations

from shlex import quote

import click

from tenure.app.app import Tenure
from tenure.cli.completion import worker_names
from tenure.cli.output.lanes import way_on
from tenure.cli.output.overview import settings_table
from tenure.cli.output.tables import Answer
from tenure.cli.reach import QUEUE, reaching, unknown
from tenure.client.inspect import LISTED
from tenure.core import limits
from tenure.core.hints import did_you_mean
from tenure.core.partitions import MAX_PARTITIONS
from tenure.core.shape import LaneFailure, LaneState
from tenure.core.values import as_dict
from tenure.manage.documents import settings_document


@QUEUE
@click.option("--lane", metavar="NAME", help="Park only this lane.")
@reaching()
def pause(queue: str, lane: str | None, app: Tenure) -> Answer:
    """Running jobs continue, and jobs can be enqueued. The pause lasts until `tenure resume` with the same arguments,
    also across restarts."""
    undo = f"To resume: tenure resume {quote(queue)}"
    if lane is None:
        notes = unknown(app, queue)  # before the change, which adds the queue to the list
        app.control.pause(queue)
        return Answer({"queue": queue, "lanes": None}, f"Queue {queue!r} is paused. {undo}", notes)
    app.control.park_lane(queue, lane)
    text = f"Lane {lane!r} of queue {queue!r} is parked. {undo} --lane {quote(lane)}"
    return Answer({"queue": queue, "lanes": [lane]}, text, [*_about_lane(app, queue, lane), *unknown(app, queue)])


@QUEUE
@click.option("--lane", metavar="NAME", help="Resume this parked lane.")
@click.option("all_lanes", "--all-lanes", is_flag=True, help="Resume all parked lanes of the queue.")
@reaching()
def resume(queue: str, lane: str | None, all_lanes: bool, app: Tenure) -> Answer:
    """\b
    tenure resume QUEUE               the queue; parked lanes stay parked
    tenure resume QUEUE --lane NAME   a parked lane
    tenure resume QUEUE --all-lanes   all parked lanes

    A lane is parked by `tenure pause QUEUE --lane NAME`, or by a failure in a queue with `--lane-failure park`: see
    `tenure configure`. A lane that a failed job blocks continues after you retry or discard that job.
    """
    if lane is not None and all_lanes:
        raise click.UsageError("--lane and --all-lanes cannot both be given.")
    if lane is not None:
        return _resume_lane(app, queue, lane)
    if all_lanes:
        parked = [one.name for one in app.inspect.all_lanes(queue, LaneState.PARKED)[0]]
        resumed = [name for name in parked if app.control.resume_lane(queue, name)]
        count = "1 lane continues" if len(resumed) == 1 else f"{len(resumed):,} lanes continue"
        return Answer({"queue": queue, "lanes": resumed}, f"Queue {queue!r}: {count}.", unknown(app, queue))
    app.control.resume(queue)
    view = app.inspect.queue(queue)
    notes = []
    if view.parked_lanes:
        undo = f"tenure resume {quote(queue)} --all-lanes"
        notes.append(f"Lanes that are still parked: {view.parked_lanes:,}. To resume them: {undo}")
    if view.blocked_lanes:
        look = f"tenure info {quote(queue)} --lanes blocked"
        notes.append(f"Lanes that a failed job blocks: {view.blocked_lanes:,}. To see them: {look}")
    return Answer({"queue": queue, "lanes": None}, f"Queue {queue!r} continues.", [*notes, *unknown(app, queue)])


def _resume_lane(app: Tenure, queue: str, lane: str) -> Answer:
    name = f"Lane {lane!r} of queue {queue!r}"
    resumed = app.control.resume_lane(queue, lane)
    notes = [*_about_lane(app, queue, lane), *unknown(app, queue)]
    if resumed:
        return Answer({"queue": queue, "lanes": [lane]}, f"{name} continues.", notes)
    state = app.inspect.lane(queue, lane).state.value
    return Answer(None, None, notes, errors=[f"{name} is not parked but {state}; nothing was changed."])


def _about_lane(app: Tenure, queue: str, lane: str) -> list[str]:
    """Note that a failed job blocks the lane, or that the lane has no jobs: its name may be mistyped."""
    view = app.inspect.lane(queue, lane)
    notes = []
    if view.blocked_by is not None:
        notes.append(
            f"A failed job blocks lane {lane!r}: {view.blocked_by!r}. The lane continues after you retry or "
            f"discard that job: {way_on(queue, view.blocked_by)}."
        )
    if not view.waiting and not view.busy:
        found = [one for state in LISTED for one in app.inspect.all_lanes(queue, state, limits.PAGE_MAX)[0]]
        near = did_you_mean(lane, {one.name for one in found} - {lane})
        notes.append(f"Lane {lane!r} of queue {queue!r} has no waiting or running job.{near}")
    return notes


@QUEUE
@click.option(
    "--max-length", type=click.IntRange(0, limits.MAX_QUEUE_LENGTH), metavar="N",
    help="The most jobs that have not ended; the queue refuses further ones. 0: no limit.",
)  # fmt: skip
@click.option(
    "--lane-failure", type=click.Choice([rule.value for rule in LaneFailure]),
    help="What happens to a lane when one of its jobs fails for good. skip: it continues; block: it waits until you "
    "retry or discard the job; park: it is parked until `tenure resume QUEUE --lane NAME`.",
)  # fmt: skip
@click.option(
    "--partitions", type=click.IntRange(1, MAX_PARTITIONS), metavar="N",
    help="Spread the queue over N slots of a cluster. Workers move what has to move while work continues; `tenure "
    "info QUEUE` shows what is left.",
)  # fmt: skip
@reaching()
def configure(
    queue: str, max_length: int | None, lane_failure: str | None, partitions: int | None, app: Tenure
) -> Answer:
    """Without options it only shows the settings. They are stored in Redis and apply to every worker and client."""
    notes = unknown(app, queue)  # before a change, which adds the queue to the list
    if max_length is not None or lane_failure is not None or partitions is not None:
        app.control.configure(queue, max_length=max_length, lane_failure=lane_failure, partitions=partitions)
    view = app.inspect.queue(queue)
    return Answer(settings_document(view), [settings_table(view)], notes)


@click.argument("worker", shell_complete=worker_names)
@click.option("--undo", is_flag=True, help="Let a quiet worker start jobs again.")
@reaching()
def quiet(worker: str, undo: bool, app: Tenure) -> Answer:
    """WORKER is a name as `tenure info` shows it. The process stays, so you can inspect it, until you stop it with
    SIGTERM."""
    text = f"Worker {worker!r} starts no more jobs. To undo: tenure quiet {quote(worker)} --undo"
    if undo:
        text = f"Worker {worker!r} starts jobs again."
    if app.control.unquiet(worker) if undo else app.control.quiet(worker):
        return Answer({"worker": worker, "quiet": not undo}, text)
    return Answer({"worker": worker, "quiet": None}, None, errors=[_no_worker(app, worker)])


@click.argument("worker", shell_complete=worker_names)
@reaching()
def stacks(worker: str, app: Tenure) -> Answer:
    """WORKER is a name as `tenure info` shows it. The job that has run longest comes first. Local variables are not
    shown."""
    found = app.inspect.stacks(worker)
    document = {"worker": worker, "stacks": None if found is None else [as_dict(one) for one in found]}
    if found is None:
        is_there = any(view.id == worker for view in app.inspect.workers())
        silent = f"Worker {worker!r} did not answer within five seconds. A handler may block its event loop."
        return Answer(document, None, errors=[silent if is_there else _no_worker(app, worker)])
    texts = [f"Job {one.id} of queue {one.queue!r}, {one.task or 'a raw payload'}:\n{one.text}" for one in found]
    return Answer(document, "\n\n".join(texts) or f"Worker {worker!r} runs no handler.")


def _no_worker(app: Tenure, worker: str) -> str:
    meant = did_you_mean(worker, [view.id for view in app.inspect.workers()])
    return f"There is no worker {worker!r}.{meant or ' `tenure info` lists the workers.'}"
