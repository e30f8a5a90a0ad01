"""What is done with jobs under limits and shares."""

from __future__ import annotations

from typing import Any, Final

from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.rates import LimitRule
from tenure.core.shape import Shape
from tenure.core.worker_view import WorkerView
from tests.faults.matrix import QUEUES, Operation, Scene, act, new, refs, settle
from tests.support.world import BOOM, World

GPU: Final = LimitRule("gpu", concurrency=2)
WIDE: Final = LimitRule("wide", cost=2, concurrency=3)
LATER_MS: Final = 30_000
OUTCOMES: Final[dict[str, Outcome]] = {
    "complete": Completed(b"r", 600_000),
    "failed": Failed(BOOM),
    "retried": Retried(BOOM),
    "retried later": Retried(BOOM, LATER_MS),
    "deferred": Retried(BOOM, LATER_MS, deferred=True),
    "deferred with its limit": Retried(BOOM, 1, deferred=True, limit="gpu"),
    "deferred with a limit of others": Retried(BOOM, 1, deferred=True, limit="wide"),
    "released": Released(),
    "crashed": Crashed(),
    "unroutable": Unroutable(),
}


def limited(*rules: LimitRule, **shape: Any) -> Shape:
    return Shape(limits=rules, **shape)


def limit_scene(world: World) -> Scene:
    """On `q` the worker `w` holds g1 and g2, all that gpu allows; others wait at its gate, one of them on `p`."""
    held: dict[str, Lease] = {}

    def put(shape: Shape, *ids: str, queue: str = "q", **options: Any) -> None:
        jobs = [NewJob(queue, id, b"p", task="t", own_id=True, shape=shape, **options) for id in ids]
        assert all(answer.created for answer in world.enqueue(jobs))

    put(limited(GPU), "t1")
    assert world.settle(world.take_one(), Retried(BOOM, LATER_MS))
    put(limited(WIDE), "u1")
    assert world.settle(world.take_one(), Unroutable())
    put(limited(WIDE, GPU), "w1", "w2")
    put(limited(GPU), "g1", "g2", "g3", "g4")
    for lease in world.take(3):
        held[lease.record.id] = lease
    assert sorted(held) == ["g1", "w1"]
    put(limited(GPU, lane="L"), "l1", "l2")
    put(Shape(share="s"), "s1", "s2")
    put(limited(GPU), "p1", queue="p")
    assert world.take(10, "other", ("p",)) == []
    world.run(world.engine.announce(WorkerView("w", QUEUES, "host", 1, 1, 1, 1)))
    names = {"t1", "u1", "w1", "w2", "g1", "g2", "g3", "g4", "l1", "l2", "s1", "s2"}
    known = {("q", id) for id in names} | {("p", "p1")}
    return Scene(world, held, known, lanes={"L": ("l1", "l2")})


def enqueue(shape: Shape, *ids: str) -> Operation:
    return Operation(1, new(*ids, shape=shape), adds=ids)


def freed(world: World) -> None:
    """A place is free, and a lane was opened for it."""
    world.run(world.engine.limits.set_limit("gpu", concurrency=3))


WAITING: Final = {
    "g2": "a job at a gate",
    "l1": "a job of a lane at a gate",
    "w2": "a job of two limits",
    "s1": "a job of a share",
    "t1": "a job that waits for its retry",
    "u1": "an unroutable job",
}
LIMIT_WRITING: Final[dict[str, Operation]] = (
    {
        "enqueue under a full limit": enqueue(limited(GPU), "n1", "n2x"),
        "enqueue under a new limit": enqueue(limited(LimitRule("new", interval_us=1)), "n1"),
        "enqueue into a lane under a limit": enqueue(limited(GPU, lane="N"), "n1"),
        "enqueue into a share": enqueue(Shape(share="s"), "n1"),
    }
    | {
        f"{name} under a limit": Operation(
            1, settle(g1=outcome), ends=("g1",) if isinstance(outcome, Completed | Failed) else ()
        )
        for name, outcome in OUTCOMES.items()
    }
    | {
        "settle all under limits": Operation(1, settle(g1=Completed(b"", 0), w1=Released()), ends=("g1",)),
        "claim under limits": Operation(1, act("lease", "w2", ["q"], 9)),
        "claim for a free place": Operation(1, act("lease", "w2", ["q"], 9), before=freed),
        "claim of all queues for a free place": Operation(3, act("lease", "w2", QUEUES, 9), before=freed),
        "claim by hand for a free place": Operation(1, act("lease", "hand", ["q"], 1, 5_000), before=freed),
        "beat under limits": Operation(1, lambda scene: scene.engine.heartbeat("w", ["q"], refs(scene, "g1", "w1"))),
        "leave under limits": Operation(2, act("leave", "w", ["q"])),
        "leave of a dead worker under limits": Operation(2, act("leave", "w", ["q"], True)),
        "maintain under limits": Operation(1, act("maintain", ["q"], ["t"])),
        "maintain limits when much is due": Operation(
            1, act("maintain", ["q"], ["t"]), before=lambda world: world.pass_time(LATER_MS + 50)
        ),
        "store a limit": Operation(1, act("limits.set_limit", "gpu", concurrency=3)),
        "store a rate": Operation(1, act("limits.set_limit", "wide", interval_us=1, burst=3)),
        "clear a limit": Operation(1, act("limits.clear_limit", "gpu"), before=freed),
        "clear a limit that is not stored": Operation(1, act("limits.clear_limit", "gpu")),
        "store a weight": Operation(1, act("limits.set_share", "s", 3)),
        "remove a weight": Operation(1, act("limits.set_share", "s", 1)),
        "park a lane at a gate": Operation(1, act("lanes.park_lane", "q", "L")),
        "cancel a lane at a gate": Operation(8, act("cancel_all", "q", "L"), ends=("l1", "l2")),
        "cancel all under limits": Operation(
            8, act("cancel_all", "q"), ends=("g1", "w1", *WAITING, "g3", "g4", "l2", "s2")
        ),
        "purge jobs at gates": Operation(
            2, act("purge", "q", State.READY), ends=("g2", "g3", "g4", "w2", "l1", "l2", "s1", "s2")
        ),
    }
    | {f"cancel {what}": Operation(1, act("cancel", "q", id, "why"), ends=(id,)) for id, what in WAITING.items()}
    | {f"discard {what}": Operation(1, act("discard", "q", id), ends=(id,)) for id, what in WAITING.items()}
    | {f"retry {what}": Operation(1, act("retry", "q", id)) for id, what in WAITING.items()}
)
LIMIT_READING: Final[dict[str, Operation]] = {
    "limit": Operation(1, act("limits.limit", "gpu")),
    "names of limits": Operation(1, act("limits.limit_names")),
    "weights of shares": Operation(1, act("limits.shares")),
    "page of what waits for limits": Operation(2, act("page", "q", State.READY)),
    "job at a gate": Operation(1, act("job", "q", "g2")),
}
