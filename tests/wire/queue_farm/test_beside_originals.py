"""Tenure workers beside original clients on the same queues: each finds what the other leaves, and order holds."""

from __future__ import annotations

import pytest

from tenure.core.errors import InvalidArgument, TenureError
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed, Failed, Outcome, Released, Retried
from tenure.core.shape import LaneState, Shape
from tenure.engines.queue_farm import QueueFarmEngine
from tenure.engines.queue_farm.config import DROPPED_MS, FIND_MS
from tenure.engines.queue_farm.wire import DELETED, RETRY_LIMIT, FarmDropped
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.world import BOOM, World
from tests.wire.queue_farm.player import BASE, Original


@pytest.fixture
def original(world: World) -> Original:
    return Original(world)


def look(world: World, worker: str = "w", **options: int) -> list[str]:
    """Claim after the time in which news of originals are found."""
    world.pass_time(FIND_MS + 1)
    return world.take_ids(10, worker, **options)


def test_a_job_of_an_original_producer_is_run_and_leaves_no_key(world: World, original: Original) -> None:
    id = original.push("L", '{"to": "me"}', attempts=5, timeout=1_000)
    world.pass_time(FIND_MS + 1)
    lease = world.take_one()
    record = lease.record
    assert (record.id, record.payload, record.timeout_ms, record.retries) == (id, b'{"to": "me"}', None, 4)
    assert record.shape == Shape(lane="L")
    world.finish(lease)
    world.pass_time(DROPPED_MS)
    world.maintain()
    assert not [name for name in world.dump() if not name.endswith((b":meta", b":queues"))]


@pytest.mark.parametrize("applied", [False, True])
def test_the_timeout_of_another_client_is_a_limit_if_the_user_asks_that_of_a_tenure_producer_always(
    world: World, original: Original, applied: bool
) -> None:
    world.engine = world.entry.make("test", world.options, apply_timeouts=applied)
    theirs = original.push("L", timeout=1_000)
    world.put_in("ours", "a", timeout_ms=2_000)
    world.put_in("default", "b", retries=1)
    world.pass_time(FIND_MS + 1)
    leases = world.take(10)
    assert {lease.record.id: lease.record.timeout_ms for lease in leases} == {
        theirs: 1_000 if applied else None,
        "a": 2_000,
        "b": None,
    }
    for lease in leases:
        view = world.run(world.engine.job("q", lease.record.id))
        assert view is not None
        assert view.timeout_ms == lease.record.timeout_ms, "the keeper gives jobs up by it"
    world.finish(*leases)


@pytest.mark.parametrize("leaves", ["a time", "jobs"])
def test_f5_what_an_original_writes_to_a_lane_that_is_gone_is_repaired(
    world: World, original: Original, leaves: str
) -> None:
    id = original.push("L")
    world.pass_time(FIND_MS + 1)
    world.finish(world.take_one())
    if leaves == "a time":
        original.fetch("L")
    else:
        id = original.push("L")
        world.command("SREM", f"{BASE}:active", "L")
    world.pass_time(DROPPED_MS)
    world.maintain()
    world.audit()
    assert world.drain() == ([] if leaves == "a time" else [id])


def test_jobs_of_originals_are_shown_before_a_worker_has_seen_them(world: World, original: Original) -> None:
    ids = {original.push(lane) for lane in "ABC"}
    world.put_in("D", "d")
    before = world.dump()
    shown = [view.id for view in world.run(world.engine.page("q", State.READY, limit=1)).jobs]
    after = world.run(world.engine.page("q", State.READY, limit=1)).next
    while after:
        page = world.run(world.engine.page("q", State.READY, limit=1, after=after))
        shown, after = shown + [view.id for view in page.jobs], page.next
    assert (shown[0], set(shown[1:]), len(shown)) == ("d", ids, 4)
    assert world.counts() == {"ready": 4}
    assert world.dump() == before
    assert set(look(world)) == ids | {"d"}


