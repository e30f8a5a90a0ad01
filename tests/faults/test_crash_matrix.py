"""Every operation is cut at every call that it makes, in every way; then only `maintain` may help.

Each operation here names how many calls it makes: a second round trip, between which a crash might leave work nowhere,
cannot come in unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from leasehold.core import limits
from leasehold.core.job import Lease, LeaseRef, NewJob, State, WorkerView
from leasehold.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from leasehold.core.steps import Command, Invoke, Reply, Steps
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.stepping import Crashed, Fate, Send, Session, attempt, send_with, step
from tests.support.world import BOOM, World

QUEUES = ("q", "p")
ENDED = ("f", "b", "x", "c")


@dataclass(frozen=True, slots=True)
class Scene:
    """A world with jobs in every state on `q`, some on `p`; the worker `w` holds `held` of both."""

    world: World
    held: list[Lease]

    @property
    def engine(self) -> Any:
        return self.world.engine

    def known(self) -> set[tuple[str, str]]:
        """All jobs that were acknowledged, by queue."""
        return {("q", id) for id in (*ENDED, "u", "h1", "h2", "h3", "r1", "r2", "s1", "s2")} | {
            ("p", "p1"),
            ("p", "p2"),
        }


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation, how many calls it makes, and which jobs it may end or remove, or add."""

    calls: int
    start: Callable[[Scene], Steps[Any]]
    ends: tuple[str, ...] = ()
    adds: tuple[str, ...] = ()


def settle(*outcomes: Outcome) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: scene.engine.settle(list(zip(scene.held, outcomes, strict=False)))


def new(*ids: str, queue: str = "q", **options: Any) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: scene.engine.enqueue([NewJob(queue, id, b"new", own_id=True, **options) for id in ids])


def act(name: str, *args: Any) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: getattr(scene.engine, name)(*args)


def refs(scene: Scene) -> list[LeaseRef]:
    return [lease.ref for lease in scene.held]


MANY = tuple(f"n{n}" for n in range(2 * limits.MAX_BATCH + 1))
VIEW = WorkerView("w", QUEUES, "host", 1, 1, 1, 1)

