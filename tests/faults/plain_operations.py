"""What a producer, a worker and an operator do with jobs that are just next in line, and the scene for it."""

from __future__ import annotations

from typing import Any

from tenure.core import limits
from tenure.core.job import NewJob, State
from tenure.core.latency import Times
from tenure.core.minutes import Ends
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Released, Retried, Unroutable
from tenure.core.steps import Steps
from tenure.core.waiting import Lead, calls_of, led_by
from tenure.core.worker_view import WorkerView
from tests.faults.matrix import QUEUES, Operation, Scene, act, new, refs, settle
from tests.support.engines import LEASE_MS
from tests.support.world import BOOM, World

ENDED = ("f", "b", "x", "c")
HELD = ("h1", "h2", "h3", "p1")


def plain_scene(world: World) -> Scene:
    """Jobs in every state on `q`, some on `p`; the worker `w` holds some of both."""
    world.put(*ENDED, "u", task="t", own_id=True)
    ends = (Failed(BOOM), Broken(BOOM), Cancelled(""), Completed(b"r", 600_000), Unroutable())
    assert all(world.run(world.engine.settle(list(zip(world.take(), ends, strict=True)))))
    world.put("h1", "h2", "h3", "r1", "r2", task="t", own_id=True)
    world.put("p1", "p2", queue="p", own_id=True)
    world.put("s1", "s2", delay_ms=LEASE_MS * 3, own_id=True)
    held = world.take(3) + world.take(1, queues=("p",))
    world.run(world.engine.announce(VIEW))
    known = {("q", id) for id in (*ENDED, "u", "h1", "h2", "h3", "r1", "r2", "s1", "s2")}
    return Scene(world, {lease.record.id: lease for lease in held}, known | {("p", "p1"), ("p", "p2")}, ENDED)


def led(scene: Scene) -> Steps[Any]:
    """The claim of an idle worker."""
    wait = scene.engine.wait("w2", ["q"], 20)
    assert isinstance(wait, Lead)
    return led_by(wait.command, scene.engine.lease("w2", ["q"], 1))


MANY = tuple(f"n{n}" for n in range(2 * limits.MAX_BATCH + 1))
VIEW = WorkerView("w", QUEUES, "host", 1, 1, 1, 1)