def test_a_waiting_worker_is_woken_for_a_job_of_an_original_producer(world: World, original: Original) -> None:
    original.push("L")
    assert world.wait(["q"], 1_000) == "q"
    assert len(world.take()) == 1


def test_no_job_starts_beside_a_batch_of_an_original(world: World, original: Original) -> None:
    ids = [original.push("L") for _ in range(4)]
    assert original.take("L", 2) == ids[:2]
    assert look(world) == []
    assert world.lane("L").state is LaneState.BUSY
    assert {world.state(id) for id in ids[:2]} == {State.ACTIVE}
    original.finish("L")
    assert look(world) == ids[2:3]
    assert original.take("L") == [], "nor the other way round"
    world.leave()
    assert original.take("L", 2) == ids[2:]
    original.fail("L")
    assert look(world, of_lane=2) == ids[2:]


def test_f17_jobs_that_an_original_released_are_found_though_not_active(world: World, original: Original) -> None:
    world.put_in("L", "a", "b")
    original.take("L")
    assert look(world) == []
    original.fail("L")
    world.command("SREM", f"{BASE}:active", "L")
    assert look(world) == ["a"]
    assert world.command("SISMEMBER", f"{BASE}:active", "L") == 1


@pytest.mark.parametrize("skew_ms", [-3_600_000, 0, 3_600_000])
def test_f12_a_stalled_batch_is_taken_over_by_its_observed_age(world: World, original: Original, skew_ms: int) -> None:
    original.skew_ms = skew_ms
    ids = [original.push("L", timeout=20_000) for _ in range(3)]
    original.take("L", 2)
    assert look(world) == []
    world.pass_time(39_000)
    assert look(world) == []
    original.fetch("L")
    world.pass_time(5_000)
    assert look(world) == [], "another original has it now"
    world.pass_time(41_000)
    assert look(world, of_lane=2) == ids[:2]
    assert world.view(ids[0]).failures == 1


def test_a_batch_without_timeouts_stalls_after_the_default(world: World, original: Original) -> None:
    id = original.push("L", timeout=0)
    original.take("L")
    look(world)
    world.pass_time(world.engine.config.default_timeout_ms - 1_000)
    assert look(world) == []
    world.pass_time(1_100)
    assert look(world) == [id]


def test_an_original_never_finds_a_live_batch_stalled(world: World, original: Original) -> None:
    original.push("L", timeout=100)
    world.pass_time(FIND_MS + 1)
    lease = world.take_one()
    for _ in range(3):
        assert not original.finds_stalled("L")
        before = int(world.command("GET", f"{BASE}:active:L:fetchAt"))
        while original.now() + LEASE_MS <= before:
            pass
        assert not world.beat("w", [lease]).lost
        assert int(world.command("GET", f"{BASE}:active:L:fetchAt")) > before


@pytest.mark.parametrize("how", ["fetched", "started", "ended"])
@pytest.mark.parametrize(
    "late", [Completed(b"", 0), Retried(BOOM), Failed(BOOM), Released()], ids=lambda o: type(o).__name__
)
def test_f2_a_batch_that_an_original_took_over_is_lost(
    world: World, original: Original, how: str, late: Outcome
) -> None:
    world.put_in("L", "a", "b")
    lease = world.take_one()
    if how == "fetched":
        original.skew_ms = 60_000
        original.fetch("L")
    elif how == "started":
        original.start(["a"])
    else:
        original.finish("L", ["a"])
    keys = {name: value for name, value in world.dump().items() if b":tenure:" not in name}
    assert not world.settle(lease, late)
    after = {name: value for name, value in world.dump().items() if b":tenure:" not in name}
    assert after == keys
    assert world.beat("w", [lease]).lost == {lease.ref}
    world.audit()


