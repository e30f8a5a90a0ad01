"""Every operation is cut at every call that it makes; then only `maintain` may help. No job is lost or runs twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.steps import Command, Invoke, Reply, Steps
from tenure.core.waiting import Lead
from tests.support import hworker as layout
from tests.support.stepping import Crashed as ProcessCrashed
from tests.support.stepping import Send, Session, attempt, send_with, step
from tests.wire.hworker.bench import BOOM, GRACE_MS, LEASE_MS, TIMEOUT_MS, Bench

JOBS = ("a", "b", "c", "d", "e", "later", "theirs", "failed")
DONE = Completed(b"", 0)


@dataclass
class Scene:
    """`w` holds a, b and c; d and e wait, later waits for its retry, theirs is with an original, failed has failed."""

    bench: Bench
    held: dict[str, Lease]

    @property
    def engine(self) -> Any:
        return self.bench.engine


@pytest.fixture
def scene(bench: Bench) -> Scene:
    bench.put("failed", "later", "theirs")
    failed, later = bench.take(2, "w")
    assert bench.settle(failed, Failed(BOOM))
    assert bench.settle(later, Retried(BOOM, delay_ms=60_000))
    assert bench.original.pop() is not None
    bench.run(bench.engine.enqueue([NewJob("q", id, b"[[],{}]", task="t") for id in "abc"]))
    held = {lease.record.id: lease for lease in bench.take(3, "w")}
    bench.put("d", "e")
    bench.maintain()
    return Scene(bench, held)


def settle(**outcomes: Outcome) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: scene.engine.settle([(scene.held[id], outcome) for id, outcome in outcomes.items()])


def act(name: str, *args: Any, **options: Any) -> Callable[[Scene], Steps[Any]]:
    return lambda scene: getattr(scene.engine, name)(*args, **options)


def leave_raw(scene: Scene) -> Steps[Any]:
    """`w2` has no handler for d and e."""
    return scene.engine.settle([(lease, Unroutable()) for lease in scene.bench.take(2, "w2")])


def claim_behind(scene: Scene) -> Steps[Any]:
    scene.bench.run(leave_raw(scene))
    scene.bench.run(scene.engine.enqueue([NewJob("q", "behind", b"[[],{}]", task="t")]))
    return scene.engine.lease("w2", ["q"], 9)


OPERATIONS: dict[str, tuple[Callable[[Scene], Steps[Any]], str]] = {
    "enqueue": (lambda scene: scene.engine.enqueue([NewJob("q", id, b"1") for id in ("new", "new2")]), ""),
    "claim": (lambda scene: scene.engine.lease("w2", ["q"], 9), ""),
    "claim behind raw payloads": (claim_behind, ""),
    "leave raw payloads to others": (leave_raw, ""),
    "complete": (settle(a=DONE, b=DONE, c=DONE), "a b c"),
    "retry later and now": (settle(a=Retried(BOOM, delay_ms=5_000), b=Retried(BOOM)), ""),
    "all ends": (settle(a=Failed(BOOM), b=Broken(BOOM), c=Cancelled("")), "a b c"),
    "released": (settle(a=Released(), b=Crashed(), c=Released()), ""),
    "without a route": (settle(a=Unroutable(), b=DONE), "b"),
    "heartbeat": (lambda scene: scene.engine.heartbeat("w", ["q"], [lease.ref for lease in scene.held.values()]), ""),
    "extend": (lambda scene: scene.engine.extend(scene.held["b"], 60_000), ""),
    "leave": (act("leave", "w", ["q"]), ""),
    "leave of a dead worker": (act("leave", "w", ["q"], crashed=True), ""),
    "maintain": (act("maintain", ["q"], ["t"]), ""),
    "retry": (act("retry", "q", "failed"), ""),
    "retry with another payload": (act("retry", "q", "failed", b'"new"'), ""),
    "retry before its time": (act("retry", "q", "later"), ""),
    "discard": (act("discard", "q", "d"), "d"),
    "discard a record": (act("discard", "q", "failed"), "failed"),
    "cancel": (act("cancel", "q", "d"), "d"),
    "cancel a retry": (act("cancel", "q", "later"), "later"),
    "cancel all": (act("cancel_all", "q"), "d e later"),
    "purge": (act("purge", "q", State.READY), "d e"),
    "purge the failed": (act("purge", "q", State.FAILED), "failed"),
}
"""With the jobs that they end, or may end."""
CASES = [pytest.param(name, k, id=f"{name}, call {k}") for name in OPERATIONS for k in (1, 2)]


def finish(scene: Scene, ends: str) -> None:
    """Another worker maintains until all that waits can run, and runs it."""
    bench = scene.bench
    for ms in (LEASE_MS + 50, GRACE_MS + 50, TIMEOUT_MS + 50, GRACE_MS + 50):
        bench.pass_time(ms)
        while bench.maintain("t").more:
            pass
    bench.audit()
    bench.run(bench.engine.retry("q", "failed"))
    ran = []
    while leases := bench.take(worker="last"):
        ran += [lease.record.id for lease in leases]
        assert all(bench.settle(lease) for lease in leases)
    assert len(ran) == len(set(ran)), f"ran twice: {ran}"
    assert not set(JOBS) - set(ran) - set(ends.split()), "lost"
    assert not any(bench.settle(lease) for lease in scene.held.values())
    bench.audit()
    assert set(bench.counts()) <= {"failed", "broken", "cancelled"}
    assert bench.progress() == {}


@pytest.mark.parametrize(("name", "k"), CASES)
def test_a_crash_loses_nothing(scene: Scene, name: str, k: int) -> None:
    """After a call and before its reply: for Redis the same as before the next call."""
    start, ends = OPERATIONS[name]

    def crash(number: int, call: Command | Invoke, send: Send) -> Reply:
        if number < k:
            return send(call)
        attempt(send, call)
        raise ProcessCrashed

    with suppress(ProcessCrashed):
        step(start(scene), Session("s"), send_with(scene.bench.driver), crash)
    finish(scene, ends)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_call_that_is_sent_again_changes_nothing(scene: Scene, name: str) -> None:
    """H13 is the case `enqueue`: an original that pushes again, since it got no reply, has two jobs."""
    bench = scene.bench
    start, ends = OPERATIONS[name]

    def timeless() -> object:
        return layout.timeless(layout.dump(bench.server))

    def twice(number: int, call: Command | Invoke, send: Send) -> Reply:
        reply = send(call)
        before = timeless()
        again = send(call)
        if name.startswith("claim"):
            assert again[1] == reply[1]
        elif name not in ("maintain", "heartbeat"):
            assert again == reply
        assert timeless() == before
        return again

    step(start(scene), Session("s"), send_with(bench.driver), twice)
    finish(scene, ends)


@pytest.mark.parametrize("executed", [False, True], ids=["before it", "after it"])
def test_a_wait_whose_claim_is_lost_leaves_its_job_to_others(bench: Bench, executed: bool) -> None:
    bench.put("a", "b")
    wait = bench.engine.wait("w", ["q"], 1_000)
    assert isinstance(wait, Lead)

    def commands() -> Steps[Any]:
        return (yield wait.command)

    assert bench.run(commands()) is not None
    assert bench.counts() == {"ready": 2}
    if executed:
        bench.maintain()
    assert [lease.record.id for lease in bench.take()] == ["a", "b"]
