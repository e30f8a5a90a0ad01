"""Unique jobs: for how long a key is taken, and what an enqueue does that finds it taken."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.job import Enqueued, NewJob, State
from tenure.core.outcome import Completed, Failed, Released, Retried
from tenure.core.shape import Conflict, Shape, UniqueRule, Until
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.UNIQUE_KEYS)

WINDOW_MS = 60_000
DEAF = [Conflict.REJECT, Conflict.EXISTING]


def put(world: World, id: str, until: Until = Until.ENDED, conflict: Conflict = Conflict.REJECT) -> Enqueued:
    return world.put_only(id, "k", until, conflict, window_ms=WINDOW_MS, wait_ms=1_000, payload=id.encode())


@pytest.mark.parametrize("until", Until)
@pytest.mark.parametrize("conflict", Conflict)
def test_who_finds_nobody_is_enqueued(world: World, until: Until, conflict: Conflict) -> None:
    assert put(world, "a", until, conflict) == Enqueued("a", True)
    assert world.put_only("b", "other key", until, conflict) == Enqueued("b", True)
    assert world.put("c") == [True]
    assert world.drain() == list("abc")


@pytest.mark.parametrize("until", Until)
@pytest.mark.parametrize("conflict", Conflict)
def test_while_the_other_waits(world: World, until: Until, conflict: Conflict) -> None:
    put(world, "a", until)
    world.put("z")
    before = world.dump()
    answer = put(world, "b", until, conflict)
    assert (answer.id, answer.created) == ("a", False)
    assert world.job("b") is None
    expected = Conflict.EXISTING if conflict is Conflict.RERUN else conflict
    assert answer.conflict is expected
    if expected in DEAF:
        assert world.dump() == before
    assert world.view("a").payload == (b"a" if expected in DEAF else b"b")
    assert world.drain() == ["a", "z"]


@pytest.mark.parametrize("until", [Until.ENDED, Until.WINDOW])
@pytest.mark.parametrize("conflict", Conflict)
def test_while_the_other_runs(world: World, until: Until, conflict: Conflict) -> None:
    put(world, "a", until)
    lease = world.take_one()
    before = world.dump()
    answer = put(world, "b", until, conflict)
    if conflict is Conflict.RERUN:
        assert answer == Enqueued("b", True)
    else:
        assert (answer.id, answer.created) == ("a", False)
        assert answer.conflict is (Conflict.EXISTING if conflict is Conflict.EXISTING else Conflict.REJECT)
        assert world.dump() == before
        assert world.job("b") is None
    assert world.view("a").payload == b"a"
    world.finish(lease)
    assert world.drain() == (["b"] if conflict is Conflict.RERUN else [])


@pytest.mark.parametrize("conflict", Conflict)
def test_until_started_is_over_when_it_is_claimed(world: World, conflict: Conflict) -> None:
    assert world.take() == []  # the first claim of a queue is not like those that follow
    put(world, "a", Until.STARTED)
    lease = world.take_one()
    assert put(world, "b", Until.STARTED, conflict) == Enqueued("b", True)
    assert world.settle(lease, Retried(BOOM))
    assert put(world, "c", Until.STARTED).id == "b", "a retry does not take it again"
    assert world.state("a") is State.READY
    assert sorted(world.drain()) == ["a", "b"]
    assert world.is_free()


@pytest.mark.parametrize("how", ["released", "silent", "retried", "retried later"])
def test_until_started_is_not_taken_again(world: World, how: str) -> None:
    put(world, "a", Until.STARTED)
    lease = world.take_one()
    if how == "silent":
        world.silence()
    elif how == "released":
        world.settle(lease, Released())
    else:
        world.settle(lease, Retried(BOOM, 0 if how == "retried" else 1_000))
        world.pass_time(1_100)
        world.maintain()
    assert world.state("a") is State.READY
    assert put(world, "b", Until.STARTED).created
    assert not put(world, "c", Until.STARTED).created
    assert world.drain().count("a") == 1
    assert world.left() == set()


@pytest.mark.parametrize("outcome", [Completed(b"", 0), Failed(BOOM)], ids=["completed", "failed"])
def test_until_started_its_end_does_not_free_the_key_of_the_next(world: World, outcome: Completed | Failed) -> None:
    put(world, "a", Until.STARTED)
    lease = world.take_one()
    put(world, "b", Until.STARTED)
    assert world.settle(lease, outcome)
    assert put(world, "c", Until.STARTED).id == "b"


# A window of time.


def test_a_window_is_over_when_its_time_is(world: World) -> None:
    put(world, "a", Until.WINDOW)
    world.drain()
    world.pass_time(WINDOW_MS - 5_000)
    assert put(world, "b", Until.WINDOW).id == "a", "whatever became of the job"
    world.pass_time(5_100)
    assert put(world, "b", Until.WINDOW) == Enqueued("b", True)
    assert put(world, "c", Until.WINDOW).id == "b", "a window of its own"
    world.drain()
    world.pass_time(WINDOW_MS + 100)
    world.maintain()
    assert world.left() == set()


def test_a_job_that_outlives_its_window_keeps_nobody_away(world: World) -> None:
    put(world, "a", Until.WINDOW)
    world.pass_time(WINDOW_MS + 100)
    assert put(world, "b", Until.WINDOW).created
    lease = world.take_one()
    assert lease.record.id == "a"
    world.finish(lease)
    assert put(world, "c", Until.WINDOW).id == "b", "the end of the first does not free the second's"
    assert world.drain() == ["b"]


@pytest.mark.parametrize("outcome", [Completed(b"r", 600_000), Completed(b"", 0), Failed(BOOM), Retried(BOOM)])
def test_a_window_outlasts_the_job(world: World, outcome: Completed | Failed | Retried) -> None:
    put(world, "a", Until.WINDOW)
    assert world.settle(world.take_one(), outcome)
    answer = put(world, "b", Until.WINDOW, Conflict.EXISTING)
    assert (answer.id, answer.conflict) == ("a", Conflict.EXISTING)


@pytest.mark.parametrize("act", ["cancel", "discard", "purge"])
@pytest.mark.parametrize("delay_ms", [0, 30_000])
def test_a_window_is_over_when_the_job_is_taken_away(world: World, act: str, delay_ms: int) -> None:
    world.put_only("a", "k", Until.WINDOW, window_ms=WINDOW_MS, delay_ms=delay_ms)
    world.remove(act, "a")
    assert put(world, "b", Until.WINDOW).created


def test_a_window_counts_from_the_enqueue(world: World) -> None:
    world.put_only("a", "k", Until.WINDOW, window_ms=5_000, delay_ms=60_000)
    world.pass_time(5_100)
    assert world.put_only("b", "k", Until.WINDOW, window_ms=5_000).created


# Replace.


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_replace_changes_the_payload_and_nothing_else(world: World, delay_ms: int) -> None:
    world.put_only("a", payload=b"old\nline", delay_ms=delay_ms, timeout_ms=5_000, task="t")
    world.put("z", delay_ms=delay_ms and delay_ms + 50)
    before = world.view("a")
    for payload in (b"new\nline 2\n", b"", b"newest"):
        answer = world.put_only("b", conflict=Conflict.REPLACE, payload=payload, task="t", timeout_ms=5_000)
        assert answer == Enqueued("a", False, Conflict.REPLACE)
    after = world.view("a")
    assert after.payload == b"newest"
    assert (after.enqueued_ms, after.due_ms, after.state, after.shape, after.task) == (
        before.enqueued_ms,
        before.due_ms,
        before.state,
        before.shape,
        before.task,
    )
    world.pass_time(60_100)
    leases = world.take()
    assert [(lease.record.id, lease.record.payload) for lease in leases] == [("a", b"newest"), ("z", b"p")]
    assert leases[0].record.timeout_ms == 5_000


def test_replace_reaches_one_that_waits_for_its_retry(world: World) -> None:
    put(world, "a")
    assert world.settle(world.take_one(), Retried(BOOM, 1_000))
    assert put(world, "b", conflict=Conflict.REPLACE).conflict is Conflict.REPLACE
    view = world.view("a")
    assert (view.payload, view.failures, view.state) == (b"b", 1, State.SCHEDULED)


@pytest.mark.needs(Feature.LANES)
def test_replace_keeps_the_place_in_a_lane(world: World) -> None:
    world.put_in("L", "first")
    world.put_only("a", lane="L")
    world.put_in("L", "last")
    answer = world.put_only("b", conflict=Conflict.REPLACE, lane="other", payload=b"new")
    assert answer.id == "a"
    assert world.in_lane("L") == ["first", "a", "last"]
    assert world.view("a").shape.lane == "L"
    assert world.drain() == ["first", "a", "last"]


# Delays, own ids, many at once.


@pytest.mark.needs(Feature.DELAY)
def test_a_delayed_job_has_its_key_at_once_and_keeps_it(world: World) -> None:
    world.put_only("a", delay_ms=1_000)
    assert put(world, "b").id == "a"
    world.pass_time(1_100)
    world.maintain()
    assert put(world, "b").id == "a"
    assert world.drain() == ["a"]
    assert put(world, "b").created


def test_a_job_does_not_stand_in_its_own_way(world: World) -> None:
    for _ in range(2):
        answer = world.put_only("a", own_id=True)
    assert (answer.id, answer.created, answer.conflict) == ("a", False, None)
    assert world.drain() == ["a"]
    assert world.is_free()


def test_an_id_that_exists_takes_no_key(world: World) -> None:
    world.put("a", own_id=True)
    assert world.put_only("a", "new key", own_id=True) == Enqueued("a", False)
    assert world.is_free("new key")


def test_the_key_is_any_text(world: World) -> None:
    keys = ["a b", "a%20b", "é", "{x}:y", "a\nb", "=", "e:k", "x" * 200, " ", "k=1 l=2"]
    for n, key in enumerate(keys):
        assert world.put_only(f"j{n}", key).created, key
    for n, key in enumerate(keys):
        assert world.put_only("new", key).id == f"j{n}"
        assert world.view(f"j{n}").shape.unique == UniqueRule(key)
    assert len(world.drain()) == len(keys)
    assert world.left() == set()


def test_the_key_is_of_one_queue(world: World) -> None:
    world.put_only("a")
    shape = Shape(unique=UniqueRule("k"))
    assert world.put("b", queue="r", shape=shape) == [True]


@pytest.mark.parametrize("conflict", Conflict)
def test_two_of_one_key_in_one_call(world: World, conflict: Conflict) -> None:
    shape = Shape(unique=UniqueRule("k", conflict=conflict, wait_ms=1_000))
    jobs = [NewJob("q", id, id.encode(), shape=shape) for id in ("a", "b")]
    first, second = world.enqueue([jobs[0], NewJob("q", "plain", b""), jobs[1]])[::2]
    assert first == Enqueued("a", True)
    expected = Conflict.EXISTING if conflict is Conflict.RERUN else conflict
    assert second == Enqueued("a", False, expected)
    assert world.view("a").payload == (b"a" if expected in DEAF else b"b")
    assert world.drain() == ["a", "plain"]


def test_many_of_few_keys_in_more_than_one_call(world: World) -> None:
    jobs = [NewJob("q", f"j{n}", b"", shape=Shape(unique=UniqueRule(f"k{n % 7}"))) for n in range(1_300)]
    answers = world.enqueue(jobs)
    assert [answer.created for answer in answers] == [True] * 7 + [False] * 1_293
    assert [answer.id for answer in answers] == [f"j{n % 7}" for n in range(1_300)]
    assert world.counts() == {"ready": 7}
    assert world.drain() == [f"j{n}" for n in range(7)]
    assert world.left() == set()
