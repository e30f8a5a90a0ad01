"""What others have written into our keys: it is refused or left out, and never stops a worker for good."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tenure.core.errors import ReplyError, WrongState
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.config import CLAIM_BYTES, MAX_HOLDERS
from tests.conformance.test_overdue import Keeper
from tests.conformance.test_rerun import follow
from tests.support.world import BOOM, World

pytestmark = pytest.mark.garbage


def spoil(world: World, suffix: str, kind: str = "string") -> None:
    """Another type at one of our keys: a set, or a string (a set where we keep a list)."""
    world.command("DEL", world.key(suffix))
    if kind == "set" or suffix in ("ready", "wake"):
        world.command("SADD", world.key(suffix), "x")
    else:
        world.command("SET", world.key(suffix), "x")


def setup(world: World) -> list[Any]:
    """Jobs in most states; two are held by `w`."""
    world.put("f", "c", "u", task="t")
    world.settle_each(world.take(), Failed(BOOM), Completed(b"r", 60_000), Unroutable())
    world.put("held1", "held2", "r1", "r2", task="t")
    leases = world.take(2)
    world.put("s", delay_ms=60_000)
    return leases


OPERATIONS: dict[str, Callable[[World, list[Any]], Any]] = {
    "enqueue": lambda world, held: world.put("new", own_id=True),
    "enqueue later": lambda world, held: world.put("new", delay_ms=5_000, own_id=True),
    "lease": lambda world, held: world.take(1),
    "complete": lambda world, held: world.settle(held[0], Completed(b"r", 60_000)),
    "complete, no record": lambda world, held: world.settle(held[0], Completed(b"", 0)),
    "retried": lambda world, held: world.settle(held[0], Retried(BOOM)),
    "retried later": lambda world, held: world.settle(held[0], Retried(BOOM, 60_000)),
    "failed": lambda world, held: world.settle(held[0], Failed(BOOM)),
    "released": lambda world, held: world.settle(held[0], Released()),
    "parked": lambda world, held: world.settle(held[0], Unroutable()),
    "extend": lambda world, held: world.run(world.engine.extend(held[0], 5_000)),
    "leave": lambda world, held: world.run(world.engine.leave("w", ["q"])),
    "retry": lambda world, held: world.run(world.engine.retry("q", "f")),
    "later": lambda world, held: world.run(world.engine.delays.reschedule("q", "r1", delay_ms=5_000)),
    "now": lambda world, held: world.run(world.engine.delays.reschedule("q", "s", delay_ms=0, priority=7)),
    "parked, later": lambda world, held: world.run(world.engine.delays.reschedule("q", "u", delay_ms=5_000)),
    "other priority": lambda world, held: world.run(world.engine.delays.reschedule("q", "r1", priority=7)),
    "cancel": lambda world, held: world.run(world.engine.cancel("q", "r1")),
    "discard": lambda world, held: world.run(world.engine.discard("q", "r1")),
    "discard an end": lambda world, held: world.run(world.engine.discard("q", "f")),
    "purge": lambda world, held: world.run(world.engine.purge("q", State.FAILED)),
}
SUFFIXES = ["jobs", "ready", "scheduled", "holders", "held:w", "tries", "meta", "ghosts", "wake", "suspects"]
SUFFIXES += ["ended", "kept", "completed", "failed", "broken", "cancelled", "unroutable", "unroutable:t", "watched"]
SUFFIXES += ["priorities", "windows"]


@pytest.mark.parametrize("kind", ["string", "set"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_wrong_type_is_an_error_and_nothing_is_half_done(world: World, operation: str, kind: str) -> None:
    half_done = []
    for suffix in SUFFIXES:
        world.command("FLUSHALL")
        spoilt = World(world.entry, world.server, world.driver)
        held = setup(spoilt)
        spoil(spoilt, suffix, kind)
        before = spoilt.entry.timeless(spoilt.dump())
        try:
            OPERATIONS[operation](spoilt, held)
        except WrongState:
            if spoilt.entry.timeless(spoilt.dump()) != before:
                half_done.append(suffix)
    assert not half_done, f"{operation} does half of its work when these keys have a wrong type"


LANE_SUFFIXES = [
    "jobs",
    "ended",
    "completed",
    "meta",
    "holders",
    "suspects",
    "held:w",
    "tries",
    "watched",
    "cancelling",
]
LANE_SUFFIXES += ["progress", "busy", "lanes", "lane:L", "turns", "wake", "parked", "holds", "limits"]


@pytest.mark.parametrize("suffix", LANE_SUFFIXES)
def test_the_end_of_a_job_of_a_lane_is_not_half_done(world: World, suffix: str) -> None:
    world.put_in("L", "a", "b")
    (held,) = world.take(1)
    spoil(world, suffix)
    before = world.entry.timeless(world.dump())
    with pytest.raises(WrongState):
        world.settle(held, Completed(b"r", 60_000))
    assert world.entry.timeless(world.dump()) == before


@pytest.mark.parametrize("suffix", ["ready", "scheduled", "wake", "jobs"])
def test_enqueue_says_that_a_key_is_not_ours(world: World, suffix: str) -> None:
    spoil(world, suffix)
    with pytest.raises(WrongState, match="namespace"):
        world.put("a", delay_ms=5)


def test_ids_without_a_job_are_dropped_and_named(world: World) -> None:
    world.put("a")
    world.command("LPUSH", world.key("ready"), "ghost", b"\xff\x00")
    world.put("b")
    answer = world.run(world.engine.lease("w", ["q"], 10))
    assert [lease.record.id for lease in answer.leases] == ["a", "b"]
    assert [(drop.queue, drop.id) for drop in answer.dropped] == [("q", "\udcff\x00"), ("q", "ghost")]
    assert all("no such job" in drop.reason for drop in answer.dropped)


def test_nothing_but_garbage_does_not_hide_what_is_behind_it(world: World) -> None:
    world.command("RPUSH", world.key("ready"), *(f"x{n}" for n in range(50)))
    world.put("a")
    for _ in range(20):
        answer = world.run(world.engine.lease("w", ["q"], 5))
        if answer.leases:
            break
        assert answer.next_ms == 0, "there may be more right behind"
    assert [lease.record.id for lease in answer.leases] == ["a"]


@pytest.mark.parametrize("late", [Completed(b"1", 60_000), Failed(BOOM), Released()])
def test_an_id_that_somebody_listed_again_still_completes_once(world: World, late: Outcome) -> None:
    """Two leases of one job, which no call of ours can bring about: the first end is the end."""
    world.put("a")
    first = world.take_one("w1")
    world.command("RPUSH", world.key("ready"), "a")
    second = world.take_one("w2")
    assert world.settle(second, Completed(b"2", 60_000))
    assert not world.settle(first, late)
    assert world.view("a").result == b"2"
    assert world.totals() == {"completed": 1}


def test_an_id_listed_twice_is_held_once(world: World) -> None:
    world.put("a")
    world.command("RPUSH", world.key("ready"), "a")
    answer = world.run(world.engine.lease("w", ["q"], 10))
    assert [lease.record.id for lease in answer.leases] == ["a"]
    assert [drop.id for drop in answer.dropped] == ["a"]


@pytest.mark.parametrize(
    "record", [b"", b"garbage", b"\xff\xfe\n", b"1\n", b"1 t x y z\nbody", b"-5 t\n", b"1 t t=x\n", b"\n"]
)
def test_a_record_that_is_none_comes_out_whole_and_says_so(world: World, record: bytes) -> None:
    world.command("HSET", world.key("jobs"), "odd", record)
    world.command("RPUSH", world.key("ready"), "odd")
    world.put("fine")
    odd, fine = world.take()
    assert (odd.record.id, fine.record.id) == ("odd", "fine")
    assert odd.record.malformed or record == b"-5 t\n"
    if odd.record.malformed:
        assert odd.record.payload == record
    assert world.job("odd") is not None
    assert world.settle(odd, Unroutable())
    assert world.state("odd") is State.UNROUTABLE
    assert world.run(world.engine.retry("q", "odd"))
    assert world.settle(world.take_one(), Failed(BOOM))
    assert world.state("odd") is State.FAILED
    assert world.run(world.engine.retry("q", "odd", b"repaired"))
    repaired = world.take_one()
    assert (repaired.record.payload, repaired.record.malformed) == (b"repaired", "")
    assert world.settle(repaired)
    assert world.settle(fine)


@pytest.mark.parametrize("tries", [b"", b"x", b"1", b"-1 -2\n{}", b"1 1\nnot json"])
def test_counts_that_are_none_are_nought(world: World, tries: bytes) -> None:
    world.put("a")
    world.command("HSET", world.key("tries"), "a", tries)
    world.job("a")
    world.ids(State.READY)
    lease = world.take_one()
    assert lease.failures >= 0
    outcome: Outcome = Retried(BOOM)
    assert world.settle(lease, outcome)
    world.take_one()
    assert world.silence() == 1
    assert world.drain() == ["a"]


@pytest.mark.parametrize("claim", [b"", b"x", b"1", b"1 2", b"a b c", b"5 0 x"])
def test_claims_that_are_none_are_given_back(world: World, claim: bytes) -> None:
    world.put("a", "b")
    a = world.take_one()
    world.command("HSET", world.key("held:w"), "b", claim)
    world.command("LREM", world.key("ready"), 1, "b")
    world.job("b")
    world.ids(State.ACTIVE)
    world.counts()
    assert not world.beat("w", [a]).lost
    assert world.settle(a, Completed(b"", 0))
    assert world.silence() == 1
    assert world.drain() == ["b"]


def test_a_claim_without_a_job_disappears(world: World) -> None:
    world.put("a")
    world.take_one()
    world.command("HSET", world.key("held:w"), "nobody", "5 0 5")
    world.silence()
    assert world.drain() == ["a"]
    world.audit()


def test_someone_deletes_the_list_that_had_ghosts(world: World) -> None:
    """A count of ghosts that are not there must not swallow a job of the same id later."""
    world.put("a", "b")
    world.run(world.engine.discard("q", "a"))
    world.command("DEL", world.key("ready"), world.key("jobs"))
    world.take()
    world.put("a")
    assert world.counts() == {"ready": 1}
    assert world.drain() == ["a"]


def test_enqueue_next_to_a_foreign_hash_field(world: World) -> None:
    world.command("HSET", world.key("jobs"), "foreign", "x")
    assert [answer.created for answer in world.enqueue([NewJob("q", "foreign", b""), NewJob("q", "ours", b"")])] == [
        False,
        True,
    ]
    assert world.drain() == ["ours"]


@pytest.mark.parametrize("end", [b"", b"x", b"strange 1 99999999999999\n\n", b"failed x y\n", b"completed\n\n"])
def test_an_end_that_is_none_is_shown_as_far_as_it_goes(world: World, end: bytes) -> None:
    world.command("HSET", world.key("ended"), "odd", end)
    world.command("ZADD", world.key("failed"), 10**15, "odd")
    assert world.job("odd") is None
    assert world.ids(State.FAILED) == ["odd"]
    assert world.run(world.engine.purge("q", State.FAILED)) == 1


def test_a_worker_that_describes_itself_in_another_way_is_left_out(world: World) -> None:
    world.run(world.engine.announce(WorkerView("w", ("q",), "host", 1, 1, 1, 1)))
    world.command("ZADD", "{test}:workers", 10**15, "odd")
    world.command("SET", "{test}:worker:odd", b"\xff{")
    assert [view.id for view in world.run(world.engine.workers())] == ["w"]


@pytest.mark.parametrize("numbers", [b"", b"many", b"3", b"::x", b"1:2:3:4", b"\xff:0:-1"])
def test_numbers_of_a_limit_that_are_none_are_unset(world: World, numbers: bytes) -> None:
    world.command("HSET", f"{world.engine.shared()}:limits", "stripe", numbers)
    view = world.run(world.engine.limits.limit("stripe"))
    expected = {b"3": (3, None, None), b"1:2:3:4": (1, 2, 3)}.get(numbers, (None, None, None))
    assert (view.concurrency, view.interval_us, view.burst) == expected


def test_only_so_many_workers_hold_jobs_of_a_queue(world: World) -> None:
    for n in range(MAX_HOLDERS):
        world.command("ZADD", world.key("holders"), 10**15, f"w{n}")
        world.command("HSET", world.key(f"held:w{n}"), f"old{n}", f"1 0 {n}")
        world.command("HSET", world.key("jobs"), f"old{n}", "1 *\n")
    world.put("a")
    with pytest.raises(ReplyError, match="that is the limit"):
        world.take(1, "one too many")
    assert len(world.take(1, "w7")) == 1
    world.audit()


def test_what_a_claim_meets_is_known_from_then_on(world: World) -> None:
    """The counters of a queue that rests for long are forgotten, and with them that its records are large."""
    large = b"x" * 100_000
    world.put(*(f"large{n}" for n in range(2 * CLAIM_BYTES // len(large))), payload=large)
    world.command("HDEL", world.key("meta"), "large")
    world.take(1)
    assert len(world.take(100)) <= CLAIM_BYTES // len(large) + 1
    world.audit()


def test_what_redis_refuses_to_take_back_does_not_cost_the_other_leases(world: World) -> None:
    world.put("a", "b")
    a, b = world.take()
    keeper = Keeper(world)
    keeper.overdue.leases = {a.ref: 0.0, b.ref: math.inf}
    world.command("SET", world.key("tries"), "another program's")
    assert keeper.beat(1.0).lost == frozenset()
    assert "holds data of the wrong type" in keeper.refusal
    world.command("DEL", world.key("tries"))
    assert keeper.beat(2.0).lost == {a.ref}
    assert keeper.refusal == ""
    world.finish(b)


def test_one_whose_job_is_gone_does_not_hold_up_a_purge(world: World) -> None:
    follow(world, 900)
    (gone, *_) = world.command("HVALS", world.key("again"))
    world.command("HDEL", world.key("jobs"), gone)
    assert world.run(world.engine.purge("q", State.SCHEDULED)) == 899
    assert world.command("EXISTS", world.key("again")) == 0
    world.audit()
