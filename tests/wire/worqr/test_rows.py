"""What the original gets wrong, one test a row (W1 to W16): avoided here, and repaired where that is possible."""

from __future__ import annotations

import hashlib

import pytest

from tenure.compat.worqr.raw import RawEngine
from tenure.core.errors import InvalidArgument
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed, Crashed, Failed, Released, Retried, Unroutable
from tenure.engines.worqr import WorqrEngine
from tenure.protocols.registry import parse_protocol, rights_of
from tenure.testing.server import RedisServer
from tests.wire.worqr.bench import BOOM, UNIQUE, Bench, tasks_of
from tests.wire.worqr.original import R


class TestOnlyTheTasksOfTheDeadReturn:
    """W1."""

    def test_of_two_workers_one_dies(self, bench: Bench) -> None:
        bench.put("a", "b", "c")
        [dead] = bench.take(1, "dead")
        [live] = bench.take(1, "live")
        bench.pass_time(10_050)
        bench.beat(live, worker="live")
        bench.maintain()
        bench.pass_time(4_050)
        bench.beat(live, worker="live")
        assert bench.waiting() == ["a", "c"]
        assert not bench.settle(dead)
        assert bench.settle(live)
        bench.audit()

    def test_an_original_keeps_its_task_when_a_worker_dies(self, bench: Bench) -> None:
        original = bench.original("original", "q")
        bench.put("theirs", "ours")
        held = original.dequeue("q")
        assert held is not None
        bench.take(1)
        assert bench.silence() == 1
        assert bench.waiting() == ["ours"]
        assert bench.working() == {held[0]}
        original.finish(held[0])
        assert bench.working() == set()

    def test_workers_keep_their_tasks_when_the_only_original_dies(self, bench: Bench) -> None:
        original = bench.original("original", "q")
        bench.put("ours", "theirs", "next")
        [mine] = bench.take(1)
        assert original.dequeue("q") is not None
        original.die()
        bench.maintain()
        assert bench.waiting() == ["next"], "not before the grace"
        bench.pass_time(60_050)
        bench.beat(mine)
        bench.maintain()
        assert bench.waiting() == ["theirs", "next"], "to the front"
        assert bench.settle(mine)
        assert bench.db.smembers(f"{R}:workers") == {b"ours"}
        assert not bench.db.exists(f"{R}:workingQueues:original")

    def test_beside_a_live_original_its_dead_peer_is_left_to_it(self, bench: Bench) -> None:
        dead, live = bench.original("dead", "q"), bench.original("live", "q")
        bench.put("theirs", "other")
        assert dead.dequeue("q") is not None
        at_work = live.dequeue("q")
        assert at_work is not None
        dead.die()
        bench.grace()
        assert bench.waiting() == []
        assert at_work[0] in bench.working()
        assert live.cleanup_workers() == ["dead"]
        assert sorted(bench.waiting()) == ["other", "theirs"], "as among themselves"

    def test_a_dead_worker_is_gone_before_originals_fail_it(self, bench: Bench) -> None:
        """Failing it, they would return all tasks of its queues."""
        original = bench.original("original", "q")
        bench.put("theirs", "ours")
        held = original.dequeue("q")
        bench.take(1)
        bench.silence()
        assert bench.db.smembers(f"{R}:workers") == {b"original"}
        assert original.cleanup_workers() == []
        assert held is not None
        assert bench.working() == {held[0]}


class TestProcessesInNoSet:
    """W2."""

    def test_their_tasks_return(self, bench: Bench) -> None:
        dead, other = bench.original("dead", "q"), bench.original("other", "q")
        bench.put("a", "b")
        assert dead.dequeue("q") is not None
        steps = other.fail_steps("dead")
        next(steps)
        late = other.dequeue("q")
        assert late is not None
        list(steps)
        assert late[0] not in bench.working()
        assert bench.waiting() == ["a"]
        bench.grace()
        assert bench.waiting() == ["b", "a"]
        assert bench.db.keys(f"{R}:processes:*") == []

    def test_a_heartbeat_restores_the_set(self, bench: Bench) -> None:
        dead, other = bench.original("dead", "q"), bench.original("other", "q")
        steps = other.fail_steps(dead.worker)
        next(steps)
        bench.put("ours")
        [lease] = bench.take(1)
        list(steps)
        assert bench.working() == set()
        assert bench.beat(lease).lost == frozenset()
        assert bench.working() == {lease.record.id}
        bench.audit()