@pytest.mark.parametrize("outcome", [Completed(b"", 0), Retried(BOOM), Failed(BOOM)], ids=lambda o: type(o).__name__)
def test_a_job_that_an_original_deleted_while_it_ran_may_end(world: World, outcome: Outcome) -> None:
    world.put_in("L", "a", "b")
    lease = world.take_one()
    world.command("DEL", f"{BASE}:job:a")
    world.command("LREM", f"{BASE}:queue:L", 1, "a")
    assert not world.beat("w", [lease]).lost
    assert world.settle(lease, outcome)
    assert world.drain() == ["b"]


def test_a_heartbeat_tells_what_an_original_took_over(world: World, original: Original) -> None:
    world.put_in("L", "a", "b")
    lease = world.take_one()
    original.skew_ms = 60_000
    original.fetch("L")
    fetched = world.command("GET", f"{BASE}:active:L:fetchAt")
    assert world.beat("w", [lease]).lost == {lease.ref}
    assert world.command("GET", f"{BASE}:active:L:fetchAt") == fetched
    original.start(["a"])
    original.finish("L", ["a"])
    assert look(world) == ["b"]


def test_the_dead_worker_is_found_by_its_lease_and_not_by_the_timeouts(world: World) -> None:
    world.put_in("L", "a", "b", timeout_ms=3_600_000)
    world.take_one("dead")
    world.pass_time(LEASE_MS + 50)
    world.maintain()
    world.pass_time(GRACE_MS + 50)
    assert look(world) == ["a"]


@pytest.mark.parametrize("keeps", [False, True])
def test_f9_a_job_at_its_limit_leaves_a_record_with_its_data(world: World, original: Original, keeps: bool) -> None:
    world.engine = world.entry.make("test", world.options, delete_jobs=not keeps)
    id = original.push("L", '{"dear":"data"}', attempts=2)
    for _ in range(2):
        original.take("L")
        original.fail("L")
    world.pass_time(FIND_MS + 1)
    answer = world.lease()
    (dropped,) = answer.dropped
    assert isinstance(dropped, FarmDropped)
    assert (answer.leases, dropped.id, dropped.lane, dropped.kind) == ((), id, "L", RETRY_LIMIT)
    view = world.view(id)
    assert (view.state, view.payload, view.failures) == (State.FAILED, b'{"dear":"data"}', 2)
    listed = world.command("LRANGE", f"{BASE}:maxAttempts:L", 0, -1)
    assert listed == ([id.encode()] if keeps else [])
    assert bool(world.command("HGET", f"{BASE}:job:{id}", "maxAttemptsAt")) is keeps
    assert world.retry(id)
    assert world.take_ids() == [id]
    assert not world.command("EXISTS", f"{BASE}:maxAttempts:L")


@pytest.mark.parametrize("how", ["hash", "deleteAt", "deletedAt", "empty"])
def test_f15_a_deleted_job_is_not_run(world: World, original: Original, how: str) -> None:
    gone, next_one = original.push("L"), original.push("L")
    if how == "hash":
        world.command("DEL", f"{BASE}:job:{gone}")
    elif how == "empty":
        world.command("HSET", f"{BASE}:job:{gone}", "data", "")
    else:
        world.command("HSET", f"{BASE}:job:{gone}", how, 1)
    world.pass_time(FIND_MS + 1)
    answer = world.lease()
    assert [lease.record.id for lease in answer.leases] == [next_one]
    assert [dropped.kind for dropped in answer.dropped if isinstance(dropped, FarmDropped)] == [DELETED]
    world.finish(*answer.leases)
    world.audit()


def test_f3_a_job_that_finished_before_its_late_error_does_not_run_again(world: World, original: Original) -> None:
    original.keeps = True
    world.engine = world.entry.make("test", world.options, delete_jobs=False)
    id = original.push("L")
    original.take("L")
    original.finish("L")
    original.fail("L")
    assert look(world) == []
    assert world.command("HGET", f"{BASE}:job:{id}", "finishAt")


