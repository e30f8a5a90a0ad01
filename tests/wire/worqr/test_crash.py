"""Every operation is cut before and after each of its calls; then only maintenance helps. Each call may come twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from tenure.compat.worqr.raw import RawEngine
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.steps import Command, Invoke, Reply, Steps
from tenure.core.worker_view import WorkerView
from tenure.engines.worqr.records import name_of
from tests.support import worqr as layout
from tests.support.stepping import Crashed as Cut
from tests.support.stepping import Send, Session, attempt, send_with, step
from tests.wire.worqr.bench import BOOM, UNIQUE, Bench
from tests.wire.worqr.original import R

Operation = Callable[["Scene"], Steps[Any]]


class Scene:
    """Tasks in every state. `ours` holds h1 to h3, an original holds t1."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.engine = RawEngine(R, bench.config)
        original = bench.original("original", "q")
        for task, outcome in (
            ("failed", Failed(BOOM)),
            ("parked", Unroutable()),
            ("later", Retried(BOOM, 30_000)),
        ):
            bench.run(bench.engine.enqueue([NewJob("q", "", task.encode(), task="t")]))
            assert bench.settle(bench.take(1)[0], outcome)
        bench.put("t1")
        assert original.dequeue("q") is not None
        bench.put("h1", shape=UNIQUE)
        bench.put("h2", "h3", "r1", "r2", "same", "same")
        self.held = {lease.record.payload.decode(): lease for lease in bench.take(3)}
        bench.announce("ours")
        original.die()

    def settle(self, **outcomes: Outcome) -> Steps[Any]:
        return self.bench.engine.settle([(self.held[task], outcome) for task, outcome in outcomes.items()])

    def leases(self) -> list[Lease]:
        return list(self.held.values())

    def id_of(self, state: State) -> str:
        return self.bench.run(self.bench.engine.page("q", state)).jobs[0].id


def put(*tasks: str, **options: Any) -> Operation:
    return lambda scene: scene.bench.engine.enqueue([NewJob("q", "", task.encode(), **options) for task in tasks])


KNOWN: Final = ("parked", "later", "t1", "h1", "h2", "h3", "r1", "r2", "same", "same")
VIEW: Final = WorkerView("ours", ("q",), "host", 1, 1, 1, 1)
OPERATIONS: Final[dict[str, tuple[Operation, tuple[str, ...], tuple[str, ...]]]] = {
    # The operation, the tasks that it may end, and those that it may add.
    "enqueue": (put("new"), (), ("new",)),
    "enqueue a unique task": (put("new", shape=UNIQUE), (), ("new",)),
    "enqueue one that is marked": (put("h1", shape=UNIQUE), (), ()),
    "lease": (lambda scene: scene.engine.lease("other", ["q"], 2), (), ()),
    "lease by hand": (lambda scene: scene.engine.lease("hand", ["q"], 1, 5_000), (), ()),
    "lease of nothing": (lambda scene: scene.engine.lease("other", ["nothing"], 2), (), ()),
    "complete": (lambda scene: scene.settle(h1=Completed(b"1")), ("h1",), ()),
    "retry": (lambda scene: scene.settle(h1=Retried(BOOM)), (), ()),
    "retry later": (lambda scene: scene.settle(h1=Retried(BOOM, 5_000)), (), ()),
    "fail": (lambda scene: scene.settle(h1=Failed(BOOM)), ("h1",), ()),
    "broken": (lambda scene: scene.settle(h1=Broken(BOOM)), ("h1",), ()),
    "release": (lambda scene: scene.settle(h1=Released()), (), ()),
    "crash": (lambda scene: scene.settle(h1=Crashed()), (), ()),
    "leave to others": (lambda scene: scene.settle(h1=Unroutable()), (), ()),
    "cancelled": (lambda scene: scene.settle(h1=Cancelled("x")), ("h1",), ()),
    "one of each": (lambda scene: scene.settle(h1=Completed(b""), h2=Retried(BOOM), h3=Released()), ("h1",), ()),
    "extend": (lambda scene: scene.engine.extend(scene.held["h1"], 60_000), (), ()),
    "heartbeat": (lambda scene: scene.engine.heartbeat("ours", ["q"], [one.ref for one in scene.leases()]), (), ()),
    "announce": (lambda scene: scene.engine.announce(VIEW), (), ()),
    "leave": (lambda scene: scene.engine.leave("ours", ["q"]), (), ()),
    "leave of a dead worker": (lambda scene: scene.engine.leave("ours", ["q"], crashed=True), (), ()),
    "maintain": (lambda scene: scene.bench.engine.maintain(["q"], ["t"]), (), ()),
    "cancel one that waits": (lambda scene: scene.engine.cancel("q", name_of(b"r1")), ("r1",), ()),
    "cancel one of two": (lambda scene: scene.engine.cancel("q", name_of(b"same")), ("same",), ()),
    "cancel one that waits for its retry": (
        lambda scene: scene.engine.cancel("q", scene.id_of(State.SCHEDULED)),
        ("later",),
        (),
    ),
    "cancel all": (lambda scene: scene.engine.cancel_all("q"), KNOWN, ()),
    "cancel a task": (lambda scene: scene.engine.cancel_tasks("q", b"same"), ("same", "same"), ()),
    "note a request": (lambda scene: scene.engine.note_request("ours", "q", b"h2"), ("h2",), ()),
    "discard": (lambda scene: scene.engine.discard("q", name_of(b"r1")), ("r1",), ()),
    "discard a record": (lambda scene: scene.engine.discard("q", scene.id_of(State.FAILED)), (), ()),
    "retry a record": (lambda scene: scene.engine.retry("q", scene.id_of(State.FAILED)), (), ("failed",)),
    "purge": (lambda scene: scene.engine.purge("q", State.READY), ("r1", "r2", "same", "same"), ()),
    "purge parked": (lambda scene: scene.engine.purge("q", State.UNROUTABLE), ("parked",), ()),
    "delete the queue": (lambda scene: scene.engine.delete_queue("q"), ("r1", "r2", "same", "same"), ()),
}
MOST_CALLS: Final = 40
ALL: Final = [pytest.param(*case, id=name) for name, case in OPERATIONS.items()]