def test_a_unique_task_that_is_refused_leaves_nothing_behind(bench: Bench) -> None:
    """W3: the next enqueue is not lost, and the loser of a race learns of it."""
    assert bench.put("a", shape=UNIQUE) == [True]
    before = bench.db.lrange(f"{R}:queues:q", 0, -1)
    assert bench.put("a", shape=UNIQUE) == [False]
    assert bench.db.lrange(f"{R}:queues:q", 0, -1) == before
    assert bench.put("b") == [True]
    assert bench.waiting() == ["a", "b"]
    assert not bench.original().enqueue_unique("q", "a")
    original = bench.original()
    assert original.enqueue_unique("q", "c")
    assert bench.put("c", shape=UNIQUE) == [False]


class TestTheFront:
    """W4, W5: what returns is served first, in its order, and waiting workers are notified."""

    @pytest.mark.parametrize("how", ["release", "crash", "leave", "death"])
    def test_what_returns_is_first(self, bench: Bench, how: str) -> None:
        bench.put("a", "b", "c", "d")
        leases = bench.take(3)
        with bench.driver.subscribe(f"{R}_q_work") as messages:
            if how in ("release", "crash"):
                outcome = Released() if how == "release" else Crashed()
                bench.run(bench.engine.settle([(lease, outcome) for lease in (leases[1], leases[2], leases[0])]))
            elif how == "leave":
                assert bench.leave() == 3
            else:
                assert bench.silence() == 3
            assert messages.get(timeout_s=5) == b"3"
        assert bench.waiting() == ["a", "b", "c", "d"]

    def test_a_retry_that_is_due_wakes(self, bench: Bench) -> None:
        bench.put("a")
        [lease] = bench.take()
        assert bench.settle(lease, Retried(BOOM, 30_000))
        assert bench.db.keys(f"{R}:processes:*") == []
        bench.pass_time(30_050)
        with bench.driver.subscribe(f"{R}_q_work") as messages:
            assert bench.maintain().promoted == 1
            assert messages.get(timeout_s=5) == b"1"
        assert bench.waiting() == ["a"]

    def test_originals_are_woken_by_an_enqueue(self, bench: Bench) -> None:
        with bench.driver.subscribe(f"{R}_my:odd_queue_work") as messages:
            bench.put("a", "b", queue="my:odd_queue")
            assert messages.get(timeout_s=5) == b"2"


class TestMarkers:
    """W6, W7."""

    @pytest.mark.parametrize("how", ["complete", "cancel", "discard", "purge", "cancel all", "cancelled", "failed"])
    def test_the_end_of_a_unique_task_frees_it(self, bench: Bench, how: str) -> None:
        assert bench.put("a", shape=UNIQUE) == [True]
        [id] = [job.id for job in bench.run(bench.engine.page("q", State.READY)).jobs]
        if how == "complete":
            assert bench.settle(bench.take()[0])
        elif how == "cancelled":
            [lease] = bench.take()
            bench.run(bench.engine.cancel("q", id))
            assert bench.settle(lease, Released())
        elif how == "failed":
            bench.take()
            for _ in range(bench.config.max_crashes):
                bench.silence()
                bench.take(1, "next")
            assert bench.run(bench.engine.queue("q")).counts[State.BROKEN] == 1
            bench.grace()
        elif how == "cancel all":
            bench.run(bench.engine.cancel_all("q"))
        elif how == "purge":
            bench.run(bench.engine.purge("q", State.READY))
        else:
            bench.run(getattr(bench.engine, how)("q", id))
        assert not bench.is_marked("a")
        assert bench.put("a", shape=UNIQUE) == [True]

    @pytest.mark.parametrize("how", ["retry", "release", "death", "wait"])
    def test_it_stays_until_then(self, bench: Bench, how: str) -> None:
        bench.put("a", shape=UNIQUE)
        if how != "wait":
            [lease] = bench.take()
            if how == "death":
                bench.silence()
            else:
                assert bench.settle(lease, Released() if how == "release" else Retried(BOOM, 10**7))
        bench.grace()
        assert bench.put("a", shape=UNIQUE) == [False]

    @pytest.mark.parametrize("how", ["cancel_tasks", "delete_queue"])
    def test_a_marker_that_an_original_left_goes(self, bench: Bench, how: str) -> None:
        original = bench.original()
        assert original.enqueue_unique("q", "a")
        assert original.enqueue_unique("other", "b")
        original.cancel_tasks("q", "a") if how == "cancel_tasks" else original.delete_queue("q")
        bench.maintain()
        assert bench.is_marked("a"), "seen once"
        bench.pass_time(60_050)
        bench.maintain()
        assert not bench.is_marked("a")
        assert bench.is_marked("b")

    def test_it_is_one_for_all_queues_and_the_end_of_any_copy_frees_it(self, bench: Bench) -> None:
        """As with the original."""
        assert bench.put("a", shape=UNIQUE) == [True]
        assert bench.put("a", shape=UNIQUE, queue="other") == [False]
        assert bench.put("a", queue="other") == [True]
        assert bench.settle(bench.take(queue="other")[0])
        assert bench.put("a", shape=UNIQUE, queue="other") == [True]


