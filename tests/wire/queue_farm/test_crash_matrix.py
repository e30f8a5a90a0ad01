"""Every operation is cut at every call that it makes; then only `maintain` may help. Lanes keep their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest

from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.shape import Shape
from tenure.core.steps import Command, Invoke, Reply, Steps
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.stepping import Crashed as ProcessCrashed
from tests.support.stepping import Send, Session, attempt, send_with, step
from tests.support.world import BOOM, World
from tests.wire.queue_farm.player import Original

LANES: Mapping[str, tuple[str, ...]] = {
    "A": tuple(f"a{n}" for n in range(5)),
    "B": ("b0", "b1"),
    "C": ("c0",),
    "E": tuple(f"e{n}" for n in range(3)),
}


@dataclass
class Scene:
    """`w` holds a batch of A, the job of B and C; E has three jobs of an original producer that nobody has seen yet."""

    world: World
    held: dict[str, Lease]

    @property
    def engine(self) -> Any:
        return self.world.engine


@pytest.fixture
def scene(world: World) -> Scene:
    for lane in "ABC":
        world.put_in(lane, *LANES[lane], own_id=True, task="t")
    leases = world.take(3, of_lane=3) + world.take(2)
    assert [lease.record.id for lease in leases] == ["a0", "a1", "a2", "b0", "c0"]
    world.put_in("F", "f", "x", own_id=True)
    world.settle_each([world.take_one("other")], Failed(BOOM))
    assert world.run(world.engine.cancel("q", "x"))
    for id in LANES["E"]:
        Original(world).push("E", id=id)
    world.pass_time(1_000)
    return Scene(world, {lease.record.id: lease for lease in leases})


def settle(**outcomes: Outcome) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: scene.engine.settle([(scene.held[id], outcome) for id, outcome in outcomes.items()])


def batch(*outcomes: Outcome) -> Callable[[Scene], Steps[Any]]:
    return settle(**dict(zip(("a0", "a1", "a2"), outcomes, strict=True)))


def new(*jobs: tuple[str, str]) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: scene.engine.enqueue(
        [NewJob("q", id, b"1", own_id=True, shape=Shape(lane=lane)) for lane, id in jobs]
    )


def act(name: str, *args: Any, **options: Any) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: attrgetter(name)(scene.engine)(*args, **options)


DONE = Completed(b"", 0)
OPERATIONS: dict[str, tuple[Callable[[Scene], Steps[Any]], tuple[str, ...]]] = {
    "enqueue": (new(("A", "new"), ("N", "new2"), ("E", "new3")), ()),
    "claim": (lambda scene: scene.engine.lease("w2", ["q"], 9, of_lane={"q": 2}), ()),
    "complete a batch": (batch(DONE, DONE, DONE), ("a0", "a1", "a2")),
    "fail a batch": (batch(Retried(BOOM), Retried(BOOM), Retried(BOOM)), ()),
    "a batch in parts": (batch(DONE, Retried(BOOM), Failed(BOOM)), ("a0", "a2")),
    "a crash in a batch": (batch(Crashed(), Released(), Crashed()), ()),
    "the last of a lane": (settle(c0=DONE), ("c0",)),
    "several lanes": (settle(b0=Broken(BOOM), c0=Cancelled("")), ("b0", "c0")),
    "released": (settle(b0=Released(), c0=Released()), ()),
    "without a route": (settle(b0=Unroutable()), ()),
    "heartbeat": (lambda scene: scene.engine.heartbeat("w", ["q"], [lease.ref for lease in scene.held.values()]), ()),
    "extend": (lambda scene: scene.engine.extend(scene.held["b0"], 60_000), ()),
    "leave": (act("leave", "w", ["q"]), ()),
    "leave of a dead worker": (act("leave", "w", ["q"], crashed=True), ()),
    "maintain": (act("maintain", ["q"], ["t"]), ()),
    "retry": (act("retry", "q", "x"), ()),
    "discard": (act("discard", "q", "b1"), ("b1",)),
    "discard a record": (act("discard", "q", "f"), ()),
    "delete": (act("delete", "B", "b1", "q"), ("b1",)),
    "cancel": (act("cancel", "q", "a4"), ("a4",)),
    "cancel of an original's job": (act("cancel", "q", "e1"), ("e1",)),
    "cancel a lane": (act("cancel_all", "q", "A"), ("a3", "a4")),
    "purge": (act("purge", "q", State.READY), ("a3", "a4", "b1", *LANES["E"])),
    "park": (act("lanes.park_lane", "q", "B"), ()),
    "resume": (act("settings.configure", "q", paused=False), ()),
}
"""With the jobs that they end, or may end."""
CASES = [pytest.param(name, k, id=f"{name}, call {k}") for name in OPERATIONS for k in (1, 2)]


def finish(scene: Scene, ends: tuple[str, ...]) -> None:
    """Another worker maintains until all that waits can run, and runs it."""
    world = scene.world
    for ms in (LEASE_MS + 50, GRACE_MS + 50, 1_000):
        world.pass_time(ms)
        while world.maintain(["t"]).more:
            pass
    world.resume_lane("B")
    world.audit()
    ran = world.drain()
    assert len(ran) == len(set(ran)), f"ran twice: {ran}"
    for ids in LANES.values():
        of_lane = [id for id in ran if id in ids]
        assert of_lane == [id for id in ids if id in of_lane], "the order of the lane"
        assert not set(ids) - set(ran) - set(ends), "lost"
    assert not any(world.run(world.engine.settle([(lease, DONE) for lease in scene.held.values()])))
    world.audit()
    assert set(world.counts()) <= {"failed", "broken", "cancelled"}


@pytest.mark.parametrize(("name", "k"), CASES)
def test_a_crash_loses_nothing_and_keeps_the_order(scene: Scene, name: str, k: int) -> None:
    """After a call and before its reply: for Redis the same as before the next call."""
    start, ends = OPERATIONS[name]

    def crash(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number < k:
            return send(call)
        attempt(send, call)
        raise ProcessCrashed

    with suppress(ProcessCrashed):
        step(start(scene), Session("s"), send_with(scene.world.driver), crash)
    finish(scene, ends)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_call_that_is_sent_again_changes_nothing(scene: Scene, name: str) -> None:
    world = scene.world
    start, ends = OPERATIONS[name]

    def twice(number: int, call: Command | Invoke, send: Send) -> Reply:
        reply = send(call)
        before = world.entry.timeless(world.dump())
        again = send(call)
        if name == "claim":
            assert again[1] == reply[1]
        elif name != "maintain":
            assert again == reply
        assert world.entry.timeless(world.dump()) == before
        return again

    step(start(scene), Session("s"), send_with(world.driver), twice)
    finish(scene, ends)