def recover(bench: Bench) -> None:
    """Only maintenance, with a task that is offered. The original is dead."""
    for ms in (10_050, 4_050, 60_050, 60_050):
        bench.pass_time(ms)
        while bench.run(bench.engine.maintain(["q"], ["t"])).more:
            pass


def drained(bench: Bench) -> Counter[str]:
    done: Counter[str] = Counter()
    while leases := bench.take(50, "drainer"):
        assert all(bench.run(bench.engine.settle([(lease, Completed(b"")) for lease in leases])))
        done.update(lease.record.payload.decode() for lease in leases)
    return done


def check(scene: Scene, ends: tuple[str, ...], adds: tuple[str, ...]) -> None:
    bench = scene.bench
    recover(bench)
    done = drained(bench)
    must, may = Counter(KNOWN) - Counter(ends), Counter(KNOWN) + Counter(adds)
    assert not must - done, f"lost: {must - done}"
    assert not done - may, f"ran twice: {done - may}"
    assert not any(bench.run(bench.engine.settle([(lease, Completed(b"")) for lease in scene.leases()])))
    bench.leave("drainer")
    recover(bench)
    assert bench.db.keys(f"{R}:uniqueTasks:*") == []
    assert bench.working() == set()
    bench.audit()


@pytest.mark.parametrize(("operation", "ends", "adds"), ALL)
def test_a_crash_loses_and_doubles_nothing(
    bench: Bench, operation: Operation, ends: tuple[str, ...], adds: tuple[str, ...]
) -> None:
    """After a call and before its reply: for Redis the same as before the next call."""
    for k in range(1, MOST_CALLS):
        bench.db.flushall()
        scene = Scene(bench)
        was_cut = is_cut(scene, operation, k)
        check(scene, ends, adds)
        if not was_cut:
            return
    raise AssertionError("it makes more calls than this test cuts")


def is_cut(scene: Scene, operation: Operation, k: int) -> bool:
    """Run it up to its call number k. False: it makes fewer calls."""

    def cut(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number < k:
            return send(call)
        attempt(send, call)
        raise Cut

    try:
        step(operation(scene), Session("s"), send_with(scene.bench.driver), cut)
    except Cut:
        return True
    return False


@pytest.mark.parametrize(("operation", "ends", "adds"), ALL)
def test_a_call_that_arrives_twice_does_the_same(
    bench: Bench, operation: Operation, ends: tuple[str, ...], adds: tuple[str, ...]
) -> None:
    scene = Scene(bench)

    def twice(number: int, call: Command | Invoke, send: Send) -> Reply:
        reply = send(call)
        before = layout.timeless(layout.dump(bench.server))
        send(call)
        assert layout.timeless(layout.dump(bench.server)) == before
        return reply

    step(operation(scene), Session("s"), send_with(bench.driver), twice)
    check(scene, ends, adds)
