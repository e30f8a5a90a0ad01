"""Whether what a claim got was allowed, and whether it had to get more. Whose turn it is, is the engine's choice."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.engines.kit.config import PRIORITY_TURN
from tests.property.model import ALONE, QUANTUM_MS, Model
from tests.property.model_lines import Job, Lane


@dataclass(frozen=True, slots=True)
class Claim:
    """`got`: ids in the order of the answer. `alone`: it is one that runs alone. `asked`: the worker is to
    prepare for one. `ready`: the worker could run one alone. `isolated`: what is isolated afterwards.
    """

    now: int
    worker: str
    limit: int
    of_lane: int
    got: list[str]
    isolated: list[str]
    alone: bool
    asked: bool
    ready: bool


def judge(model: Model, claim: Claim) -> None:
    """Fails when the claim is wrong, and takes what it got out of the model's lines."""
    if model.settings.paused:
        assert not claim.got, "a paused queue gives nothing"
        return
    assert len(claim.got) == len(set(claim.got)) <= claim.limit
    ready = claim.ready
    waited = bool(model.lines.isolated)
    if ready:
        _return_the_parked(model)
    lines, jobs = model.lines, model.jobs
    suspects = [id for id in claim.got if jobs[id].doubtful >= ALONE]
    moved = [id for id in suspects if id not in lines.isolated]
    moved += [id for id in claim.isolated if id not in lines.isolated]
    assert all(jobs[id].doubtful >= ALONE for id in moved), "only suspects are isolated"
    assert claim.alone == bool(suspects)
    assert not suspects or claim.got == suspects == [*lines.isolated, *moved][:1], "the first, and alone"
    if lines.isolated:
        assert not moved or not suspects
        _judge_wait(model, claim, ready, suspects)
    elif moved and not waited and len(claim.got) - len(suspects) < claim.limit:
        _judge_wait(model, claim, ready and len(claim.got) == len(suspects), suspects)
    _judge_lanes(model, claim, moved)
    _judge_levels(model, claim, moved)
    expected = [id for id in [*lines.isolated, *moved] if id not in suspects]
    for id in moved:
        lines.take_out(jobs[id])
        lines.isolate(jobs[id], first=False)
    for id in claim.got:
        lines.take_out(jobs[id])
    assert claim.isolated == expected == lines.isolated
    if len(claim.got) < claim.limit and not claim.alone:
        assert not lines.may_run(), "there was more to claim"


def _return_the_parked(model: Model) -> None:
    """A suspect whose lane has been parked since goes back into it, where a claim that could take it meets it."""
    for job in [model.jobs[id] for id in model.lines.isolated]:
        if not job.lane or model.lines.lane(job.lane).parked is None:
            return
        model.lines.isolated.remove(job.id)
        model.lines.place(job, first=True)


def _judge_wait(model: Model, claim: Claim, ready: bool, suspects: list[str]) -> None:
    """One that is to run alone is taken, or the worker is asked to prepare for it, unless another was."""
    assert ready == bool(suspects)
    if not ready:
        assert claim.asked == (claim.now - model.asked >= QUANTUM_MS)
        model.asked = claim.now if claim.asked else model.asked


def _judge_lanes(model: Model, claim: Claim, moved: list[str]) -> None:
    for name, lane in model.lines.lanes.items():
        got = [id for id in claim.got if model.jobs[id].lane == name and id in lane.waiting]
        got = [id for id in got if id not in moved]
        aside = [id for id in moved if id in lane.waiting]
        if not got and not aside:
            continue
        assert lane.parked is None, "a parked lane gives nothing"
        out = set(got) | set(aside)
        if not lane.loose:
            front = lane.waiting[: len(out)]
            assert set(front) == out, "a lane gives its first"
            assert [id for id in front if id in got] == got, "in its order"
        limit = lane.limit or 1
        if limit > 1:
            assert len(lane.busy) + len(out) <= limit, "no more of a lane than may run"
        else:
            _judge_batch(model, claim, lane, got, aside)


def _judge_batch(model: Model, claim: Claim, lane: Lane, got: list[str], aside: list[str]) -> None:
    """Of a lane that runs one at a time: one, or several of one task that follow each other."""
    assert not lane.busy, "one at a time"
    assert (len(got), len(aside)) == (0, 1) or (len(got) <= claim.of_lane and not aside)
    assert len({model.jobs[id].task for id in got}) <= 1, "a batch is of one task"
    places = [claim.got.index(id) for id in got]
    assert not places or places == list(range(places[0], places[0] + len(got)))


def _judge_levels(model: Model, claim: Claim, moved: list[str]) -> None:
    """Each in its order, and the higher priority first, but for one of so many claims."""
    lines, jobs = model.lines, model.jobs
    for line in lines.levels.values():
        got = [id for id in claim.got if id in line and id not in moved]
        out = set(got) | {id for id in moved if id in line}
        front = line[: len(out)]
        assert set(front) == out, "first come, first served"
        assert [id for id in front if id in got] == got
    left = {level: [id for id in line if id not in moved] for level, line in lines.levels.items()}
    for id in claim.got:
        if id in lines.isolated or id in moved:
            continue
        level = _level(jobs[id])
        higher = [other for other, ids in left.items() if other > level and ids]
        if higher:
            assert model.passed >= PRIORITY_TURN - 1, "the higher priority comes first"
            model.passed = 0
        else:
            model.passed += 1
        if jobs[id].lane is None:
            left[level].remove(id)


def _level(job: Job) -> int:
    return 0 if job.lane else job.shape.priority
