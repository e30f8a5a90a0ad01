"""Heartbeats, and what becomes of the jobs of a worker that is silent: order, counts, limits, outages, clocks."""

from __future__ import annotations

import pytest

from tenure.core import limits
from tenure.core.engine import BEAT_MS, Feature, Trait
from tenure.core.job import JobView, State
from tenure.core.outcome import Broken, Completed, Crashed, Failed, Outcome, Released, Retried
from tests.support.engines import AMNESTY_MS, GRACE_MS, LEASE_MS, OUTAGE_MS
from tests.support.world import BOOM, World


def test_a_worker_that_beats_is_never_taken_for_dead(world: World) -> None:
    world.put(*"abc")
    leases = world.take()
    for n in range(30):
        world.pass_time(LEASE_MS - 500)
        if n % 3 == 0:
            world.maintain()
        assert not world.beat("w", leases).lost
        world.beat("other")
    assert all(world.settle(lease, Completed(b"", 0)) for lease in leases)


def test_a_suspect_that_beats_within_the_grace_keeps_its_jobs(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    for _ in range(5):
        world.pass_time(LEASE_MS + 100)
        assert world.maintain().reclaimed == 0
        world.pass_time(GRACE_MS - 1_000)
        assert world.maintain().reclaimed == 0
        assert not world.beat("w", [lease]).lost
    assert world.settle(lease, Completed(b"", 0))


def test_an_old_suspicion_does_not_count_for_a_new_silence(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    world.pass_time(LEASE_MS + 100)
    world.maintain()
    world.beat("w", [lease])
    world.pass_time(LEASE_MS + GRACE_MS)
    assert world.maintain().reclaimed == 0
    assert world.settle(lease, Completed(b"", 0))


def test_silence_is_judged_only_after_the_grace(world: World) -> None:
    world.put("a")
    world.take_one()
    world.pass_time(LEASE_MS - 500)
    assert world.maintain().reclaimed == 0
    world.pass_time(600)
    assert world.maintain().reclaimed == 0
    world.pass_time(GRACE_MS - 500)
    assert world.maintain().reclaimed == 0
    world.pass_time(600)
    assert world.maintain().reclaimed == 1


@pytest.mark.needs(Feature.COUNTS)
@pytest.mark.parametrize("by", ["maintain", "lease", "heartbeat"])
def test_anybody_who_comes_by_gives_back_the_jobs_of_the_dead(world: World, by: str) -> None:
    world.put("a", "b")
    world.take_one("dead")
    alive = world.take_one("alive")
    for ms in (LEASE_MS // 2, LEASE_MS // 2 + 100, GRACE_MS + 100):
        world.pass_time(ms)
        if by == "maintain":
            world.maintain()
        elif by == "lease":
            world.take(1, "new")
        world.beat("alive", [alive])
    assert world.settle(alive, Completed(b"", 0))
    view = world.view("a")
    assert view.worker != "dead"
    assert view.crashes == 1


@pytest.mark.needs(Feature.COUNTS)
def test_the_jobs_of_the_dead_are_at_the_front_in_their_order(world: World) -> None:
    world.put(*"abcdef")
    world.take(2, "dead")
    world.take(2, "dead")
    assert world.silence() == 4
    assert world.ids(State.READY) == list("abcdef")
    leases = world.take()
    assert [(lease.failures, lease.crashes, lease.attempt) for lease in leases] == [(0, 1, 2)] * 4 + [(0, 0, 1)] * 2
    assert world.totals()["crashed"] == 4


@pytest.mark.needs(Feature.COUNTS)
def test_crashes_and_failures_are_counted_apart(world: World) -> None:
    world.put("a")
    world.take_one()
    world.silence()
    assert world.settle(world.take_one(), Retried(BOOM))
    world.take_one()
    world.silence()
    view = world.view("a")
    assert (view.failures, view.crashes, view.error) == (1, 2, BOOM)
    assert world.take_one().attempt == 4


@pytest.mark.needs(Feature.COUNTS, Feature.RECORDS)
def test_a_job_that_kills_its_workers_ends_in_broken(world: World) -> None:
    payload = b"\x00poison\n" * 100
    world.put("a", payload=payload, task="t")
    world.put("b")
    crashes = world.options.max_crashes
    for n in range(crashes):
        world.take_one(f"w{n}")
        assert world.silence() == 1
    view = world.view("a")
    assert (view.state, view.payload, view.crashes, view.failures) == (State.BROKEN, payload, crashes, 0)
    assert view.worker == f"w{crashes - 1}"
    assert view.error
    assert view.error.type == "Crashed"
    assert str(crashes) in view.error.message
    assert world.drain() == ["b"]
    assert world.totals()["broken"] == 1


@pytest.mark.needs(Feature.TIMEOUT)
@pytest.mark.parametrize("ms", [limits.HOUR, limits.DAY])
@pytest.mark.parametrize("first", ["heartbeat", "lease", "maintain"])
def test_a_clock_that_steps_ahead_takes_no_job_from_a_worker_that_beats(world: World, first: str, ms: int) -> None:
    """However short the timeouts are, and whoever sees the new time first."""
    world.put("a", "b", timeout_ms=1_000)
    leases = world.take()
    world.beat("w", leases)
    world.pass_time(ms)
    if first == "lease":
        assert world.take(1, "other") == []
    elif first == "maintain":
        assert world.maintain().reclaimed == 0
    for _ in range(3):
        assert not world.beat("w", leases).lost
        assert world.take(1, "w") == world.take(1, "other") == []
        assert world.maintain().reclaimed == 0
        world.pass_time(LEASE_MS - 500)
    assert {world.view(id).crashes for id in "ab"} == {0}
    world.finish(*leases)


@pytest.mark.needs(Feature.TIMEOUT)
@pytest.mark.parametrize("away_ms", [OUTAGE_MS + limits.OVERDUE_GRACE_MS, limits.HOUR])
def test_outcomes_that_waited_for_redis_win(world: World, away_ms: int) -> None:
    """Nobody reached Redis for much longer than the timeout. The workers come back one after the other."""
    world.put("a", timeout_ms=1_000)
    lease = world.take_one()
    world.beat("w", [lease])
    world.pass_time(away_ms)
    assert world.take(1, "other") == []
    assert not world.beat("w", [lease]).lost
    world.pass_time(AMNESTY_MS + GRACE_MS)
    assert not world.beat("w", [lease]).lost
    world.finish(lease)
    assert world.totals().get("crashed", 0) == 0


@pytest.mark.needs(Feature.EXTEND)
def test_to_extend_a_kept_lease_says_whether_it_is_held(world: World) -> None:
    world.put("a", timeout_ms=1_000)
    lease = world.take_one()
    assert world.run(world.engine.extend(lease, 60_000))
    world.pass_time(120_000)
    assert not world.beat("w", [lease]).lost
    world.finish(lease)
    assert not world.run(world.engine.extend(lease, 60_000))


def test_a_beat_says_what_is_lost(world: World) -> None:
    world.put(*"abc")
    a, b, c = world.take()
    world.settle(b, Released())
    beat = world.beat("w", [a, b, c])
    assert beat.lost == {b.ref}
    assert beat.orphaned == ()
    assert world.beat("nobody", [a]).lost == {a.ref}


def test_a_beat_says_what_is_held_in_our_name_unknown_to_us(world: World) -> None:
    world.put("a", "b")
    known, orphan = world.take()
    assert world.beat("w", [known]).orphaned == (), "it may be on its way"
    world.pass_time(2 * BEAT_MS + 50)
    (found,) = world.beat("w", [known]).orphaned
    assert (found.worker, found.ref) == ("w", orphan.ref)
    assert world.settle(found, Released())
    assert world.ids(State.READY) == ["b"]
    assert world.beat("w", [known]).orphaned == ()


@pytest.mark.parametrize("back_ms", [limits.MINUTE, limits.HOUR])
def test_a_clock_that_is_set_back_hides_no_orphaned_lease(world: World, back_ms: int) -> None:
    world.put("a")
    orphan = world.take_one()
    world.pass_time(-back_ms)
    assert [found.ref for found in world.beat("w").orphaned] == [orphan.ref]


def test_a_beat_keeps_the_queues_it_names(world: World) -> None:
    world.put("a", queue="a")
    world.put("b", queue="b")
    a, b = world.take(2, "w", ["a", "b"])
    for queue in ("a", "b"):
        world.pass_time(LEASE_MS - 500, queue)
    assert not world.beat("w", [a, b], ["a", "b"]).lost
    for queue in ("a", "b"):
        world.pass_time(LEASE_MS - 500, queue)
        world.maintain(queue=queue)
    assert world.beat("w", [a, b], ["a", "b"]).lost == frozenset()


def test_the_dead_are_found_a_bounded_number_at_a_time(world: World) -> None:
    ids = [f"j{n:03}" for n in range(450)]
    world.put(*ids)
    for worker in ("dead1", "dead2", "dead3"):
        world.take(150, worker)
    world.pass_time(LEASE_MS + 50)
    world.maintain()
    world.pass_time(GRACE_MS + 50)
    answer = world.maintain(limit=200)
    assert answer.more
    assert 0 < answer.reclaimed <= 300, "no more than the limit, but for all of the worker with which it is reached"
    for _ in range(len(ids)):
        if not world.maintain(limit=200).more:
            break
    assert world.counts() == {"ready": 450}


def test_the_jobs_of_two_dead_workers_come_back_in_one_order(world: World) -> None:
    world.put(*"abc")
    for worker in ("d1", "d2", "d1"):
        world.take(1, worker)
    assert world.silence() == 3
    assert world.ids(State.READY) == list("abc")


@pytest.mark.needs(Feature.COUNTS)
def test_what_was_claimed_ahead_of_the_slots_does_not_count_as_crashed(world: World) -> None:
    ids = [f"j{n}" for n in range(10)]
    world.put(*ids)
    world.run(world.engine.lease("dead", ["q"], 10, slots=2))
    assert world.silence() == 10
    assert [world.view(id).crashes for id in ids] == [1] * 4 + [0] * 6
    assert world.ids(State.READY) == ids


@pytest.mark.needs(Feature.DELAY)
def test_maintain_takes_any_limit(world: World) -> None:
    world.put(*(f"j{n}" for n in range(9_000)), delay_ms=1_000)
    world.pass_time(2_000)
    promoted = 0
    for _ in range(100):
        answer = world.maintain(limit=100_000)
        promoted += answer.promoted
        if not answer.more:
            break
    assert promoted == 9_000
    assert world.counts() == {"ready": 9_000}


# Redis away, and clocks.


def test_after_an_outage_workers_have_time_to_come_back(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    world.beat("w", [lease])
    world.pass_time(OUTAGE_MS + LEASE_MS + GRACE_MS)
    assert world.maintain().reclaimed == 0
    world.pass_time(AMNESTY_MS - 2_000)
    assert world.maintain().reclaimed == 0
    assert not world.beat("w", [lease]).lost
    assert world.settle(lease, Completed(b"", 0))


def test_a_claim_notices_an_outage_in_which_no_lease_ended(world: World) -> None:
    world = world.with_options(outage_ms=LEASE_MS // 2)
    world.put("a")
    lease = world.take_one()
    world.pass_time(LEASE_MS - 3_000)
    world.put("b")
    assert world.take_ids(1, "other") == ["b"]
    world.pass_time(3_100)
    assert world.maintain().reclaimed == 0
    world.pass_time(GRACE_MS + 50)
    assert world.maintain().reclaimed == 0
    assert not world.beat("w", [lease]).lost


def test_after_an_outage_the_dead_are_still_found(world: World) -> None:
    world.put("a")
    world.take_one()
    world.pass_time(OUTAGE_MS + LEASE_MS)
    assert world.maintain().reclaimed == 0
    world.pass_time(AMNESTY_MS + GRACE_MS)
    assert world.maintain().reclaimed == 1


@pytest.mark.parametrize("rest", [OUTAGE_MS - 5_000, OUTAGE_MS + 5_000, 10 * OUTAGE_MS])
def test_the_dead_are_found_however_seldom_anybody_comes_by(world: World, rest: int) -> None:
    world.put("a")
    world.take_one("dead")
    for _ in range(5):
        world.pass_time(rest)
        if world.take(1, "seldom"):
            return
    raise AssertionError("the job of a dead worker was never given back")


def test_when_the_clock_is_set_back_the_dead_are_still_found(world: World) -> None:
    world.put("a")
    world.take_one()
    world.maintain()
    world.pass_time(-7_200_000)
    assert world.maintain().reclaimed == 0
    assert world.silence() == 1


def test_when_the_clock_is_set_back_after_an_outage_the_dead_are_still_found(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    world.pass_time(OUTAGE_MS + 1_000)
    world.maintain()
    world.beat("w", [lease])
    world.pass_time(-7_200_000)
    world.beat("w", [lease])
    assert world.silence() == 1


def test_when_the_clock_is_set_back_the_living_keep_their_jobs(world: World) -> None:
    world.put("a")
    lease = world.take_one()
    world.maintain()
    world.pass_time(-7_200_000)
    for _ in range(4):
        world.beat("w", [lease])
        world.pass_time(LEASE_MS - 500)
        assert world.maintain().reclaimed == 0
    assert world.settle(lease, Completed(b"", 0))


# Leaving.


def test_leave_gives_all_back_to_the_front_and_counts_nothing(world: World) -> None:
    world.put(*"abcde")
    leases = world.take(3)
    other = world.take_one("other")
    assert world.run(world.engine.leave("w", ["q"])) == 3
    assert world.ids(State.READY) == list("abce")
    assert world.run(world.engine.leave("w", ["q"])) == 0
    assert not any(world.settle(lease) for lease in leases)
    assert [lease.attempt for lease in world.take(4)] == [1] * 4
    assert world.settle(other, Completed(b"", 0))


def test_leave_is_for_the_queues_named(world: World) -> None:
    world.put("a", queue="a")
    world.put("b", queue="b")
    a, b = world.take(2, "w", ["a", "b"])
    assert world.run(world.engine.leave("w", ["a", "c"])) == 1
    assert not world.settle(a)
    assert world.settle(b)
    assert world.counts("a") == {"ready": 1}


# Pruning.


@pytest.mark.needs(Feature.RECORDS)
def test_records_are_pruned_by_age_and_what_was_trimmed_is_counted(world: World) -> None:
    world = world.with_options(failed_ttl_ms=60_000)
    world.put("a", "b")
    world.settle_each(world.take(), Failed(BOOM), Broken(BOOM))
    world.put("c")
    assert world.run(world.engine.cancel("q", "c"))
    world.drain()
    world.pass_time(59_000)
    assert world.maintain().pruned == 0
    world.pass_time(1_100)
    assert world.maintain().pruned == 3
    assert world.counts() == {}
    totals = world.totals()
    assert (totals["trimmed_failed"], totals["trimmed_broken"], totals["trimmed_cancelled"]) == (1, 1, 1)


@pytest.mark.needs(Feature.RECORDS)
def test_records_are_trimmed_by_count_oldest_first(world: World) -> None:
    world = world.with_options(failed_max=3)
    ids = [f"j{n}" for n in range(6)]
    world.put(*ids)
    for lease in world.take(6):
        assert world.settle(lease, Failed(BOOM))
        world.pass_time(5)
    assert world.ids(State.FAILED) == ["j5", "j4", "j3"]
    assert world.totals()["trimmed_failed"] == 3


@pytest.mark.needs(Feature.RESULTS)
def test_results_are_trimmed_by_count_oldest_first(world: World) -> None:
    world = world.with_options(completed_max=2)
    world.put(*(f"c{n}" for n in range(4)))
    for lease in world.take(4):
        assert world.settle(lease, Completed(b"r", 60_000))
        world.pass_time(5)
    assert world.ids(State.COMPLETED) == ["c3", "c2"]
    assert world.totals()["trimmed_completed"] == 2


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(Completed(b"", 5_000), marks=pytest.mark.needs(Feature.RESULTS)),
        pytest.param(Failed(BOOM), marks=pytest.mark.needs(Feature.RECORDS)),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_pruning_is_bounded(world: World, outcome: Outcome) -> None:
    world = world.with_options(failed_ttl_ms=5_000)
    world.put(*(f"j{n}" for n in range(25)))
    world.settle_each(world.take(25), *[outcome] * 25)
    world.pass_time(6_000)
    rounds = [world.maintain(limit=10) for _ in range(3)]
    assert [(answer.pruned, answer.more) for answer in rounds] == [(10, True), (10, True), (5, False)]


@pytest.mark.needs(Feature.COUNTS)
def test_who_knows_that_a_worker_is_dead_need_not_wait(world: World) -> None:
    """Its jobs are back at once, and count as crashed: those that it can have been running."""
    world.put(*(f"j{n}" for n in range(6)))
    leases = world.run(world.engine.lease("w", ["q"], 6, slots=1)).leases
    assert world.run(world.engine.leave("w", ["q"], crashed=True)) == 6
    assert world.ids(State.READY) == [f"j{n}" for n in range(6)]
    assert [world.view(f"j{n}").crashes for n in range(6)] == [1, 1, 0, 0, 0, 0]
    assert world.totals()["crashed"] == 2
    assert not any(world.settle(lease) for lease in leases)
    assert world.run(world.engine.leave("w", ["q"], crashed=True)) == 0
    world.drain()


@pytest.mark.needs(Feature.COUNTS)
def test_poison_that_kills_its_worker_at_once_ends_in_broken(world: World) -> None:
    world.put("a")
    for crash in range(world.options.max_crashes):
        assert world.take_ids(1, f"w{crash}") == ["a"]
        assert world.run(world.engine.leave(f"w{crash}", ["q"], crashed=True)) == 1
    assert world.state("a") is State.BROKEN


@pytest.mark.needs(Trait.POISON_NEWS)
@pytest.mark.parametrize("by", ["silence", "settle", "leave"])
def test_who_took_down_its_workers_is_told_of_once(world: World, by: str) -> None:
    """Whoever notices it: whoever maintains the queue next tells of it, and of no other job."""
    world = world.with_options(max_crashes=2)
    world.put("poison", "good")
    told: list[JobView] = []
    for _ in range(2):
        leases = {lease.record.id: lease for lease in world.take()}
        if "good" in leases:
            world.settle(leases["good"], Released())
        if by == "settle":
            world.settle(leases["poison"], Crashed())
        elif by == "leave":
            world.leave(crashed=True)
        else:
            world.pass_time(LEASE_MS + 50)
            told += world.maintain().poisoned
            world.pass_time(GRACE_MS + 50)
        told += world.maintain().poisoned
    (view,) = told
    assert (view.id, view.state, view.crashes) == ("poison", State.BROKEN, 2)
    assert world.maintain().poisoned == ()


@pytest.mark.needs(Feature.COUNTS)
def test_news_of_what_was_discarded_meanwhile_is_no_news(world: World) -> None:
    world = world.with_options(max_crashes=1)
    world.put("poison")
    world.settle(world.take_one(), Crashed())
    world.discard("poison")
    assert world.maintain().poisoned == ()
