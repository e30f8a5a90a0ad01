"""What clients of this wire format get wrong, row by row: ours does not do it, and repairs it where it can be repaired.

The rows are those of docs/protocols/redis-work-queue.md; R17 and R19 are in test_rows_of_time.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tenure.compat.redis_work_queue import Item, KeyPrefix, WorkQueue
from tenure.core.engine import GRACE_MS
from tenure.core.errors import InvalidArgument, UnsupportedFeature, WrongState
from tenure.core.job import JobRecord, Lease, NewJob, State
from tenure.core.outcome import Completed, Failed, Outcome, Released, Retried
from tenure.core.shape import Shape
from tenure.core.steps import Steps
from tenure.engines.kit.config import MAX_CRASHES
from tenure.engines.redis_work_queue import RedisWorkQueueEngine
from tenure.engines.redis_work_queue.config import CALLERS_MARK_MS, DEEP_MS, MARK_MS, WIRE_LEASE_MS
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.stepping import Crashed, Session, attempt, send_with, step
from tests.wire.redis_work_queue.bench import BOOM, LEASE_KEYS, STRAY_MS, Bench

COMPLETED = Completed(b"", 0)


@pytest.fixture(params=LEASE_KEYS)
def bench(server: RedisServer, driver: SyncDriver, request: pytest.FixtureRequest) -> Bench:
    """Other clients lease under one name or under the other."""
    return Bench(server, driver, request.param)


# R1: an item is made and never listed.


def test_r1_adding_again_lists_an_item_that_is_in_no_list(bench: Bench) -> None:
    bench.foreign_item("a")
    assert bench.put("a") == [False]
    assert bench.queue() == [], "its producer may be about to list it"
    bench.pass_time(STRAY_MS + 1)
    assert bench.put("a") == [False]
    assert bench.queue() == [b"a"]
    assert bench.drain() == ["a"]
    bench.audit()


@pytest.mark.parametrize("where", ["waits", "is held by us", "is held by them", "was taken and not leased"])
def test_r1_adding_again_leaves_one_that_is_in_a_list(bench: Bench, where: str) -> None:
    bench.foreign_add("a")
    if where == "is held by us":
        bench.take_one()
    elif where == "is held by them":
        bench.foreign_lease(3_600)
    elif where == "was taken and not leased":
        bench.foreign_pop()
    before = bench.queue(), bench.processing()
    for _ in range(3):
        assert bench.put("a") == [False]
        bench.command("EVAL", "redis.call('ZADD', KEYS[1], 'XX', 1, 'a')", 1, "jobs:stray")  # long ago
    assert (bench.queue(), bench.processing()) == before


def test_r1_a_deep_clean_lists_an_item_that_is_in_no_list(bench: Bench) -> None:
    bench.foreign_item("a")
    assert bench.deep().requeued == 0
    bench.pass_time(STRAY_MS - 1_000)
    assert bench.deep().requeued == 0
    bench.pass_time(2_000)
    assert bench.deep().requeued == 1
    assert bench.deep().requeued == 0
    assert bench.drain() == ["a"]


def test_r1_a_worker_does_it_by_itself(bench: Bench) -> None:
    bench.foreign_item("a")
    for _ in range(3):
        bench.pass_time(DEEP_MS + 1)
        bench.maintain()
    assert bench.queue() == [b"a"]


# R2, R3: to take and to lease are two steps.


def test_r2_a_cleaner_does_not_touch_what_another_client_is_about_to_lease(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_pop()
    for _ in range(3):
        assert bench.light().requeued == 0
        assert bench.maintain() == 0
    bench.foreign_hold("a")
    bench.pass_time(STRAY_MS - 40_000)
    bench.light()
    assert bench.processing() == [b"a"]
    assert bench.take() == []


def test_r3_what_died_between_the_two_steps_is_put_back(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_pop()
    bench.maintain()
    bench.pass_time(STRAY_MS + 1)
    assert bench.maintain() == 1
    assert bench.drain() == ["a"]
    bench.audit()


def test_r3_a_mark_of_another_time_proves_nothing(bench: Bench) -> None:
    """Seen without a lease long ago; leased, completed and added again since; and just now taken again."""
    bench.foreign_add("a")
    bench.foreign_pop()
    bench.light()
    bench.pass_time(STRAY_MS + MARK_MS + 1)
    assert bench.light().requeued == 0
    bench.pass_time(STRAY_MS + 1)
    assert bench.light().requeued == 1


def test_r3_calls_that_are_hours_apart_put_it_back_too(bench: Bench) -> None:
    queue = WorkQueue(KeyPrefix("jobs"))
    bench.foreign_add("a")
    bench.foreign_pop()
    with bench.client() as db:
        queue.light_clean(db)
        bench.pass_time(24 * 3_600_000)
        queue.light_clean(db)
    assert bench.drain() == ["a"]


def test_r5_what_was_marked_and_then_leased_is_not_listed_at_once_when_its_id_comes_again(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.put("a")  # known already: it is noted
    queue = WorkQueue(KeyPrefix("jobs"))
    with bench.client() as db:
        item = queue.lease(db, 5)
        assert item is not None
        assert queue.complete(db, item)
    bench.pass_time(STRAY_MS + 1)
    bench.foreign_item("a")  # and its producer is about to list it
    assert bench.deep().requeued == 0


def test_marks_are_forgotten(bench: Bench) -> None:
    """Producers add again what waits, all the time; no worker of ours tidies up here."""
    bench.foreign_add("a")
    bench.foreign_add("b")
    bench.put("a")
    bench.foreign_pop()
    bench.light()
    assert bench.command("EXISTS", "jobs:stray", "jobs:unleased") == 2
    bench.foreign_complete("a")
    bench.pass_time(STRAY_MS + CALLERS_MARK_MS + 1)
    bench.put("b")
    assert bench.command("ZRANGE", "jobs:stray", 0, -1) == [b"b"]
    bench.foreign_pop()
    bench.light()
    assert bench.command("ZRANGE", "jobs:unleased", 0, -1) == [b"b"]


def test_r3_a_lease_that_was_seen_takes_the_mark_away(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.foreign_pop()
    bench.light()
    bench.foreign_hold("a", 5)
    bench.light()
    assert bench.command("EXISTS", "jobs:unleased") == 0


# R4, R12: an id is put back while somebody holds it.


@pytest.mark.parametrize("holder", ["we", "they"])
@pytest.mark.parametrize("still", [True, False], ids=["still listed", "moved"])
def test_r4_a_held_id_that_is_queued_is_not_given_out_and_not_lost(bench: Bench, holder: str, still: bool) -> None:
    bench.foreign_add("a")
    lease = bench.take_one() if holder == "we" else None
    if holder == "they":
        bench.foreign_lease()
    bench.foreign_push("a") if still else bench.foreign_reset("a")
    assert bench.take(10, "other") == []
    assert (bench.queue(), bench.processing()) == ([], [b"a"])
    if lease is not None:
        assert bench.beat("w", [lease]) == set()
        assert bench.settle(lease)
    else:
        assert bench.foreign_complete("a")
    assert bench.lengths() == (0, 0)


def test_r4_when_its_holder_dies_it_comes_back_once(bench: Bench) -> None:
    bench.foreign_add("a")
    bench.take_one("dead")
    bench.foreign_reset("a")
    bench.foreign_push("a")
    assert bench.take(10, "other") == []
    bench.run(bench.engine.leave("dead", ["default"], crashed=True))
    assert (bench.queue(), bench.processing()) == ([b"a"], [])
    assert bench.drain() == ["a"]


def test_r12_every_queued_item_queued_again_is_run_once(bench: Bench) -> None:
    ids = [f"i{n}" for n in range(50)]
    for id in ids + ids:
        bench.foreign_item(id)
        bench.foreign_push(id)
    leases = bench.take(30, "a") + bench.take(30, "b") + bench.take(30, "c")
    assert sorted(lease.record.id for lease in leases) == sorted(ids)
    assert all(bench.settle(lease) for lease in leases)
    assert bench.drain() == []
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)


# R5, R6: a cleaner acts on what it saw before.


def test_r5_a_deep_clean_while_a_producer_is_between_its_steps(bench: Bench) -> None:
    bench.foreign_item("a")
    bench.deep()
    bench.foreign_push("a")
    bench.pass_time(STRAY_MS + 1)
    assert bench.deep().requeued == 0
    assert bench.queue() == [b"a"]


def test_r6_ids_without_an_item_are_dropped(bench: Bench) -> None:
    bench.foreign_push("ghost")
    bench.foreign_push("other ghost")
    bench.put("a")
    leased = bench.run(bench.engine.lease("w", ["default"], 1))
    assert [lease.record.id for lease in leased.leases] == ["a"]
    assert [one.id for one in leased.dropped] == ["ghost", "other ghost"]
    assert bench.lengths() == (0, 1)


# R7: completing what is not ours.


def test_r7_a_late_completion_does_not_end_the_item_of_another_time(bench: Bench) -> None:
    bench.put("a", data=b"first")
    late = bench.take_one("w1", lease_ms=1_000)
    bench.pass_time(1_001 + GRACE_MS)
    bench.maintain()
    second = bench.take_one("w2")
    assert not bench.settle(late)
    assert bench.settle(second)
    assert bench.put("a", data=b"second") == [True]
    assert not bench.settle(late)
    assert not bench.settle(second)
    assert bench.drain() == ["a"]


def test_r7_they_complete_it_and_it_is_added_again_while_we_hold_it(bench: Bench) -> None:
    bench.put("a", data=b"first")
    lease = bench.take_one()
    assert bench.foreign_complete("a")
    bench.foreign_add("a", b"second")
    assert bench.beat("w", [lease]) == {"a"}
    assert not bench.settle(lease)
    again = bench.take_one("w2")
    assert again.record.payload == b"second"
    assert bench.settle(again)
    bench.audit()


def test_r7_without_a_beat_in_between_as_well(bench: Bench) -> None:
    bench.put("a", data=b"first")
    lease = bench.take_one()
    assert bench.foreign_complete("a")
    bench.foreign_add("a", b"second")
    assert not bench.settle(lease)
    assert bench.queue() == [b"a"]


def test_r7_they_took_it_over(bench: Bench) -> None:
    bench.put("a")
    lease = bench.take_one()
    bench.pass_time(WIRE_LEASE_MS + 1)
    bench.foreign_reset("a")
    bench.foreign_lease()
    for outcome in (None, Retried(BOOM), Released(), Failed(BOOM)):
        assert not bench.settle(lease, outcome)
    assert bench.beat("w", [lease]) == {"a"}
    assert bench.foreign_complete("a")
    assert bench.lengths() == (0, 0)


def test_r7_a_lease_that_ended_and_was_taken_by_nobody_is_ours_still(bench: Bench) -> None:
    bench.put("a", "b")
    a, b = bench.take(2)
    for id in ("a", "b"):
        for kind in LEASE_KEYS:
            bench.command("DEL", f"jobs:{kind}:{id}")
    assert bench.settle(a)
    assert bench.beat("w", [b]) == set()
    bench.foreign_reset("b")
    assert bench.take(1, "other") == [], "it is leased again"
    assert bench.settle(b)
    assert bench.lengths() == (0, 0)


# R8 to R10: replies that are lost, connections that are cut.


def test_r8_a_completion_whose_reply_was_lost_is_answered_again(bench: Bench) -> None:
    bench.put("a")
    lease = bench.take_one()
    send = send_with(bench.driver)

    def twice(number: int, call, send):
        send(call)
        return send(call)

    assert step(bench.engine.settle([(lease, COMPLETED)]), Session("s"), send, twice) == [True]
    assert not bench.settle(lease)


OPERATIONS = [
    "enqueue",
    "lease",
    "complete",
    "release",
    "retry",
    "retry later",
    "fail",
    "extend",
    "leave",
    "discard",
    "light",
]


def steps_of(bench: Bench, what: str) -> Steps[Any]:
    idle = what in ("enqueue", "lease", "discard", "light")
    lease = Lease("", 0, JobRecord("", "", b"", 0), 0, 0) if idle else bench.take_one()
    outcomes: dict[str, Outcome] = {
        "complete": COMPLETED,
        "release": Released(),
        "retry": Retried(BOOM),
        "retry later": Retried(BOOM, 60_000),
        "fail": Failed(BOOM),
    }
    if what in outcomes:
        return bench.engine.settle([(lease, outcomes[what])])
    if what == "light":
        bench.foreign_pop()
        bench.light()
        bench.pass_time(STRAY_MS + 1)
        return bench.engine.maintain(["default"], [])
    return {
        "enqueue": lambda: bench.engine.enqueue([NewJob("default", "new", b"x")]),
        "lease": lambda: bench.engine.lease("w", ["default"], 1),
        "extend": lambda: bench.engine.extend(lease, 60_000),
        "leave": lambda: bench.engine.leave("w", ["default"]),
        "discard": lambda: bench.engine.discard("default", "a"),
    }[what]()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", OPERATIONS)
def test_r9_a_crash_at_any_call_loses_nothing(bench: Bench, what: str, when: str) -> None:
    """Every call of every operation is one step on Redis: what is done is done whole."""
    for cut in range(1, 8):
        bench.command("FLUSHALL")
        bench.put("a", "b")

        def crash(number: int, call, send, cut=cut):
            if number == cut and when == "before":
                raise Crashed
            reply = send(call)
            if number == cut:
                raise Crashed
            return reply

        steps = steps_of(bench, what)
        try:
            step(steps, Session("s"), send_with(bench.driver), crash)
            break
        except Crashed:
            pass
        listed = bench.queue() + bench.processing()
        for id in (b"a", b"b", b"new"):
            item = bench.command("EXISTS", b"jobs:item:" + id)
            assert listed.count(id) == item
        for _ in range(3):
            bench.pass_time(STRAY_MS + WIRE_LEASE_MS + 1)
            bench.maintain()
        done = bench.drain()
        gone = {"complete": ["a"], "fail": ["a"], "discard": ["a"]}.get(what, [])
        assert set(done) | set(gone) >= {"a", "b"}
        assert bench.items() == 0
        bench.audit()


@pytest.mark.parametrize("what", [one for one in OPERATIONS if one != "light"])
def test_r10_a_call_that_is_sent_twice_is_done_once(bench: Bench, what: str) -> None:
    bench.put("a", "b")
    steps, seen = steps_of(bench, what), []

    def twice(number: int, call, send):
        first = attempt(send, call)
        between = bench.queue(), bench.processing(), bench.items()
        second = attempt(send, call)
        assert (bench.queue(), bench.processing(), bench.items()) == between
        seen.append((first, second))
        return first[0]

    step(steps, Session("s"), send_with(bench.driver), twice)
    assert seen
    if what == "lease":  # the second says that something else may be due; the jobs are the same
        assert seen[0][0][0][1] == seen[0][1][0][1]
    elif what != "leave":
        assert all(first == second for first, second in seen)


# R11: an expired lease whose item a cleaner took for gone.


def test_r11_an_item_in_no_list_after_its_lease_ended(bench: Bench) -> None:
    bench.put("a")
    bench.foreign_lease(30)
    bench.command("LREM", "jobs:processing", 0, "a")
    bench.pass_time(30_001)
    for _ in range(3):
        bench.pass_time(DEEP_MS + 1)
        for kind in LEASE_KEYS:
            bench.command("DEL", f"jobs:{kind}:a")
        bench.maintain()
    assert bench.drain() == ["a"]


@pytest.mark.parametrize("there", [True, False])
def test_what_a_cleaner_that_died_left_in_its_list_is_put_back(bench: Bench, there: bool) -> None:
    """Cleaners up to 0.2 note what they move in a list of their own, and may die in the middle."""
    bench.command("LPUSH", "jobs:cleaning", "a")
    if there:
        bench.foreign_item("a")
    bench.maintain()
    bench.pass_time(STRAY_MS + 1)
    bench.maintain()
    assert bench.command("LLEN", "jobs:cleaning") == 0
    assert bench.drain() == (["a"] if there else [])


# R13: ghosts in processing.


def test_r13_an_id_without_an_item_leaves_processing(bench: Bench) -> None:
    bench.foreign_push("ghost")
    bench.foreign_pop()
    bench.put("a")
    lease = bench.take_one()
    bench.maintain()
    assert bench.processing() == [b"a"]
    assert bench.settle(lease)


# R14: prefixes that are patterns, or lie within each other.


@pytest.mark.parametrize("prefix", ["q[1]", "q*", "q?", "q\\", "^q", "{q}"])
def test_r14_a_prefix_that_looks_like_a_pattern_is_cleaned_all_the_same(
    server: RedisServer, driver: SyncDriver, prefix: str
) -> None:
    server.command("SET", f"{prefix}:item:a", "x")
    server.command("SET", "q1:item:other", "x")
    server.command("SET", "qq:item:other", "x")
    engine = RedisWorkQueueEngine(prefix)
    queue = WorkQueue(KeyPrefix(prefix), grace=0)
    with redis.Redis.from_url(server.url) as db:
        queue.deep_clean(db)
    assert server.command("LRANGE", f"{prefix}:queue", 0, -1) == [b"a"]
    assert len(driver.run(engine.lease("w", ["default"], 5)).leases) == 1


@pytest.mark.parametrize("inner", ["jobs:item", "jobs:item:x", "jobs:item:lease:x"])
@pytest.mark.parametrize("state", ["waiting", "held", "stray"])
def test_r14_a_queue_that_lies_among_the_items_of_another_is_left_alone(bench: Bench, inner: str, state: str) -> None:
    other = RedisWorkQueueEngine(inner)
    bench.run(other.enqueue([NewJob("default", "y:item:5", b"data"), NewJob("default", "6", b"data")]))
    leases = bench.run(other.lease("w", ["default"], 1)).leases if state != "waiting" else ()
    if state == "stray":
        bench.command("SET", f"{inner}:item:7", "data")
        bench.command("SET", f"{inner}:done:x", "1 x")
    bench.command(
        "SET", "jobs:item:order:done:x", "data"
    )  # an item of this queue: no queue has the prefix that it would name
    for _ in range(2):
        bench.deep()
        bench.pass_time(61_000)
    assert bench.queue() == [b"order:done:x"]
    assert bench.command("GET", f"{inner}:item:y:item:5") == b"data"
    assert len(leases) == (state != "waiting")


def test_r14_an_item_that_was_just_being_added_to_such_a_queue_is_left_alone(bench: Bench) -> None:
    bench.command("SET", "jobs:item:x:item:7", "data")
    assert bench.deep().noted == 1, "the other queue has no keys yet"
    bench.command("LPUSH", "jobs:item:x:queue", "7")
    bench.pass_time(61_000)
    bench.deep()
    assert bench.queue() == []


def test_r14_an_answer_that_such_a_queue_remembers_is_no_item(bench: Bench) -> None:
    bench.command("SET", "jobs:item:import:done:x", "1 x", "PX", 200_000)
    for _ in range(2):
        bench.deep()
        bench.pass_time(61_000)
    assert bench.queue() == [], "keys that expire are never items"


@pytest.mark.parametrize("queue", ["item", "item:b", "lease:x", "held", "x:meta", "queue", "tenure"])
def test_r14_queues_whose_keys_would_be_those_of_others_are_refused(queue: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot lie under"):
        RedisWorkQueueEngine("jobs").prefix(queue)


# R15: ids that are no text.


@pytest.mark.parametrize("id", [b"\xff\xfe", b"\x00", b"a\nb", b"", b"x" * 5_000, b"\xed\xa0\x80"])
def test_r15_any_bytes_may_be_an_id_of_theirs(bench: Bench, id: bytes) -> None:
    bench.foreign_add(id)
    bench.foreign_add("behind")
    leases = bench.take()
    assert [bench.settle(lease) for lease in leases] == [True, True]
    bench.foreign_add(id)
    bench.foreign_pop()
    bench.light()
    bench.pass_time(STRAY_MS + 1)
    assert bench.light().requeued == 1
    assert len(bench.drain()) == 1
    assert (bench.lengths(), bench.items()) == ((0, 0), 0)


def test_r15_one_key_of_another_type_does_not_stop_the_others(bench: Bench) -> None:
    for id in ("a", "odd", "b"):
        bench.foreign_add(id)
    bench.command("DEL", "jobs:item:odd")
    bench.command("RPUSH", "jobs:item:odd", "a list")
    assert [lease.record.id for lease in bench.take()] == ["a", "b"]


@pytest.mark.parametrize("suffix", ["queue", "processing", "leased", "meta", "due", "attempts", "kept", "holders"])
def test_a_key_of_another_type_is_an_error_that_changes_nothing(bench: Bench, suffix: str) -> None:
    bench.put("a")
    lease = bench.take_one()
    bench.put("b")
    bench.command("DEL", f"jobs:{suffix}")
    bench.command("SET", f"jobs:{suffix}", "not ours")
    before = {key: bench.command("DUMP", key) for key in bench.command("KEYS", "*") if b":done:" not in key}
    for steps in (
        bench.engine.lease("w", ["default"], 1),
        bench.engine.settle([(lease, Retried(BOOM))]),
        bench.engine.maintain(["default"], []),
        bench.engine.heartbeat("w", ["default"], [lease.ref]),
    ):
        with pytest.raises(WrongState):
            bench.run(steps)
    if suffix in ("queue", "attempts", "kept"):  # a new item touches no others
        with pytest.raises(WrongState):
            bench.run(bench.engine.enqueue([NewJob("default", "c", b"")]))
    if suffix in ("queue", "processing", "leased", "meta", "due"):  # the short way looks at no others
        with pytest.raises(WrongState):
            bench.run(WorkQueue(KeyPrefix("jobs"))._claim(5_000))
    after = {key: bench.command("DUMP", key) for key in bench.command("KEYS", "*") if b":done:" not in key}
    assert after.keys() - {b"jobs:tenure:queues"} == before.keys() - {b"jobs:tenure:queues"}
    assert all(after[key] == value for key, value in before.items() if key != b"jobs:tenure:queues")


# R16: leases that cannot be.


@pytest.mark.parametrize("seconds", [0, -1, 0.0004, float("nan"), 1e12, "x", None])
def test_r16_a_lease_that_cannot_be_takes_nothing(bench: Bench, db, seconds) -> None:
    bench.put("a")
    with pytest.raises(InvalidArgument, match="lease_secs"):
        WorkQueue(KeyPrefix("jobs")).lease(db, seconds)
    assert bench.queue() == [b"a"]


# R18: leases that can be renewed, and jobs that take their workers down.


def test_r18_a_job_that_takes_its_workers_down_is_set_aside(bench: Bench) -> None:
    bench.put("poison", data=b"\xff poison")
    for n in range(MAX_CRASHES):
        assert len(bench.take(1, f"w{n}")) == 1
        bench.run(bench.engine.leave(f"w{n}", ["default"], crashed=True))
    assert bench.state("poison") is State.BROKEN
    assert bench.take() == []
    bench.pass_time(DEEP_MS)
    bench.deep()
    assert (bench.lengths(), bench.items()) == ((0, 0), 0), "to others it is gone, and no cleaner queues it"
    assert bench.run(bench.engine.retry("default", "poison"))
    assert bench.take_one().record.payload == b"\xff poison"


def test_r18_counts_do_not_outlive_an_item_that_others_completed(bench: Bench) -> None:
    bench.put("a", data=b"one")
    assert bench.settle(bench.take_one(), Retried(BOOM))
    bench.foreign_lease()
    bench.foreign_complete("a")
    bench.foreign_add("a", b"two")
    assert bench.take_one().attempt == 1
    bench.foreign_complete("a")
    bench.run(bench.engine.leave("w", ["default"]))
    bench.maintain()
    assert bench.command("EXISTS", "jobs:attempts", "jobs:leased", "jobs:due", "jobs:held:w") == 0


# R20: where what was put back is served.


def test_r20_what_others_left_goes_to_the_end_and_ours_to_the_front(bench: Bench) -> None:
    bench.foreign_add("theirs")
    bench.foreign_pop()
    bench.light()
    bench.put("ours", "waits")
    bench.take(1, "dead")
    bench.pass_time(STRAY_MS + 1)
    bench.run(bench.engine.leave("dead", ["default"], crashed=True))
    assert bench.light().requeued == 1
    assert bench.queue() == [b"ours", b"waits", b"theirs"]


# R21: an id that is added again under its holder.


def test_r21_an_item_is_never_written_over(bench: Bench, db) -> None:
    queue = WorkQueue(KeyPrefix("jobs"))
    assert queue.add_item(db, Item(b"first", "a")) is True
    assert queue.add_unique_item(db, Item(b"second", "a")) is False
    pipeline = db.pipeline()
    queue.add_unique_item_to_pipeline(pipeline, Item(b"third", "a"))
    assert pipeline.execute() == [0]
    assert bench.take_one().record.payload == b"first"


# What an item cannot hold.


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"delay_ms": 5}, "a delay"),
        ({"run_at_ms": 5}, "a delay"),
        ({"shape": Shape(lane="x")}, "lanes"),
        ({"shape": Shape(priority=5)}, "priorities"),
        ({"shape": Shape(persistent=True)}, "persistent jobs"),
    ],
)
def test_what_an_item_cannot_hold_is_refused_by_name(bench: Bench, options, what: str) -> None:
    with pytest.raises(UnsupportedFeature, match=what):
        bench.put("a", **options)
    assert bench.command("DBSIZE") == 0
