"""A scene with a job in every place that a lane, a priority, a unique key or a wish to cancel can put it."""

from __future__ import annotations

from typing import Final

from tenure.core.job import Lease, NewJob
from tenure.core.outcome import Failed, Outcome, Retried, Unroutable
from tenure.core.shape import Conflict, LaneFailure, Progress, Shape, UniqueRule, Until
from tenure.core.worker_view import WorkerView
from tests.faults.matrix import QUEUES, Scene
from tests.support.world import BOOM, World

VIEW: Final = WorkerView("w", QUEUES, "host", 1, 1, 1, 1)
WINDOW_MS: Final = 5_000
LATER_MS: Final = 30_000
LANES: Final = {
    "A": ("a1", "a2", "a3"),
    "B": ("b1", "b2"),
    "C": ("c1", "c2"),
    "D": ("d1", "d2"),
    "F": ("f1", "f2"),
    "G": ("g1", "g2", "g3"),
}
"""Of A the first is held; of B it waits for its retry; C was parked by its first, D is blocked by it; F waits for a
task; G waits whole. E lets two run: e1 and e2 are held."""


def unique(
    key: str, until: Until = Until.ENDED, conflict: Conflict = Conflict.REJECT, lane: str | None = None
) -> Shape:
    return Shape(lane=lane, unique=UniqueRule(key, until, conflict, window_ms=WINDOW_MS, wait_ms=LATER_MS))


def shape_scene(world: World) -> Scene:
    """All on `q`, and one job on `p`; the worker `w` holds what its name says below."""
    held: dict[str, Lease] = {}

    def job(id: str, shape: Shape, delay_ms: int = 0, queue: str = "q") -> NewJob:
        return NewJob(queue, id, b"p", task="t", delay_ms=delay_ms, own_id=True, shape=shape)

    def put(*jobs: NewJob) -> None:
        assert all(answer.created for answer in world.enqueue(jobs))

    def hold(id: str, shape: Shape) -> Lease:
        put(job(id, shape))
        lease = held[id] = world.take_one()
        assert lease.record.id == id
        return lease

    def settled(id: str, lane: str, outcome: Outcome) -> None:
        assert world.settle(hold(id, Shape(lane=lane)), outcome)
        del held[id]

    world.configure(lane_failure=LaneFailure.PARK)
    settled("c1", "C", Failed(BOOM))
    world.configure(lane_failure=LaneFailure.BLOCK)
    settled("d1", "D", Failed(BOOM))
    settled("b1", "B", Retried(BOOM, LATER_MS))
    settled("f1", "F", Unroutable())
    hold("a1", Shape(lane="A"))
    for id in ("e1", "e2"):
        hold(id, Shape(lane="E", lane_limit=2))
    hold("u1", unique("k"))
    put(job("u2", unique("k", conflict=Conflict.RERUN, lane="G")))
    hold("m1", unique("m"))
    hold("k1", Shape(persistent=True))
    hold("x1", Shape(lane="X"))
    world.cancel("x1", "no longer wanted")
    assert world.run(world.engine.results.progress(held["a1"], Progress(1, 2)))
    waiting = [job(id, Shape(lane=lane)) for lane, ids in LANES.items() for id in (ids if lane == "G" else ids[1:])]
    put(
        *waiting,
        job("e3", Shape(lane="E", lane_limit=2)),
        job("w1", unique("w", Until.WINDOW)),
        job("s1", unique("s", Until.STARTED, Conflict.POSTPONE), LATER_MS),
        job("n1", unique("n", Until.STARTED)),
        job("p5", Shape(priority=5)),
        job("l5", Shape(priority=-5)),
        job("r1", Shape()),
        job("p1", Shape(lane="A"), queue="p"),
    )
    world.run(world.engine.announce(VIEW))
    names = {id for ids in LANES.values() for id in ids} | {*held, "u2", "e3", "w1", "s1", "n1", "p5", "l5", "r1"}
    known = {("q", id) for id in names} | {("p", "p1")}
    return Scene(world, held, known, ("c1", "d1"), ("x1",), ("k1", "lasting"), LANES)
