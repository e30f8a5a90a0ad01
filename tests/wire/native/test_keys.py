"""The keys of the native layout: what stays behind, how large it gets, the counters."""

from __future__ import annotations

import pytest

from tenure.core.errors import NewerLayout
from tenure.core.job import State
from tenure.core.minutes import Ends
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.shape import Shape
from tenure.core.worker_view import WorkerView
from tests.conformance.test_layout import next_release
from tests.support.audit import FIXED
from tests.support.keyspace import keys
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
    world.run(world.engine.history.note_ends("q", Ends(completed=1)))
    world.put(*(f"j{n}" for n in range(20)), task="t")
    world.put("late", delay_ms=500)
    leases = world.take(len(outcomes))
    assert all(world.run(world.engine.settle(list(zip(leases, outcomes, strict=True)))))
    world.take(3, "dead")
    world.silence()
    world.audit()
    for n, act in enumerate(("cancel", "discard", "cancel", "discard")):
        world.run(getattr(world.engine, act)("q", f"j{15 + n}"))
    world.run(world.engine.results.result("q", "j14"))
    world.maintain(["t"])
    world.pass_time(2_000)
    world.audit()
    while world.drain():
        pass
    for state in (State.COMPLETED, State.FAILED, State.BROKEN, State.CANCELLED):
        world.run(world.engine.purge("q", state))
    world.maintain(["t"])
    assert world.counts() == {}
    left = keys(world.server)
    prefix = world.engine.prefix("q").encode() + b":"
    lasting = {name.removeprefix(prefix) for name, key in left.items() if key.ttl_ms < 0}
    assert lasting <= FIXED
    ending = {name.removeprefix(prefix) for name, key in left.items() if key.ttl_ms >= 0} - FIXED
    shared = {f"{{{NAMESPACE}}}:{name}".encode() for name in ("queues", "workers", "worker:w")}
    assert {name for name in ending if not name.startswith(b"call:")} <= shared | {b"watched", b"minutes"}


def test_a_session_leaves_one_answer_however_many_calls_it_makes(world: World) -> None:
    for n in range(20):
        world.put(f"j{n}")
    world.drain()
    answers = [name for name in keys(world.server) if b":call:" in name]
    assert len(answers) == 1


def test_many_held_jobs_are_kept_as_a_table(world: World) -> None:
    """As a list, every look at one of them is a search from the front: claims and ends would cost twice as much."""
    world.put(*(f"j{n}" for n in range(40)))
    leases = world.take(40)
    assert world.command("OBJECT", "ENCODING", world.key("held:w")) == b"hashtable"
    assert all(world.run(world.engine.settle([(lease, Completed(b"r", 0)) for lease in leases])))
    world.audit()


def test_the_note_that_somebody_waits_goes_away_by_itself(world: World) -> None:
    world.put("a")
    world.run(world.engine.results.result("q", "a"))
    assert world.command("PTTL", world.key("watched")) > 0


def test_tokens_grow_even_when_the_clock_was_set_back(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    # The counter is ahead of the clock now, as it is after the clock was set back by an hour.
    ahead = int(lease.token) + 3_600_000_000
    world.command("HSET", world.key("meta"), "token", ahead)
    assert world.settle(lease, Released())
    assert int(world.take_one().token) > ahead


@pytest.mark.parametrize("lane", [None, "l"])
def test_the_first_enqueue_of_a_newer_release_stops_the_older_one(world: World, lane: str | None) -> None:
    """An enqueue in a foreign format leaves no version: it writes only what the other clients write."""
    release = next_release(world)
    release.put("a", shape=Shape(lane=lane))
    with pytest.raises(NewerLayout):
        world.take()
    assert release.take_ids() == ["a"]


def test_the_deadline_of_a_job_that_moved_away_ends_no_other_job_with_its_id(world: World) -> None:
    world.put("late", shape=Shape(expires="+1"))
    world.put("a")
    world.command("ZADD", world.key("expires"), 1, "a")
    world.pass_time(10)
    assert world.take_ids() == ["a"]
    world.audit()