WRITING: dict[str, Operation] = {
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
    "lease by hand": Operation(1, lambda scene: scene.engine.lease("hand", ["q"], 1, 5_000)),
    "lease from an empty queue": Operation(1, lambda scene: scene.engine.lease("w2", ["nothing"], 9)),
    "complete": Operation(1, settle(Completed(b"r", 600_000)), ends=("h1",)),
    "complete without a record": Operation(1, settle(Completed(b"", 0)), ends=("h1",)),
    "retried": Operation(1, settle(Retried(BOOM))),
    "retried later": Operation(1, settle(Retried(BOOM, 5_000))),
    "failed": Operation(1, settle(Failed(BOOM)), ends=("h1",)),
    "broken": Operation(1, settle(Broken(BOOM)), ends=("h1",)),
    "released": Operation(1, settle(Released())),
    "parked": Operation(1, settle(Unroutable())),
    "cancelled": Operation(1, settle(Cancelled("x")), ends=("h1",)),
    "settle one of each on one queue": Operation(1, settle(Completed(b"", 0), Retried(BOOM), Released()), ends=("h1",)),
    "settle on two queues": Operation(
        2, settle(Completed(b"", 0), Released(), Retried(BOOM), Completed(b"", 0)), ends=("h1", "p1")
    ),
    "extend": Operation(1, lambda scene: scene.engine.extend(scene.held[0], 60_000)),
    "heartbeat": Operation(1, lambda scene: scene.engine.heartbeat("w", ["q"], refs(scene))),
    "heartbeat on two queues": Operation(2, lambda scene: scene.engine.heartbeat("w", QUEUES, refs(scene))),
    "leave": Operation(2, lambda scene: scene.engine.leave("w", ["q"])),
    "leave two queues": Operation(3, lambda scene: scene.engine.leave("w", QUEUES)),
    "maintain": Operation(1, lambda scene: scene.engine.maintain(["q"], ["t"])),
    "maintain two queues": Operation(2, lambda scene: scene.engine.maintain(QUEUES, ["t"])),
    "announce": Operation(1, lambda scene: scene.engine.announce(VIEW)),
    "retry an end": Operation(1, act("retry", "q", "f")),
    "retry a scheduled job": Operation(1, act("retry", "q", "s1")),
    "retry a parked job": Operation(1, act("retry", "q", "u")),
    "retry an active job": Operation(1, act("retry", "q", "h1")),
    "cancel a ready job": Operation(1, act("cancel", "q", "r1"), ends=("r1",)),
    "cancel a scheduled job": Operation(1, act("cancel", "q", "s1"), ends=("s1",)),
    "cancel a parked job": Operation(1, act("cancel", "q", "u"), ends=("u",)),
    "discard a ready job": Operation(1, act("discard", "q", "r1"), ends=("r1",)),
    "discard a scheduled job": Operation(1, act("discard", "q", "s1"), ends=("s1",)),
    "discard a parked job": Operation(1, act("discard", "q", "u"), ends=("u",)),
    "discard an end": Operation(1, act("discard", "q", "f"), ends=("f",)),
    "purge ready jobs": Operation(2, act("purge", "q", State.READY), ends=("r1", "r2")),
    "purge scheduled jobs": Operation(2, act("purge", "q", State.SCHEDULED), ends=("s1", "s2")),
    "purge parked jobs": Operation(2, act("purge", "q", State.UNROUTABLE), ends=("u",)),
    "purge ends": Operation(2, act("purge", "q", State.FAILED), ends=("f",)),
}
READING: dict[str, Operation] = {
    "wait": Operation(1, act("wait", ["q", "p"], 20)),
    "result": Operation(1, act("result", "q", "r1")),
    "queues": Operation(1, act("queues")),
    "queue": Operation(1, act("queue", "q")),
    "job": Operation(1, act("job", "q", "h1")),
    "page": Operation(2, act("page", "q", State.READY)),
    "workers": Operation(3, act("workers")),
}
OPERATIONS = WRITING | READING
CALLS = [
    pytest.param(operation, k, id=f"{name}, call {k}")
    for name, operation in OPERATIONS.items()
    for k in range(1, operation.calls + 1)
]
WRITING_CALLS = [
    pytest.param(operation, k, id=f"{name}, call {k}")
    for name, operation in WRITING.items()
    for k in range(1, operation.calls + 1)
]


@pytest.fixture
def scene(world: World) -> Scene:
    world.put(*ENDED, "u", task="t", own_id=True)
    ends = (Failed(BOOM), Broken(BOOM), Cancelled(""), Completed(b"r", 600_000), Unroutable())
    assert all(world.run(world.engine.settle(list(zip(world.take(), ends, strict=True)))))
    world.put("h1", "h2", "h3", "r1", "r2", task="t", own_id=True)
    world.put("p1", "p2", queue="p", own_id=True)
    world.put("s1", "s2", delay_ms=LEASE_MS * 3, own_id=True)
    held = world.take(3) + world.take(1, queues=("p",))
    world.run(world.engine.announce(VIEW))
    return Scene(world, held)


def run(scene: Scene, operation: Operation, fate: Fate, nonces: Session | None = None) -> Any:
    return step(operation.start(scene), nonces or Session("s"), send_with(scene.world.driver), fate)


def through(number: int, call: Command | Invoke, send: Send) -> Reply:
    return send(call)


def comparable(call: Command | Invoke, reply: Reply) -> Reply:
    """A reply without what depends on the moment: when to look again, and what was dropped."""
    if isinstance(call, Invoke) and call.script.name == "claim":
        return reply[1]
    return reply


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_makes_no_more_calls_than_it_says(scene: Scene, name: str) -> None:
    made = []

    def count(number: int, call: Command | Invoke, send: Send) -> Reply:
        made.append(call)
        return send(call)

    run(scene, OPERATIONS[name], count)
    assert len(made) == OPERATIONS[name].calls
    scene.world.audit()


