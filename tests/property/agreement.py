"""What the inspector says of a queue must be what the model knows."""

from __future__ import annotations

from tenure.core.job import JobView, State
from tenure.core.shape import LaneState, UniqueRule
from tests.property.model import Model
from tests.property.model_lines import Job, Lane
from tests.support.world import World


def agree(world: World, model: Model, queue: str) -> None:
    """Fails where they differ: counts, order, lanes, settings, and each job."""
    view = world.run(world.engine.queue(queue))
    assert view.counts == {state: len(model.among(state)) for state in State}
    assert view.settings == model.settings
    assert view.parked_lanes == sum(lane.parked is not None for lane in model.lines.lanes.values())
    assert view.blocked_lanes == sum(bool(lane.blockers) for lane in model.lines.lanes.values())
    for state in State:
        if not view.counts[state]:
            continue
        page = world.run(world.engine.page(queue, state))
        found = [job.id for job in page.jobs]
        if state is State.READY:
            _same_lines(model, found)
        elif state is State.SCHEDULED:
            _same_times(model, found)
        else:
            assert sorted(found) == sorted(model.among(state))
        for job in page.jobs:
            _same(model.jobs[job.id], job)
    for name, lane in model.lines.lanes.items():
        _same_lane(world, queue, name, lane)
    if model.lines.may_run() and not model.settings.paused:
        assert world.command("LLEN", world.key("wake", queue)) == 1, "work is waiting, and nobody is told"


def _same_lines(model: Model, found: list[str]) -> None:
    """Jobs without a lane in their order; after those of priority 0, the next of each lane whose turn may come."""
    lines = model.lines
    heads = {id for id in found if model.jobs[id].lane and id not in lines.isolated}
    assert [id for id in found if id not in heads] == lines.in_order()
    may_run = [lane for lane in lines.lanes.values() if lane.may_run]
    assert len(heads) == len(may_run)
    for lane in may_run:
        assert len(heads & set(lane.waiting)) == 1
        assert lane.loose or lane.waiting[0] in heads
    before = len(lines.isolated) + sum(len(line) for level, line in lines.levels.items() if level >= 0)
    assert set(found[before : before + len(heads)]) == heads


def _same_times(model: Model, found: list[str]) -> None:
    expected = model.among(State.SCHEDULED)
    following = {id for id in expected if model.jobs[id].follows}
    timed = len(expected) - len(following)
    assert sorted(found[:timed]) == sorted(expected[:timed])
    dues = [model.jobs[id].due for id in found[:timed]]
    assert dues == sorted(dues)
    if found[:timed] != expected[:timed]:
        # What one step does by several calls is not all of one moment: the order that is found holds from now on.
        for number, id in enumerate(found[:timed]):
            model.jobs[id].due += number / 1_000
    assert set(found[timed:]) == following


def _same_lane(world: World, queue: str, name: str, lane: Lane) -> None:
    view = world.run(world.engine.lanes.lane(queue, name))
    waiting = [job.id for job in world.run(world.engine.page(queue, State.READY, lane=name)).jobs]
    if lane.loose:
        assert sorted(waiting) == sorted(lane.waiting)
        lane.waiting = waiting
    assert waiting == lane.waiting, "the order in a lane"
    assert (view.name, view.busy) == (name, len(lane.busy))
    assert view.parked_by == (lane.parked or None)
    assert (view.state is LaneState.PARKED) == (lane.parked is not None)
    if lane.limit is None:
        lane.limit, lane.loose = view.limit, view.limit > 1
    if lane.waiting or lane.busy:
        assert view.limit == lane.limit
    if lane.parked is None and lane.blockers:
        assert view.state is LaneState.BLOCKED
    elif lane.may_run:
        assert view.state is LaneState.READY
    elif lane.parked is None and len(lane.busy) >= lane.limit:
        assert view.state is LaneState.BUSY
    assert view.blocked_by == (lane.blockers[0] if lane.blockers else None)


def _same(job: Job, view: JobView) -> None:
    assert (view.failures, view.crashes, view.task) == (job.failures, job.crashes, job.task)
    assert (view.shape.lane, view.shape.priority) == (job.shape.lane, job.shape.priority)
    assert (view.shape.lane_limit, view.shape.persistent) == (job.shape.lane_limit, job.shape.persistent)
    rule, asked = view.shape.unique, job.shape.unique
    kept = UniqueRule(asked.key, asked.until) if asked else None
    assert rule == kept
    if view.state is not State.COMPLETED:
        assert view.payload == job.payload
    if view.state is State.ACTIVE:
        assert (view.worker, view.token) == (job.worker, job.token)
        assert (view.progress.current if view.progress else None) == job.progress
        assert view.cancelling == job.cancelling
    else:
        assert view.progress is None
        assert view.cancelling is None
