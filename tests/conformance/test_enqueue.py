"""Enqueue: what goes in comes out, once, whole and in order."""

from __future__ import annotations

import pytest

from tenure.core import limits
from tenure.core.engine import Feature, Trait
from tenure.core.job import Enqueued, NewJob, State
from tenure.core.outcome import Completed
from tests.support.engines import list_again
from tests.support.world import World


def test_jobs_are_leased_in_the_order_in_which_they_came(world: World) -> None:
    assert world.put("a", "b", "c") == [True] * 3
    assert world.put("d") == [True]
    assert [lease.record.id for lease in world.take(2)] == ["a", "b"]
    assert [lease.record.id for lease in world.take(9)] == ["c", "d"]
    assert world.counts() == {"active": 4}


def test_a_job_comes_out_as_it_went_in(world: World) -> None:
    job = NewJob("q", "a", b"\x00\xff\r\n*1\r\n", task="t.x", timeout_ms=1_500, retries=7)
    assert world.enqueue([job]) == [Enqueued("a", True)]
    lease = world.take_one()
    record = lease.record
    assert (record.id, record.queue, record.task, record.payload) == ("a", "q", "t.x", job.payload)
    assert (record.timeout_ms, record.retries, record.malformed) == (1_500, 7, "")
    assert (lease.worker, lease.failures, lease.crashes, lease.attempt) == ("w", 0, 0, 1)


