"""Settle: every outcome puts the job where it says, once, and only for who holds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenure.core.engine import Feature, Trait
from tenure.core.job import ErrorInfo, Lease, LeaseRef, State
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tests.support.engines import LEASE_MS
from tests.support.world import BOOM, World

OUTCOMES: list[Outcome] = [
    Completed(b"result", 60_000),
    Completed(b"result", 0),
    Retried(BOOM, 0),
    Retried(BOOM, 60_000),
    Failed(BOOM),
    Broken(BOOM),
    Released(),
    Crashed(),
    Unroutable(),
    Cancelled("why"),
]


def names(value: object) -> str:
    return type(value).__name__


@pytest.mark.needs(Feature.RESULTS)
def test_completed_with_a_result(world: World) -> None:
    world.put("a", task="t", payload=b"in")
    lease = world.take_one("me")
    assert world.settle(lease, Completed(b"\x00out\n", 60_000))
    view = world.view("a")
    assert (view.state, view.result, view.task, view.worker, view.token) == (
        State.COMPLETED,
        b"\x00out\n",
        "t",
        "me",
        lease.token,
    )
    assert view.ended_ms
    assert view.expires_ms == view.ended_ms + 60_000
    assert view.started_ms
    assert view.enqueued_ms
    assert view.error is None
    assert world.counts() == {"completed": 1}
    assert world.totals()["completed"] == 1


@pytest.mark.needs(Feature.RESULTS)
def test_a_result_is_gone_after_its_time(world: World) -> None:
    world.put("a", "b")
    for lease, ttl in zip(world.take(), (60_000, 90_000), strict=True):
        assert world.settle(lease, Completed(b"r", ttl))
    world.pass_time(59_000)
    assert world.maintain().pruned == 0
    world.pass_time(1_100)
    assert world.job("a") is None
    assert world.maintain().pruned == 1
    assert world.counts() == {"completed": 1}
    assert world.view("b").result == b"r"


def test_completed_without_a_record_leaves_nothing(world: World) -> None:
    world.put("a")
    assert world.settle(world.take_one(), Completed(b"ignored", 0))
    assert world.job("a") is None
    assert world.counts() == {}
    assert world.totals()["completed"] == 1


@pytest.mark.needs(Feature.RETRIES, Feature.COUNTS)
def test_retried_at_once_goes_to_the_end(world: World) -> None:
    world.put("a", "b")
    assert world.settle(world.take_one(), Retried(BOOM))
    assert world.ids(State.READY) == ["b", "a"]
    view = world.view("a")
    assert (view.failures, view.crashes, view.error) == (1, 0, BOOM)
    second = world.take(2)[1]
    assert (second.failures, second.crashes, second.attempt) == (1, 0, 2)
    assert world.totals()["retried"] == 1


@pytest.mark.needs(Feature.RETRIES, Feature.COUNTS, Feature.RESULTS)
def test_completed_after_a_retry_keeps_its_counts(world: World) -> None:
    world.put("a")
    assert world.settle(world.take_one(), Retried(BOOM))
    assert world.settle(world.take_one(), Completed(b"r"))
    view = world.view("a")
    assert (view.state, view.failures, view.crashes) == (State.COMPLETED, 1, 0)


@pytest.mark.needs(Trait.RETRY_DELAY)
@pytest.mark.needs(Feature.RETRIES)
def test_retried_later_waits(world: World) -> None:
    world.put("a")
    assert world.settle(world.take_one(), Retried(BOOM, 60_000))
    assert world.counts() == {"scheduled": 1}
    assert world.take() == []
    world.pass_time(60_100)
    lease = world.take_one()
    assert (lease.failures, lease.attempt) == (1, 2)
    assert world.settle(lease, Retried(ErrorInfo("Other", "x")))
    assert world.view("a").error == ErrorInfo("Other", "x")


@pytest.mark.needs(Feature.RECORDS)
@pytest.mark.parametrize(
    ("outcome", "state", "failures"), [(Failed(BOOM), State.FAILED, 1), (Broken(BOOM), State.BROKEN, 0)], ids=names
)
def test_failed_and_broken_are_kept_whole(world: World, outcome: Outcome, state: State, failures: int) -> None:
    payload = b"\x00\xffwhole\n"
    world.put("a", payload=payload, task="t", retries=3)
    lease = world.take_one("me")
    assert world.settle(lease, outcome)
    view = world.view("a")
    assert (view.state, view.payload, view.error, view.task) == (state, payload, BOOM, "t")
    assert (view.failures, view.crashes, view.worker, view.result) == (failures, 0, "me", None)
    assert world.counts() == {state.value: 1}
    assert world.totals()[state.value] == 1
    assert world.take() == []


def test_released_goes_to_the_front_in_the_order_of_the_claims(world: World) -> None:
    world.put(*"abcde")
    leases = world.take(3)
    answers = world.run(world.engine.settle([(lease, Released()) for lease in (leases[1], leases[2], leases[0])]))
    assert answers == [True] * 3
    assert world.ids(State.READY) == list("abcde")
    assert [lease.attempt for lease in world.take()] == [1] * 5


def test_released_one_after_the_other_goes_to_the_front(world: World) -> None:
    world.put(*"abc")
    first, second = world.take(2)
    assert world.settle(second, Released())
    assert world.settle(first, Released())
    assert world.ids(State.READY) == list("abc")


@pytest.mark.needs(Feature.UNROUTABLE)
def test_unroutable_is_parked_until_a_worker_offers_its_task(world: World) -> None:
    world.put("x1", "x2", task="x")
    world.put("y1", task="y")
    world.put("z1", task="z")
    leases = world.take(3)
    assert world.run(world.engine.settle([(lease, Unroutable()) for lease in leases])) == [True] * 3
    assert world.counts() == {"unroutable": 3, "ready": 1}
    assert world.state("x1") is State.UNROUTABLE
    assert world.maintain().unparked == 0
    assert world.maintain(["other"]).unparked == 0
    assert world.maintain(["x"]).unparked == 2
    assert world.counts() == {"unroutable": 1, "ready": 3}
    assert world.ids(State.READY) == ["x1", "x2", "z1"]
    assert [lease.attempt for lease in world.take()] == [1, 1, 1]
    assert world.maintain(["x", "y"]).unparked == 1


@pytest.mark.needs(Feature.UNROUTABLE)
def test_parked_jobs_come_back_in_their_order_however_many_rounds_it_takes(world: World) -> None:
    ids = [f"j{n:02}" for n in range(25)]
    world.put(*ids, task="x")
    world.run(world.engine.settle([(lease, Unroutable()) for lease in world.take(25)]))
    rounds = 0
    while world.maintain(["x"], limit=10).more:
        rounds += 1
    assert rounds == 2
    assert world.ids(State.READY) == ids


@pytest.mark.needs(Trait.PARKED_RAW)
@pytest.mark.needs(Feature.UNROUTABLE)
def test_a_raw_job_can_be_parked_as_well(world: World) -> None:
    world.put("a")
    assert world.settle(world.take_one(), Unroutable())
    assert world.state("a") is State.UNROUTABLE
    assert world.maintain(["*"]).unparked == 1


def test_cancelled_while_it_ran(world: World) -> None:
    world.put("a", payload=b"whole")
    assert world.settle(world.take_one(), Cancelled("not wanted"))
    view = world.view("a")
    assert (view.state, view.payload, view.failures) == (State.CANCELLED, b"whole", 0)
    assert view.error
    assert view.error.message == "not wanted"


@pytest.mark.parametrize("outcome", OUTCOMES, ids=names)
def test_only_the_first_settlement_counts(world: World, outcome: Outcome) -> None:
    world.put("a", task="t")
    lease = world.take_one()
    assert world.settle(lease, outcome)
    before = world.dump()
    for again in OUTCOMES:
        assert not world.settle(lease, again)
    assert world.dump() == before


def reclaimed(world: World, lease: Lease) -> None:
    assert world.silence() == 1


def left(world: World, lease: Lease) -> None:
    assert world.run(world.engine.leave(lease.worker, ["q"])) == 1


def taken_by_another(world: World, lease: Lease) -> None:
    left(world, lease)
    world.take_one("other")


def taken_again_by_itself(world: World, lease: Lease) -> None:
    left(world, lease)
    world.take_one(lease.worker)


def completed_by_another(world: World, lease: Lease) -> None:
    left(world, lease)
    assert world.settle(world.take_one("other"), Completed(b"theirs", 60_000))


def completed_and_enqueued_anew(world: World, lease: Lease) -> None:
    left(world, lease)
    assert world.settle(world.take_one("other"), Completed(b"", 0))
    world.put("a", payload=b"new generation")


@pytest.mark.parametrize("outcome", OUTCOMES, ids=names)
@pytest.mark.parametrize(
    "lose",
    [
        reclaimed,
        left,
        taken_by_another,
        taken_again_by_itself,
        completed_by_another,
        completed_and_enqueued_anew,
    ],
    ids=lambda function: function.__name__,
)
def test_a_zombie_changes_nothing(world: World, lose: Callable[[World, Lease], None], outcome: Outcome) -> None:
    world.put("a", task="t")
    lease = world.take_one("zombie")
    lose(world, lease)
    before = world.dump()
    assert not world.settle(lease, outcome)
    assert world.beat("zombie", [lease]).lost == {lease.ref}
    assert not world.settle(Lease("zombie", lease.token, lease.record, 0, 0), outcome)
    after = world.dump()
    assert world.entry.timeless(after) == world.entry.timeless(before)


def test_complete_is_true_for_exactly_one(world: World) -> None:
    world.put("a")
    leases = []
    for n in range(4):
        leases.append(world.take_one(f"w{n}"))
        if n < 3:
            world.run(world.engine.leave(f"w{n}", ["q"]))
    answers = [world.settle(lease) for lease in leases + leases]
    assert answers == [False, False, False, True, False, False, False, False]
    assert world.totals()["completed"] == 1


def test_a_token_does_not_fit_another_job(world: World) -> None:
    world.put("a", "b")
    a, b = world.take()
    wrong = Lease(a.worker, b.token, a.record, 0, 0)
    foreign = Lease("somebody", a.token, a.record, 0, 0)
    before = world.dump()
    assert not world.settle(wrong)
    assert not world.settle(foreign)
    assert world.dump() == before
    assert world.settle(a)
    assert world.settle(b)


def test_many_settlements_of_many_workers_and_queues_in_one_call(world: World) -> None:
    world.put(*(f"a{n}" for n in range(600)), queue="a")
    world.put("b0", "b1", queue="b")
    leases = world.take(500, "w1", ["a"]) + world.take(100, "w2", ["a"]) + world.take(2, "w1", ["b"])
    stale = leases[3]
    assert world.settle(stale, Completed(b"", 0))
    answers = world.run(world.engine.settle([(lease, Completed(b"", 0)) for lease in leases]))
    assert answers == [n != 3 for n in range(602)]
    assert world.counts("a") == world.counts("b") == {}


def test_one_lease_twice_in_a_call_is_settled_once(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    assert world.run(world.engine.settle([(lease, Retried(BOOM)), (lease, Completed(b""))])) == [True, False]
    assert world.counts() == {"ready": 1}


def test_settle_works_after_a_long_silence_while_nobody_noticed(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    world.pass_time(LEASE_MS * 3)
    assert world.settle(lease, Completed(b"", 0))


def test_nothing_to_settle_is_no_call(world: World) -> None:
    assert world.run(world.engine.settle([])) == []
    assert world.dump() == {}


@pytest.mark.needs(Feature.RESULTS, Feature.RECORDS, Feature.UNROUTABLE)
def test_all_outcomes_in_one_call(world: World) -> None:
    world.put(*(f"j{n}" for n in range(len(OUTCOMES))), task="t")
    leases = world.take(len(OUTCOMES))
    assert all(world.run(world.engine.settle(list(zip(leases, OUTCOMES, strict=True)))))
    assert world.counts() == {
        "completed": 1,
        "ready": 3,
        "scheduled": 1,
        "failed": 1,
        "broken": 1,
        "unroutable": 1,
        "cancelled": 1,
    }
    assert world.ids(State.READY) == ["j6", "j7", "j2"]
    assert world.beat("w", leases).lost == {LeaseRef("q", lease.record.id, lease.token) for lease in leases}


# Crashed: the process of the job died, its worker lives.


@pytest.mark.needs(Feature.COUNTS)
def test_a_crash_is_counted_and_the_job_goes_to_the_front(world: World) -> None:
    world.put("a", "b", "c", task="t")
    a, b = world.take(2)
    world.settle_each([b, a], Crashed(), Released())
    assert world.ids(State.READY) == ["a", "b", "c"]
    assert [(world.view(id).crashes, world.view(id).failures) for id in "abc"] == [(0, 0), (1, 0), (0, 0)]
    assert world.totals()["crashed"] == 1
    assert not world.settle(b, Crashed()), "it is ours no longer"
    assert world.view("b").crashes == 1


@pytest.mark.needs(Feature.COUNTS)
def test_a_job_that_crashes_every_time_ends_in_broken(world: World) -> None:
    world.put("poison")
    for crash in range(1, world.options.max_crashes):
        assert world.settle(world.take_one(f"w{crash}"), Crashed())
        assert (world.state("poison"), world.view("poison").crashes) == (State.READY, crash)
    assert world.settle(world.take_one(), Crashed())
    assert world.state("poison") is State.BROKEN
    error = world.view("poison").error
    assert error is not None
    assert error.type == "Crashed"


@pytest.mark.needs(Feature.CANCEL)
def test_a_job_that_crashes_after_its_cancel_was_asked_is_cancelled(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    world.cancel("a", "no more")
    assert world.settle(lease, Crashed())
    assert world.state("a") is State.CANCELLED