PLAIN_WRITING: dict[str, Operation] = {
    "enqueue": Operation(1, new("n"), adds=("n",)),
    "enqueue later": Operation(1, new("n", delay_ms=5_000), adds=("n",)),
    "enqueue an id that exists": Operation(1, new("r1", "h1", "c", "s1")),
    "enqueue to a new queue": Operation(2, new("n", queue="new"), adds=("n",)),
    "enqueue many": Operation(3, new(*MANY), adds=MANY),
    "enqueue to two queues": Operation(
        2, lambda scene: scene.engine.enqueue([NewJob("q", "n", b""), NewJob("p", "n", b"")]), adds=("n",)
    ),
    "lease": Operation(1, lambda scene: scene.engine.lease("w2", ["q"], 1)),
    "lease from two queues": Operation(2, lambda scene: scene.engine.lease("w2", QUEUES, 9)),
    "lease more": Operation(1, lambda scene: scene.engine.lease("w", ["q"], 9)),
    "wait and lease in one write": Operation(1, lambda scene: led(scene)),
    "lease by hand": Operation(1, lambda scene: scene.engine.lease("hand", ["q"], 1, 5_000)),
    "lease from an empty queue": Operation(
        1, lambda scene: scene.engine.lease("w2", ["nothing"], 9), before=lambda world: world.take(queues=["nothing"])
    ),
    "complete": Operation(1, settle(h1=Completed(b"r", 600_000)), ends=("h1",)),
    "complete without a record": Operation(1, settle(h1=Completed(b"", 0)), ends=("h1",)),
    "retried": Operation(1, settle(h1=Retried(BOOM))),
    "retried later": Operation(1, settle(h1=Retried(BOOM, 5_000))),
    "failed": Operation(1, settle(h1=Failed(BOOM)), ends=("h1",)),
    "broken": Operation(1, settle(h1=Broken(BOOM)), ends=("h1",)),
    "released": Operation(1, settle(h1=Released())),
    "crashed": Operation(1, settle(h1=Crashed())),
    "parked": Operation(1, settle(h1=Unroutable())),
    "cancelled": Operation(1, settle(h1=Cancelled("x")), ends=("h1",)),
    "settle one of each on one queue": Operation(
        1, settle(h1=Completed(b"", 0), h2=Retried(BOOM), h3=Released()), ends=("h1",)
    ),
    "settle on two queues": Operation(
        2, settle(h1=Completed(b"", 0), h2=Released(), h3=Retried(BOOM), p1=Completed(b"", 0)), ends=("h1", "p1")
    ),
    "extend": Operation(1, lambda scene: scene.engine.extend(scene.held["h1"], 60_000)),
    "heartbeat": Operation(1, lambda scene: scene.engine.heartbeat("w", ["q"], refs(scene, *HELD))),
    "heartbeat on two queues": Operation(2, lambda scene: scene.engine.heartbeat("w", QUEUES, refs(scene, *HELD))),
    "leave": Operation(2, lambda scene: scene.engine.leave("w", ["q"])),
    "leave of a dead worker": Operation(2, lambda scene: scene.engine.leave("w", ["q"], crashed=True)),
    "leave two queues": Operation(3, lambda scene: scene.engine.leave("w", QUEUES)),
    "maintain": Operation(1, lambda scene: scene.engine.maintain(["q"], ["t"])),
    "maintain two queues": Operation(2, lambda scene: scene.engine.maintain(QUEUES, ["t"])),
    "announce": Operation(1, lambda scene: scene.engine.announce(VIEW)),
    "note ends": Operation(1, act("history.note_ends", "q", Ends(completed=2, failed=1, times=Times({1: 2}, {1: 3})))),
    "retry an end": Operation(1, act("retry", "q", "f")),
    "retry an end with another payload": Operation(1, act("retry", "q", "f", b"edited")),
    "retry a scheduled job": Operation(1, act("retry", "q", "s1")),
    "retry a parked job": Operation(1, act("retry", "q", "u")),
    "retry an active job": Operation(1, act("retry", "q", "h1")),
    "reschedule a ready job": Operation(1, act("delays.reschedule", "q", "r1", delay_ms=5_000)),
    "reschedule a scheduled job": Operation(1, act("delays.reschedule", "q", "s1", delay_ms=0, priority=7)),
    "reschedule a parked job": Operation(1, act("delays.reschedule", "q", "u", delay_ms=5_000)),
    "raise the priority of a ready job": Operation(1, act("delays.reschedule", "q", "r1", priority=7)),
    "cancel a ready job": Operation(1, act("cancel", "q", "r1"), ends=("r1",)),
    "cancel a scheduled job": Operation(1, act("cancel", "q", "s1"), ends=("s1",)),
    "cancel a parked job": Operation(1, act("cancel", "q", "u"), ends=("u",)),
    "discard a ready job": Operation(1, act("discard", "q", "r1"), ends=("r1",)),
    "discard a scheduled job": Operation(1, act("discard", "q", "s1"), ends=("s1",)),
    "discard a parked job": Operation(1, act("discard", "q", "u"), ends=("u",)),
    "discard an end": Operation(1, act("discard", "q", "f"), ends=("f",)),
    "purge ready jobs": Operation(2, act("purge", "q", State.READY), ends=("r1", "r2")),
    "purge scheduled jobs": Operation(3, act("purge", "q", State.SCHEDULED), ends=("s1", "s2")),
    "purge parked jobs": Operation(3, act("purge", "q", State.UNROUTABLE), ends=("u",)),
    "purge ends": Operation(1, act("purge", "q", State.FAILED), ends=("f",)),
}


def waited(scene: Scene) -> Steps[Any]:
    """The wait alone. What it takes is adopted by the next claim."""
    calls = calls_of(scene.engine.wait("w", ["q", "p"], 20))
    assert calls is not None
    return calls


PLAIN_READING: dict[str, Operation] = {
    "wait": Operation(1, lambda scene: waited(scene)),
    "result": Operation(1, act("results.result", "q", "r1")),
    "queues": Operation(1, act("queues")),
    "queue": Operation(1, act("queue", "q")),
    "job": Operation(1, act("job", "q", "h1")),
    "page": Operation(2, act("page", "q", State.READY)),
    "workers": Operation(3, act("workers")),
}