@pytest.mark.needs(Trait.ENQUEUE_TIME)
def test_the_time_of_the_enqueue_is_kept(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    now = int(world.command("TIME")[0]) * 1000
    assert abs(lease.record.enqueued_ms - now) < 60_000
    view = world.view("a")
    assert view.enqueued_ms == lease.record.enqueued_ms
    assert view.started_ms is not None
    assert view.started_ms >= view.enqueued_ms


@pytest.mark.needs(Feature.OWN_ID)
def test_answers_come_in_the_order_of_the_jobs_over_several_queues(world: World) -> None:
    world.put("b1", queue="b")
    jobs = [NewJob("a", "a1", b""), NewJob("b", "b1", b""), NewJob("c", "c1", b""), NewJob("b", "b2", b"")]
    assert world.enqueue(jobs) == [
        Enqueued("a1", True),
        Enqueued("b1", False),
        Enqueued("c1", True),
        Enqueued("b2", True),
    ]
    assert world.run(world.engine.queues()) == ["a", "b", "c"]
    assert world.ids(State.READY, "b") == ["b1", "b2"]


def test_no_jobs_are_no_call(world: World) -> None:
    assert world.enqueue([]) == []
    assert world.dump() == {}


@pytest.mark.needs(Feature.OWN_ID)
@pytest.mark.parametrize("delay_ms", [0, pytest.param(5, marks=pytest.mark.needs(Feature.DELAY))])
@pytest.mark.parametrize(
    "where",
    [
        "ready",
        pytest.param("scheduled", marks=pytest.mark.needs(Feature.DELAY)),
        "active",
        pytest.param("ended", marks=pytest.mark.needs(Feature.RESULTS)),
        "same call",
    ],
)
def test_an_id_that_exists_is_left_alone(world: World, where: str, delay_ms: int) -> None:
    if where == "same call":
        jobs = [NewJob("q", "a", b"first", own_id=True), NewJob("q", "a", b"second", own_id=True)]
        assert [answer.created for answer in world.enqueue(jobs)] == [True, False]
    else:
        world.put("a", payload=b"first", own_id=True, delay_ms=60_000 if where == "scheduled" else 0)
    lease = world.take_one() if where in ("active", "ended") else None
    if where == "ended":
        assert lease
        assert world.settle(lease, Completed(b"r", 60_000))
    before = world.dump()
    assert world.put("a", payload=b"other", own_id=True, delay_ms=delay_ms) == [False]
    assert world.dump() == before


@pytest.mark.needs(Feature.OWN_ID)
def test_an_id_is_free_again_when_no_record_is_kept(world: World) -> None:
    world.put("a", own_id=True)
    assert world.settle(world.take_one(), Completed(b"", 0))
    assert world.put("a", own_id=True) == [True]
    assert world.drain() == ["a"]


@pytest.mark.needs(Feature.OWN_ID, Feature.RESULTS)
def test_an_id_is_free_again_when_its_record_has_expired(world: World) -> None:
    world.put("a", own_id=True)
    assert world.settle(world.take_one(), Completed(b"old", 60_000))
    world.pass_time(60_100)
    assert world.job("a") is None
    assert world.put("a", own_id=True, payload=b"new") == [True]
    assert world.state("a") is State.READY
    lease = world.take_one()
    assert lease.record.payload == b"new"
    assert world.settle(lease, Completed(b"", 0))
    assert world.counts() == {}


@pytest.mark.needs(Feature.DELAY)
def test_a_delayed_job_waits_for_its_time(world: World) -> None:
    world.put("late", delay_ms=60_000)
    world.put("now")
    assert world.counts() == {"ready": 1, "scheduled": 1}
    view = world.view("late")
    assert view.state is State.SCHEDULED
    assert view.due_ms is not None
    assert view.enqueued_ms is not None
    assert view.due_ms - view.enqueued_ms == 60_000
    assert [lease.record.id for lease in world.take()] == ["now"]
    world.pass_time(59_000)
    assert world.take() == []
    world.pass_time(1_100)
    assert [lease.record.id for lease in world.take()] == ["late"]


@pytest.mark.needs(Feature.DELAY)
def test_a_time_that_has_passed_means_now(world: World) -> None:
    world.put("first")
    world.put("past", run_at_ms=1)
    assert world.counts() == {"ready": 2}
    assert world.drain() == ["first", "past"]


@pytest.mark.needs(Feature.DELAY)
def test_a_time_to_come_is_kept_exactly(world: World) -> None:
    at = int(world.command("TIME")[0]) * 1000 + 3_600_123
    world.put("a", run_at_ms=at)
    assert world.view("a").due_ms == at
    world.pass_time(3_590_000)
    assert world.take() == []
    world.pass_time(11_000)
    assert world.drain() == ["a"]


@pytest.mark.needs(Feature.DELAY)
def test_due_jobs_come_in_the_order_of_their_times(world: World) -> None:
    for id, delay in (("c", 30_000), ("a", 10_000), ("b", 20_000)):
        world.put(id, delay_ms=delay)
    assert world.ids(State.SCHEDULED) == ["a", "b", "c"]
    world.pass_time(40_000)
    assert world.drain() == ["a", "b", "c"]


def test_many_jobs_in_one_enqueue(world: World) -> None:
    count = 4 * limits.MAX_BATCH + 1
    ids = [f"j{n}" for n in range(count)]
    assert world.put(*ids, payload=b"x" * 100) == [True] * count
    assert world.counts() == {"ready": count}
    assert world.drain() == ids


@pytest.mark.parametrize(
    "piece", [pytest.param(bytes(range(256)), marks=pytest.mark.needs(Feature.BYTES)), b"text" * 64]
)
def test_large_payloads_are_cut_into_calls_of_bounded_size(world: World, piece: bytes) -> None:
    payload = piece * 4096
    ids = [f"j{n}" for n in range(6)]
    assert len(payload) * len(ids) > limits.MAX_CALL_BYTES
    world.put(*ids, payload=payload)
    leases = []
    while taken := world.take():  # one claim may give less than all
        leases += taken
    assert [lease.record.id for lease in leases] == ids
    assert all(lease.record.payload == payload for lease in leases)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"\n",
        b"\n\n12 x\n",
        pytest.param(b"\xff" * 1000, marks=pytest.mark.needs(Feature.BYTES)),
        b"$-1\r\n",
    ],
)
def test_any_bytes_are_a_payload(world: World, payload: bytes) -> None:
    world.put("a", payload=payload)
    lease = world.take_one()
    assert lease.record.payload == payload
    assert not lease.record.malformed
    assert world.view("a").payload == payload


def test_a_producer_that_lives_on_lists_its_queue_in_an_emptied_redis(world: World) -> None:
    world.put("a")
    world.command("FLUSHALL")
    list_again(world.engine, "q")
    world.put("b")
    assert world.run(world.engine.queues()) == ["q"]
