"""What is done with lanes, priorities, unique keys, persistent jobs, wishes to cancel and settings of a queue."""

from __future__ import annotations

from typing import Any, Final

from tenure.core import limits
from tenure.core.job import State
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.shape import Conflict, LaneFailure, LaneState, Progress, Shape, Until
from tenure.engines.kit.chunks import weight_of
from tests.faults.matrix import QUEUES, Operation, act, new, refs, settle
from tests.faults.shape_scene import LANES, LATER_MS, WINDOW_MS, unique
from tests.support.world import BOOM, World

MANY: Final = tuple(f"n{n}" for n in range(limits.MAX_BATCH // (1 + weight_of(Shape(lane="A"))) + 1))
"""One more than one call takes."""
HELD: Final = ("a1", "e1", "e2", "u1", "m1", "k1", "x1")
OUTCOMES: Final[dict[str, Outcome]] = {
    "complete": Completed(b"r", 600_000),
    "complete without a record": Completed(b"", 0),
    "retried": Retried(BOOM),
    "retried later": Retried(BOOM, LATER_MS),
    "failed": Failed(BOOM),
    "broken": Broken(BOOM),
    "released": Released(),
    "crashed": Crashed(),
    "unroutable": Unroutable(),
    "cancelled": Cancelled("x"),
}
ENDING: Final = (Completed, Failed, Broken, Cancelled)


def ends(id: str, outcome: Outcome) -> tuple[str, ...]:
    return (id,) if isinstance(outcome, ENDING) else ()


def enqueue(shape: Shape, *ids: str, adds: bool = True, calls: int = 1, **options: Any) -> Operation:
    names = ids or ("n",)
    return Operation(calls, new(*names, shape=shape, **options), adds=names if adds else ())


def contend(key: str, conflict: Conflict, *, adds: bool = False) -> Operation:
    return enqueue(unique(key, Until.ENDED, conflict), adds=adds)


def configured(policy: LaneFailure) -> Any:
    return lambda world: world.configure(lane_failure=policy)


def window_passed(world: World) -> None:
    world.pass_time(WINDOW_MS + 50)


ENQUEUES: Final = {
    "enqueue into a lane": enqueue(Shape(lane="G")),
    "enqueue into a busy lane": enqueue(Shape(lane="A")),
    "enqueue into a parked lane": enqueue(Shape(lane="C")),
    "enqueue into a blocked lane": enqueue(Shape(lane="D")),
    "enqueue into a new lane": enqueue(Shape(lane="N")),
    "enqueue into a lane for later": enqueue(Shape(lane="N"), delay_ms=5_000),
    "enqueue into a lane of two": enqueue(Shape(lane="E", lane_limit=2)),
    "widen a lane": enqueue(Shape(lane="G", lane_limit=3)),
    "enqueue several into a lane": enqueue(Shape(lane="A"), "n1x", "n2x", "n3x"),
    "enqueue many into a lane": enqueue(Shape(lane="A"), *MANY, calls=2),
    "enqueue at a high priority": enqueue(Shape(priority=100)),
    "enqueue at a low priority": enqueue(Shape(priority=-100)),
    "enqueue at a priority for later": enqueue(Shape(priority=5), delay_ms=5_000),
    "enqueue a persistent job": enqueue(Shape(persistent=True), "lasting"),
    "enqueue a unique job until started": enqueue(unique("new", Until.STARTED)),
    "enqueue a unique job until ended": enqueue(unique("new", Until.ENDED)),
    "enqueue a unique job for a window": enqueue(unique("new", Until.WINDOW)),
    "enqueue after the window": Operation(
        1, new("n", shape=unique("w", Until.WINDOW)), adds=("n",), before=window_passed
    ),
    "run once more after the one that runs": contend("m", Conflict.RERUN, adds=True),
    "run once more in a lane": enqueue(unique("m", Until.ENDED, Conflict.RERUN, "A")),
    "enqueue to a full queue": Operation(
        1, new("n", shape=Shape(lane="A")), before=lambda world: world.configure(max_length=3)
    ),
    "enqueue too many": Operation(1, new("n", "n2x"), before=lambda world: world.configure(max_length=27)),
    "enqueue as many as fit": Operation(
        1, new("n"), adds=("n",), before=lambda world: world.configure(max_length=1_000)
    ),
}
CONFLICTS: Final = {
    f"{conflict} where the other {what}": contend(key, conflict, adds=adds)
    for key, what in {"w": "waits", "s": "is scheduled", "k": "runs and has one to follow", "m": "runs"}.items()
    for conflict in Conflict
    for adds in [(key, conflict) == ("m", Conflict.RERUN)]
}
LANE_SETTLES: Final = {
    f"{name} in a lane ({policy})": Operation(
        1, settle(a1=outcome), ends=ends("a1", outcome), before=configured(policy)
    )
    for name, outcome in OUTCOMES.items()
    for policy in (LaneFailure if isinstance(outcome, Failed | Broken) else (LaneFailure.SKIP,))
}
SETTLES: Final = {
    f"{name} of {what}": Operation(1, settle(**{id: outcome}), ends=ends(id, outcome))
    for id, what in {
        "e1": "one of two",
        "u1": "one that another follows",
        "k1": "a persistent one",
        "x1": "one to be cancelled",
    }.items()
    for name, outcome in OUTCOMES.items()
} | {
    "settle all at once": Operation(
        1,
        settle(
            a1=Retried(BOOM),
            e1=Completed(b"", 0),
            e2=Failed(BOOM),
            u1=Broken(BOOM),
            m1=Released(),
            k1=Completed(b""),
            x1=Unroutable(),
        ),
        ends=("e1", "e2", "u1", "x1"),
    ),
    "progress": Operation(1, lambda scene: scene.engine.results.progress(scene.held["a1"], Progress(2, 2, "so far"))),
}
CLAIMS: Final = {
    "claim of lanes": Operation(1, act("lease", "w2", ["q"], 3)),
    "claim of all that may run": Operation(3, act("lease", "w2", QUEUES, 99)),
    "claim several of a lane": Operation(1, act("lease", "w2", ["q"], 9, of_lane={"q": 2})),
    "claim by hand": Operation(1, act("lease", "hand", ["q"], 9, 5_000)),
    "claim from a paused queue": Operation(
        1, act("lease", "w2", ["q"], 9), before=lambda world: world.configure(paused=True)
    ),
    "beat, and learn what is to be cancelled": Operation(
        1, lambda scene: scene.engine.heartbeat("w", ["q"], refs(scene, *HELD))
    ),
    "leave of a dead worker with all kinds": Operation(2, act("leave", "w", ["q"], True)),
    "leave with all kinds": Operation(2, act("leave", "w", ["q"])),
    "maintain all kinds": Operation(1, act("maintain", ["q"], ["t"])),
    "maintain after the window": Operation(1, act("maintain", ["q"], ["t"]), before=window_passed),
    "maintain when much is due": Operation(
        1, act("maintain", ["q"], ["t"]), before=lambda world: world.pass_time(LATER_MS + 50)
    ),
}
WAITING: Final = {
    "a2": "a job of a lane",
    "b1": "a job that waits for its retry in a lane",
    "c2": "a job of a parked lane",
    "f1": "an unroutable job of a lane",
    "u2": "a job that follows another",
    "w1": "a unique job",
    "s1": "a unique job that is scheduled",
    "p5": "a job of a priority",
}
ACTS: Final = (
    {f"cancel {what}": Operation(1, act("cancel", "q", id, "why"), ends=(id,)) for id, what in WAITING.items()}
    | {f"discard {what}": Operation(1, act("discard", "q", id), ends=(id,)) for id, what in WAITING.items()}
    | {f"retry {what}": Operation(1, act("retry", "q", id)) for id, what in WAITING.items()}
    | {
        f"cancel {what}, which runs": Operation(1, act("cancel", "q", id, "why"), ends=(id,))
        for id, what in {"a1": "one of a lane", "u1": "one that another follows", "x1": "one again"}.items()
    }
    | {
        "retry the job that blocks": Operation(1, act("retry", "q", "d1"), ends=("d1",)),
        "discard the job that blocks": Operation(1, act("discard", "q", "d1"), ends=("d1",)),
        "retry the job that parked": Operation(1, act("retry", "q", "c1"), ends=("c1",)),
        "discard the job that parked": Operation(1, act("discard", "q", "c1"), ends=("c1",)),
    }
)
ALL: Final = (*HELD, *(id for ids in LANES.values() for id in ids), "e3", *WAITING, "n1", "l5", "r1", "p1")
SWEEPS: Final = {
    f"cancel lane {lane}": Operation(8, act("cancel_all", "q", lane), ends=(*LANES.get(lane, ()), "u2", "x1"))
    for lane in "ABCDFGX"
} | {
    "cancel a lane of two": Operation(8, act("cancel_all", "q", "E"), ends=("e1", "e2", "e3")),
    "cancel all": Operation(8, act("cancel_all", "q"), ends=ALL),
    "purge ready jobs of all kinds": Operation(2, act("purge", "q", State.READY), ends=ALL),
    "purge scheduled jobs of all kinds": Operation(3, act("purge", "q", State.SCHEDULED), ends=("b1", "s1", "u2")),
    "purge unroutable jobs of all kinds": Operation(3, act("purge", "q", State.UNROUTABLE), ends=("f1",)),
    "purge jobs that block and park": Operation(1, act("purge", "q", State.FAILED), ends=("c1", "d1")),
}
SETTINGS: Final = {
    "park a lane": Operation(1, act("lanes.park_lane", "q", "G")),
    "park a busy lane": Operation(1, act("lanes.park_lane", "q", "A")),
    "park an idle lane": Operation(1, act("lanes.park_lane", "q", "N")),
    "park a parked lane": Operation(1, act("lanes.park_lane", "q", "C")),
    "resume a lane": Operation(1, act("lanes.resume_lane", "q", "C")),
    "resume a lane that is not parked": Operation(1, act("lanes.resume_lane", "q", "A")),
    "pause": Operation(2, act("settings.configure", "q", paused=True)),
    "go on": Operation(
        2, act("settings.configure", "q", paused=False), before=lambda world: world.configure(paused=True)
    ),
    "set a length": Operation(2, act("settings.configure", "q", max_length=7)),
    "set a policy": Operation(2, act("settings.configure", "q", lane_failure=LaneFailure.PARK)),
    "set nothing": Operation(2, act("settings.configure", "q")),
    "quiet a worker": Operation(1, act("presence.quiet", "w")),
    "let a worker go on": Operation(
        1, act("presence.quiet", "w", False), before=lambda world: world.run(world.engine.presence.quiet("w"))
    ),
    "quiet a worker that is not there": Operation(1, act("presence.quiet", "nobody")),
}
SHAPE_WRITING: Final[dict[str, Operation]] = (
    ENQUEUES | CONFLICTS | LANE_SETTLES | SETTLES | CLAIMS | ACTS | SWEEPS | SETTINGS
)
SHAPE_READING: Final[dict[str, Operation]] = {
    "lane": Operation(1, act("lanes.lane", "q", "A")),
    "lanes that are ready": Operation(1, act("lanes.lane_page", "q", LaneState.READY)),
    "lanes that are busy": Operation(1, act("lanes.lane_page", "q", LaneState.BUSY)),
    "lanes that are parked": Operation(1, act("lanes.lane_page", "q", LaneState.PARKED)),
    "page of a lane": Operation(2, act("page", "q", State.READY, lane="A")),
    "page of all that is ready": Operation(2, act("page", "q", State.READY)),
    "page of what is scheduled": Operation(2, act("page", "q", State.SCHEDULED)),
    "settings": Operation(1, act("settings_of", "q")),
    "result of a job with progress": Operation(1, act("results.result", "q", "a1")),
}