@pytest.mark.garbage
@pytest.mark.parametrize("key", ["queue:L", "active"])
def test_f10_an_enqueue_to_a_key_of_another_type_is_refused_and_stores_nothing(world: World, key: str) -> None:
    world.command("SET", f"{BASE}:{key}", "no list, set or hash")
    with pytest.raises(TenureError):
        world.put_in("L", "a")
    assert [name.decode() for name in world.dump() if name.startswith(BASE.encode())] == [f"{BASE}:{key}"]


def test_f11_a_batch_that_an_original_took_twice_is_run_oldest_first(world: World, original: Original) -> None:
    ids = [original.push("L") for _ in range(3)]
    for _ in range(2):  # the reply of the first command was lost, and the client sent it again
        world.command("RPOPLPUSH", f"{BASE}:queue:L", f"{BASE}:active:L")
    look(world)
    world.pass_time(world.engine.config.default_timeout_ms * 2 + 1_000)
    ran = []
    for _ in ids:
        (lease,) = world.take(10)
        ran.append(lease.record.id)
        world.finish(lease)
    assert ran == ids


def test_f13_of_a_batch_only_the_job_that_failed_runs_again(world: World) -> None:
    world.put_in("a", "a1", "a2", "a3", own_id=True)
    leases = world.take(3, of_lane=3)
    assert [lease.record.id for lease in leases] == ["a1", "a2", "a3"]
    world.settle_each(leases, Completed(b"", 0), Retried(BOOM), Completed(b"", 0))
    assert world.drain() == ["a2"]


def test_f7_delete_leaves_an_active_job_alone(world: World) -> None:
    world.put_in("L", "a", "b")
    lease = world.take_one()
    assert not world.run(world.engine.delete("L", "a", queue="q"))
    assert world.run(world.engine.delete("L", "b", queue="q"))
    assert not world.run(world.engine.delete("L", "b", queue="q"))
    world.finish(lease)
    world.audit()


def test_kept_jobs_are_those_of_the_original(world: World) -> None:
    world.engine = world.entry.make("test", world.options, delete_jobs=False)
    world.put_in("L", *"ab")
    world.finish(world.take_one())
    assert world.command("LRANGE", f"{BASE}:finish:L", 0, -1) == [b"a"]
    assert world.command("HGET", f"{BASE}:job:a", "finishAt")
    assert world.command("EXISTS", f"{BASE}:active:L:fetchAt") == 1
    world.finish(world.take_one())
    assert world.command("SCARD", f"{BASE}:active") == 0


@pytest.mark.parametrize("lane", [None, "x:fetchAt"])
def test_f6_a_lane_must_be_named_and_have_keys_of_its_own(world: World, lane: str | None) -> None:
    engine = QueueFarmEngine("n")
    with pytest.raises(InvalidArgument, match=r"lane"):
        world.run(engine.enqueue([NewJob("default", "a", b"1", shape=Shape(lane=lane))]))


@pytest.mark.garbage
def test_f6_a_lane_of_an_original_with_the_name_of_a_key_stops_no_other(world: World, original: Original) -> None:
    original.push("x:fetchAt")
    id = original.push("x")
    assert look(world) == [id]
    assert look(world) == []


@pytest.mark.parametrize("most", ["three", "", "0", "NaN", None])
def test_a_number_of_attempts_that_is_none_means_the_default_of_the_original(
    world: World, original: Original, most: str | None
) -> None:
    id = original.push("L")
    world.command("HDEL", f"{BASE}:job:{id}", "maxAttempts")
    if most is not None:
        world.command("HSET", f"{BASE}:job:{id}", "maxAttempts", most)
    world.put_in("other", "b")
    world.pass_time(FIND_MS + 1)
    for _ in range(3):
        (lease,) = [one for one in world.take(10) if one.record.id == id]
        world.settle(lease, Retried(BOOM))
    world.leave()
    assert world.take_ids() == ["b"]
    assert world.state(id) is State.FAILED