def test_no_pattern_is_ever_searched_and_ids_hold_none(bench: Bench) -> None:
    """W8: originals use the id of a worker as a pattern."""
    bench.db.config_resetstat()
    bench.announce("host[1]*?")
    assert bench.db.smembers(f"{R}:workers") == {b"host%5B1%5D%2A%3F"}
    assert bench.db.get(f"{R}:workerTimers:host%5B1%5D%2A%3F") == b"RUN"
    bench.put("a")
    bench.take()
    bench.grace()
    assert "cmdstat_keys" not in bench.db.info("commandstats")
    assert "+keys" not in rights_of(bench.engine).needed


class TestProcessIdsWithoutATask:
    """W9."""

    def test_a_claim_of_an_empty_queue_writes_none(self, bench: Bench) -> None:
        assert bench.take() == []
        assert bench.working() == set()

    def test_those_of_originals_go(self, bench: Bench) -> None:
        original = bench.original("original", "q")
        assert next(original.dequeue_steps("q")) is None
        assert len(bench.working()) == 1
        bench.maintain()
        assert bench.working() == set()


def test_who_lost_its_process_is_told_and_changes_nothing(bench: Bench) -> None:
    """W10: an original fails the worker, or stops its work on the queue, and takes all processes of the queue."""
    original = bench.original("original", "q")
    bench.put("a", shape=UNIQUE)
    [lease] = bench.take()
    original.fail_worker("ours")
    assert bench.waiting() == ["a"]
    with bench.driver.subscribe(f"{R}_q_done") as messages:
        assert not bench.settle(lease, Completed(b""))
        assert messages.get(timeout_s=0.05) is None
    assert bench.is_marked("a")
    [again] = bench.take(1, "other")
    assert bench.beat(lease).lost == {lease.ref}
    assert bench.settle(again)
    bench.audit()


def test_a_worker_whose_timer_expired_claims_nothing_before_its_heartbeat(bench: Bench) -> None:
    """W11: it learns first what it has lost."""
    bench.put("a", "b")
    [lease] = bench.take(1)
    bench.original("original", "q").fail_worker("ours")
    assert bench.take() == []
    assert bench.beat(lease).lost == {lease.ref}
    assert tasks_of(bench.take()) == ["b", "a"]


def test_timers_are_renewed_at_the_memory_limit(bench: Bench, private_server: RedisServer) -> None:
    """W12."""
    full = Bench(private_server, type(bench.driver)(private_server.url))
    full.put("a")
    [lease] = full.take()
    full.announce("idle")
    full.db.pexpire(f"{R}:workerTimers:idle", 60)
    full.db.config_set("maxmemory", 1)
    for worker in ("ours", "idle"):
        full.db.pexpire(f"{R}:workerTimers:{worker}", 60_000)
    full.beat(lease)
    full.announce("idle")
    for worker in ("ours", "idle"):
        assert full.db.pttl(f"{R}:workerTimers:{worker}") > 90_000
    assert full.settle(lease)
    full.db.close()
    full.driver.close()