@pytest.mark.parametrize("executed", [False, True], ids=["before it", "after it, before its reply"])
@pytest.mark.parametrize(("operation", "k"), CALLS)
def test_a_crash_leaves_every_job_where_maintain_finds_it(
    scene: Scene, operation: Operation, k: int, executed: bool
) -> None:
    world = scene.world

    def crash(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number < k:
            return send(call)
        if executed:
            send(call)
        raise Crashed

    with pytest.raises(Crashed):
        run(scene, operation, crash)
    world.audit()
    recover(scene)
    world.audit()
    check_nothing_is_lost(scene, operation)


def recover(scene: Scene) -> None:
    """Another worker maintains until there is nothing more to do. Nobody else does anything."""
    for queue in (*QUEUES, "new", "hand"):
        for ms in (LEASE_MS + 50, GRACE_MS + 50, 60_000):
            scene.world.pass_time(ms, queue)
            while scene.world.maintain(["t"], queue).more:
                pass


def check_nothing_is_lost(scene: Scene, operation: Operation) -> None:
    world = scene.world
    allowed = {("q", id) for id in operation.ends} | {("p", id) for id in operation.ends}
    for queue, id in scene.known() - allowed:
        view = world.job(id, queue)
        assert view is not None, f"{id} on {queue} is lost"
        assert view.state.ended or view.state is State.READY, f"{id} on {queue} is {view.state}"
    completed = {queue: world.totals(queue).get("completed", 0) for queue in QUEUES}
    ran = {queue: world.drain(queue) for queue in (*QUEUES, "new")}
    for queue, ids in ran.items():
        assert len(ids) == len(set(ids)), f"ran twice: {ids}"
        known = {id for place, id in scene.known() if place == queue}
        assert set(ids) <= known | set(operation.adds)
    for queue in QUEUES:
        ends = {id for place, id in scene.known() - allowed if place == queue}
        missing = {id for id in ends if id not in ran[queue]} - set(ENDED)
        assert not missing, f"never ran: {missing}"
        # At most one completion of each job ever was True.
        assert world.totals(queue).get("completed", 0) == completed[queue] + len(ran[queue])
        assert not any(answer for answer in map(world.settle, scene.held))
    world.audit()
    assert all(state in {"completed", "failed", "broken", "cancelled"} for state in world.counts())


@pytest.mark.parametrize(("operation", "k"), WRITING_CALLS)
def test_a_call_that_is_sent_again_does_and_answers_the_same(scene: Scene, operation: Operation, k: int) -> None:
    world = scene.world

    def twice(number: int, call: Command | Invoke, send: Send) -> Reply:
        reply = send(call)
        if number != k:
            return reply
        before = world.entry.timeless(world.dump())
        again = send(call)
        if isinstance(call, Invoke) and call.script.name == "maintain":
            assert again[:4] == [0, 0, 0, 0]
        else:
            assert comparable(call, again) == comparable(call, reply)
        assert world.entry.timeless(world.dump()) == before
        return again

    run(scene, operation, twice)
    world.audit()
    recover(scene)
    check_nothing_is_lost(scene, operation)


@pytest.mark.parametrize("others", [False, True], ids=["nothing happened since", "others went on"])
@pytest.mark.parametrize(("operation", "k"), WRITING_CALLS)
def test_a_copy_that_arrives_late_changes_nothing(scene: Scene, operation: Operation, k: int, others: bool) -> None:
    """The call was sent again, the session has made its next call, and now the first copy comes in."""
    world, late = scene.world, []
    nonces = Session("s")

    def keep(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number == k:
            late.append(call)
        return send(call)

    run(scene, operation, keep, nonces)
    following = world.engine.enqueue([NewJob("q", "next", b""), NewJob("p", "next", b"")])
    step(following, nonces, send_with(world.driver), through)
    if others:
        world.run(world.engine.leave("w", QUEUES))
        world.take(5, "else", QUEUES)
    before = world.dump()
    (call,) = late
    assert isinstance(call, Invoke)
    harmless = call.script.name in {"heartbeat", "maintain", "extend", "announce", "register"}
    _, error = attempt(send_with(world.driver), call)
    assert error is None or error.prefix == "LHSTALE"
    if not harmless:
        assert world.dump() == before
    world.audit()
    recover(scene)
    world.audit()
    scene.world.drain(*QUEUES)