@pytest.mark.parametrize("attempts", ["x", "1.5", "-3", "1e300"])
def test_attempts_that_are_no_whole_number_hinder_no_lane(world: World, original: Original, attempts: str) -> None:
    id = original.push("L")
    world.command("HSET", f"{BASE}:job:{id}", "attempts", attempts)
    world.put_in("other", "b")
    world.pass_time(FIND_MS + 1)
    leases = world.take(10)
    assert {lease.record.id for lease in leases} == {id, "b"}
    world.finish(*leases)
    world.audit()


def test_json_of_node_may_have_half_of_a_surrogate_pair(world: World, original: Original) -> None:
    original.push("L", '{"text":"\\ud83d"}')
    world.pass_time(FIND_MS + 1)
    assert not world.take_one().record.malformed


@pytest.mark.garbage
def test_a_lane_with_data_of_another_program_is_parked_and_runs_when_that_is_gone(
    world: World, original: Original
) -> None:
    world.command("SET", f"{BASE}:queue:L", "no list")
    world.command("SADD", f"{BASE}:active", "L")
    assert look(world) == []
    assert world.run(world.engine.queue("q")).parked_lanes == 1
    world.command("DEL", f"{BASE}:queue:L")
    id = original.push("L")
    world.maintain()
    assert look(world) == [id]
    assert world.run(world.engine.queue("q")).parked_lanes == 0


@pytest.mark.parametrize("data", ["{no json", "NaN", "[" * 5_000])
def test_data_that_is_no_json_is_malformed(world: World, original: Original, data: str) -> None:
    original.push("L", data)
    world.pass_time(FIND_MS + 1)
    assert world.take_one().record.malformed


def test_finding_work_among_ten_thousand_lanes_costs_one_call_of_few_commands(world: World, original: Original) -> None:
    jobs = [NewJob("q", f"{n}", b"1", shape=Shape(lane=f"l{n}")) for n in range(10_000)]
    world.enqueue(jobs)
    held = [world.take(100, f"h{n}") for n in range(5)]
    for leases in held:
        world.finish(*leases)
    id = original.push("news")
    world.pass_time(FIND_MS + 1)
    commands = world.calls_of(world.engine.lease("w", ["q"], 10))
    assert commands < 300
    assert id in {view.id for view in world.run(world.engine.page("q", State.READY, lane="news")).jobs}


def test_lanes_take_turns(world: World) -> None:
    world.put_in("long", *(f"a{n}" for n in range(20)))
    world.put_in("B", "b1", "b2")
    ran = []
    for _ in range(4):
        leases = world.take(1)
        ran += [lease.record.shape.lane for lease in leases]
        world.finish(*leases)
        world.put_in(f"new{len(ran)}", f"n{len(ran)}")
    assert ran[:2] == ["long", "B"]
    assert "long" in ran[2:]


def test_the_index_of_a_namespace_with_a_worker_has_no_end(world: World) -> None:
    world.put_in("L", "a", "b")
    world.pass_time(FIND_MS + 1)
    world.finish(world.take_one())
    world.put_in("M", "c")
    lives = [world.command("PTTL", f"{BASE}:tenure:{suffix}") for suffix in ("known", "ready")]
    assert lives == [-1, -1]


def test_a_batch_that_is_held_is_no_originals_when_the_index_has_expired(world: World) -> None:
    world.put_in("L", "a", "b", timeout_ms=1_000)
    world.pass_time(FIND_MS + 1)
    (lease,) = world.run(world.engine.lease("by hand", ["q"], 1, 60_000)).leases
    world.command("DEL", f"{BASE}:tenure:known", f"{BASE}:tenure:ready")
    for _ in range(3):
        world.pass_time(1_100)
        assert world.take(10, "other") == [], "its timeout is for the batches of originals"
    world.audit()
    world.finish(lease)
    world.pass_time(FIND_MS + 1)
    assert world.take_ids() == ["b"]
