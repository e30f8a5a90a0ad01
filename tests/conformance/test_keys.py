"""After a drain the key space is the fixed set, and every key that was there on the way had an owner."""

from __future__ import annotations

import pytest

from leasehold.core.engine import Feature
from leasehold.core.job import State, WorkerView
from leasehold.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from tests.support import native
from tests.support.audit import FIXED
from tests.support.world import BOOM, NAMESPACE, World


def test_a_drained_queue_leaves_only_the_fixed_keys(world: World) -> None:
    """Every operation once, then everything completed and every record purged."""
    outcomes: list[Outcome] = [
        Completed(b"r", 60_000),
        Completed(b"", 0),
        Retried(BOOM),
        Retried(BOOM, 1_000),
        Failed(BOOM),
        Broken(BOOM),
        Released(),
        Unroutable(),
        Cancelled("x"),
    ]
    world.run(world.engine.announce(WorkerView("w", ("q",), "h", 1, 1, 1, 1)))
    world.put(*(f"j{n}" for n in range(20)), task="t")
    world.put("late", delay_ms=500)
    leases = world.take(len(outcomes))
    assert all(world.run(world.engine.settle(list(zip(leases, outcomes, strict=True)))))
    world.take(3, "dead")
    world.silence()
    world.audit()
    for n, act in enumerate(("cancel", "discard", "cancel", "discard")):
        world.run(getattr(world.engine, act)("q", f"j{15 + n}"))
    world.run(world.engine.result("q", "j14"))
    world.maintain(["t"])
    world.pass_time(2_000)
    world.audit()
    while world.drain():
        pass
    for state in (State.COMPLETED, State.FAILED, State.BROKEN, State.CANCELLED):
        world.run(world.engine.purge("q", state))
    world.maintain(["t"])
    assert world.counts() == {}
    left = native.keys(world.server)
    prefix = world.engine.prefix("q").encode() + b":"
    lasting = {name.removeprefix(prefix) for name, key in left.items() if key.ttl_ms < 0}
    assert lasting <= FIXED
    ending = {name.removeprefix(prefix) for name, key in left.items() if key.ttl_ms >= 0} - FIXED
    shared = {f"{{{NAMESPACE}}}:{name}".encode() for name in ("queues", "workers", "worker:w")}
    assert {name for name in ending if not name.startswith(b"call:")} <= shared | {b"watched"}


def test_the_counters_of_an_idle_queue_are_forgotten_in_the_end(world: World) -> None:
    world.put("a")
    world.drain()
    world.maintain()
    assert world.command("PTTL", world.key("meta")) > 0


def test_a_session_leaves_one_answer_however_many_calls_it_makes(world: World) -> None:
    for n in range(20):
        world.put(f"j{n}")
    world.drain()
    answers = [name for name in native.keys(world.server) if b":call:" in name]
    assert len(answers) == 1


@pytest.mark.needs(Feature.LANES)
def test_many_held_jobs_are_kept_as_a_table(world: World) -> None:
    """As a list, every look at one of them is a search from the front: claims and ends would cost twice as much.

    Of the native layout, which is the one with lanes: what is held on others is kept in another way.
    """
    world.put(*(f"j{n}" for n in range(40)))
    leases = world.take(40)
    assert world.command("OBJECT", "ENCODING", world.key("held:w")) == b"hashtable"
    assert all(world.run(world.engine.settle([(lease, Completed(b"r", 0)) for lease in leases])))
    world.audit()