def test_a_claim_announces_its_worker(bench: Bench) -> None:
    """W13: there is no process of a worker that originals do not know."""
    bench.put("a")
    [lease] = bench.take()
    assert bench.db.sismember(f"{R}:workers", "ours")
    assert bench.db.sismember(f"{R}:expiringWorkers", "ours")
    assert bench.db.sismember(f"{R}:workingQueues:ours", "q")
    assert bench.db.exists(f"{R}:workerTimers:ours")
    assert bench.db.lrange(f"{R}:processes:{lease.record.id}", 0, -1) == [b"a"]
    assert bench.working() == {lease.record.id}
    bench.leave()
    assert bench.db.keys(f"{R}:work*") == []
    assert bench.db.keys(f"{R}:expiring*") == []


def test_permanent_workers_are_taken_for_alive(bench: Bench) -> None:
    """W15."""
    original = bench.original("original", "q", permanent=True)
    bench.put("a")
    assert original.dequeue("q") is not None
    bench.grace()
    assert bench.waiting() == []


@pytest.mark.parametrize("prefix", ["my_app", "a:b", "", "x*", "[a]", "a?", "{a}{b}", "a b", "\\"])
def test_prefixes_that_make_originals_deaf_are_refused(prefix: str) -> None:
    """W16."""
    with pytest.raises(InvalidArgument, match="prefix"):
        WorqrEngine(prefix)
    with pytest.raises(InvalidArgument):
        parse_protocol(f"worqr:{prefix}")


def test_queues_with_underscores_and_colons_do_not_mix(bench: Bench) -> None:
    names = ["a", "a_b", "a:b", "a%3Ab", "a_b:c", "*"]
    bench.run(bench.engine.enqueue([NewJob(name, "", name.encode()) for name in names]))
    for name in names:
        [lease] = bench.take(10, f"worker of {len(name)}".replace(" ", "-"), queue=name)
        assert lease.record.payload == name.encode()
        assert lease.record.id.rpartition("_")[0] == name
        assert bench.settle(lease)


def test_w6_a_cancel_that_ends_nothing_leaves_the_marker(bench: Bench) -> None:
    engine = RawEngine(R)
    bench.put("t", shape=UNIQUE)
    assert bench.run(engine.cancel_tasks("other", b"t")) == 0
    assert bench.is_marked("t")
    (lease,) = bench.take()
    assert bench.settle(lease, Retried(BOOM, 60_000))
    assert bench.run(engine.cancel_tasks("q", b"t")) == 1, "one that waits for its retry"
    assert not bench.is_marked("t")
    assert bench.waiting() == []
    bench.audit()


def test_the_other_of_two_equal_jobs_is_still_known_when_one_has_ended(bench: Bench) -> None:
    bench.put("t")
    bench.put("t")
    first, second = bench.take()
    name = hashlib.sha1(b"t", usedforsecurity=False).hexdigest()
    assert bench.settle(second)
    view = bench.run(bench.engine.job("q", name))
    assert view is not None
    assert (view.state, view.token) == (State.ACTIVE, first.token)
    assert bench.settle(first)


def test_a_discard_takes_the_waiting_job_that_is_shown_and_not_the_record_of_an_equal_one(bench: Bench) -> None:
    bench.put("t")
    assert bench.settle(bench.take()[0], Failed(BOOM))
    bench.put("t")
    name = hashlib.sha1(b"t", usedforsecurity=False).hexdigest()
    assert bench.run(bench.engine.discard("q", name))
    assert bench.waiting() == []
    assert bench.run(bench.engine.queue("q")).counts[State.FAILED] == 1


def test_a_call_of_another_program_is_found_behind_raw_tasks(bench: Bench) -> None:
    original = bench.original("original", "q")
    original.enqueue("q", "raw")
    [raw] = bench.take()
    assert bench.settle(raw, Unroutable())
    original.enqueue("q", '{ "task" : "t", "tenure" : 1 , "args" : [9007199254740993] }')
    [lease] = bench.take()
    assert lease.record.task == "t"
    assert bench.waiting() == ["raw"]
