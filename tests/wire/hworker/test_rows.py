"""The rows H1 to H15 of what the original gets wrong: avoided on our side, and repaired where that is possible."""

from __future__ import annotations

import hashlib
import json

import pytest

from tenure.core.job import ErrorInfo, State
from tenure.core.outcome import Broken, Completed, Failed, Released, Retried, Unroutable
from tenure.core.shape import CancelAnswer
from tenure.core.waiting import Lead, Poll
from tenure.engines.hworker.config import IDLE_MS, POLL_MS
from tests.wire.hworker.bench import BOOM, GRACE_MS, LEASE_MS, TIMEOUT_MS, Bench, ids_of

FALSE = b"false"


def test_h1_the_phantom_of_an_idle_original_is_neither_run_nor_filed(bench: Bench) -> None:
    assert bench.original.pop() is None
    assert set(bench.progress()) == {FALSE}
    assert bench.maintain().reclaimed == 0
    assert bench.progress() == {}
    bench.original.pop()
    assert bench.another(ahead_s=1_000).monitor() == [FALSE]
    bench.put("a")
    leased = bench.run(bench.engine.lease("ours", ["q"], 5))
    assert ids_of(leased.leases) == ["a"]
    assert [entry.id for entry in leased.dropped] == ["false"]
    assert bench.settle(leased.leases[0])
    assert bench.counts() == {}
    assert not bench.take()
    assert bench.progress() == {}, "an idle worker of ours writes nothing"
    assert bench.run(bench.engine.queue("q")).totals["completed"] == 1


@pytest.mark.parametrize("end", ["finished", "retried", "worker dead"])
def test_h2_a_late_failure_of_an_original_loses_no_job_of_ours(bench: Bench, end: str) -> None:
    job = bench.original.queue("x")
    slow = bench.original.pop()
    assert slow == job
    bench.another(ahead_s=1_000).monitor()
    [lease] = bench.take()
    bench.original.db.hdel(bench.original.progress, slow)  # its second HDEL, without a look
    assert bench.progress() == {}
    if end == "worker dead":
        assert bench.silence() == 1
        [lease] = bench.take()
    else:
        assert not bench.beat(lease).lost
        assert list(bench.progress()) == [job], "the entry is there again"
        bench.original.db.hdel(bench.original.progress, slow)
    if end == "retried":
        assert bench.settle(lease, Retried(BOOM))
        assert bench.waiting() == [job]
        [lease] = bench.take()
    assert bench.settle(lease)
    bench.audit()
    assert bench.counts() == {}


@pytest.mark.parametrize("then", ["waits", "runs", "failed", "broken"])
def test_a_job_that_a_monitor_returned_is_lost(bench: Bench, then: str) -> None:
    job = bench.original.queue("x")
    [lease] = bench.take()
    bench.another(ahead_s=1_000).monitor()
    if then != "waits":
        assert bench.original.pop() == job
    if then == "failed":
        bench.original.fail(job)
    elif then == "broken":
        bench.db.hdel(bench.original.progress, job)
        bench.db.hset(bench.original.broken, job, '"2026-01-01T00:00:00Z"')
    assert bench.beat(lease).lost == {lease.ref}
    assert not bench.settle(lease)


def test_h3_two_identical_jobs_both_run(bench: Bench) -> None:
    job = bench.original.queue("x")
    bench.original.push(job)
    first, second = bench.take()
    assert (first.record.payload, second.record.payload) == (b'"x"', b'"x"')
    assert first.record.id != second.record.id
    assert len(bench.progress()) == 2
    assert bench.settle(first)
    assert bench.silence() == 1, "the other is not lost with its worker"
    [again] = bench.take(worker="next")
    assert again.record.id == second.record.id
    assert bench.settle(again)
    bench.audit()
    assert bench.counts() == {}


def test_h3_one_of_two_identical_jobs_with_each_side(bench: Bench) -> None:
    job = bench.original.queue("x")
    bench.original.push(job)
    bench.original.push(bench.original.queue("last"))
    assert bench.original.pop() == job
    ours = bench.take(1)
    assert [lease.record.payload for lease in ours] == [b'"x"']
    bench.original.succeed(job)
    assert not bench.beat(*ours).lost
    assert bench.settle(ours[0])
    assert [json.loads(job)[1] for job in bench.waiting()] == ["last", "last"]


def test_h3_identical_bytes_that_are_no_job_end_in_broken(bench: Bench) -> None:
    for _ in range(2):
        bench.original.push(b"garbage")
    seen = 0
    for _ in range(4):
        for lease in bench.take():
            assert lease.record.malformed
            assert bench.settle(lease, Broken(BOOM))
            seen += 1
    assert seen == 2
    assert list(bench.db.hkeys(bench.original.broken)) == [b"garbage"]
    bench.audit()


def test_h4_a_monitor_that_looked_before_the_job_was_taken_again(bench: Bench) -> None:
    bench.original.queue("x")
    bench.original.pop()
    [stale] = bench.progress().items()
    bench.maintain()
    bench.pass_time(TIMEOUT_MS - 1_000)
    bench.db.hset(bench.original.progress, stale[0], b'"2026-01-01T00:00:00Z"')
    bench.pass_time(2_000)
    assert bench.maintain().reclaimed == 0, "it was taken again meanwhile: its age begins anew"
    bench.pass_time(TIMEOUT_MS + 1)
    assert bench.maintain().reclaimed == 1
    assert bench.waiting() == [stale[0]]


@pytest.mark.parametrize("outcome", [Completed(b""), Retried(BOOM), Failed(BOOM), Broken(BOOM), Released()])
def test_h5_a_late_end_of_ours_changes_nothing(bench: Bench, outcome: Completed | Retried) -> None:
    job = bench.original.queue("x")
    [lease] = bench.take()
    bench.another(ahead_s=1_000).monitor()
    assert bench.waiting() == [job]
    assert bench.original.pop() == job
    before = bench.progress()
    assert not bench.settle(lease, outcome)
    assert bench.progress() == before
    assert bench.waiting() == []
    assert bench.counts() == {"active": 1}
    bench.original.succeed(job)
    assert bench.counts() == {}


def test_h5_of_two_workers_of_ours_the_first_one_that_was_too_slow_changes_nothing(bench: Bench) -> None:
    bench.put("a")
    [slow] = bench.take(worker="slow")
    assert bench.silence() == 1
    [lease] = bench.take(worker="next")
    assert not bench.settle(slow, Failed(BOOM))
    assert not bench.failed()
    assert bench.settle(lease)


@pytest.mark.parametrize("timeout_s", [3, 120])
def test_an_originals_monitor_leaves_a_long_job_of_ours_alone(bench: Bench, timeout_s: int) -> None:
    bench.original.queue("x")
    [lease] = bench.take()
    first = bench.progress()
    for _ in range(3):
        assert bench.another(timeout_s=timeout_s, ahead_s=timeout_s - 1).monitor() == []
        assert not bench.beat(lease).lost
        assert bench.progress() != first, "every heartbeat says that it has just started"
    assert bench.settle(lease)


def test_h7_a_job_of_an_original_with_a_wrong_clock_is_not_taken_too_soon(bench: Bench) -> None:
    behind = bench.another(ahead_s=-10_000)
    job = behind.queue("x")
    behind.pop()
    for _ in range(3):
        assert bench.maintain().reclaimed == 0
        bench.pass_time(TIMEOUT_MS // 3 - 10)
    bench.pass_time(100)
    assert bench.maintain().reclaimed == 1
    assert bench.waiting() == [job]
    ahead = bench.another(ahead_s=10_000)
    ahead.pop()
    bench.maintain()
    bench.pass_time(TIMEOUT_MS + 1)
    assert bench.maintain().reclaimed == 1, "nor too late"
    bench.audit()


@pytest.mark.parametrize("value", [b"", b"null", b'"yesterday"', b'"2026-01-01T00:00:00.1234567890123Z"'])
def test_h9_a_time_that_cannot_be_read_counts_as_expired(bench: Bench, value: bytes) -> None:
    job = bench.original.queue("x")
    bench.original.pop()
    bench.db.hset(bench.original.progress, job, value)
    assert bench.maintain().reclaimed == 1
    assert bench.waiting() == [job]


@pytest.mark.parametrize("fraction", ["", ".5", ".123456789", ".123456789012"])
def test_times_with_and_without_fractions_are_read(bench: Bench, fraction: str) -> None:
    job = bench.original.queue("x")
    bench.original.pop()
    bench.db.hset(bench.original.progress, job, f'"2026-01-01T00:00:00{fraction}Z"')
    assert bench.maintain().reclaimed == 0
    bench.pass_time(TIMEOUT_MS + 1)
    assert bench.maintain().reclaimed == 1


def test_h10_a_retry_has_a_limit_and_may_have_a_delay_that_monitors_respect(bench: Bench) -> None:
    bench.put("a")
    [lease] = bench.take()
    assert bench.settle(lease, Retried(BOOM, delay_ms=30_000))
    [(job, _)] = bench.progress().items()
    assert bench.another(timeout_s=3).monitor() == []
    assert bench.counts() == {"scheduled": 1}
    bench.pass_time(30_001)
    [again] = bench.take()
    assert (again.record.id, again.failures, again.attempt) == ("a", 1, 2)
    assert [job] == list(bench.progress())


def test_a_retry_that_an_originals_monitor_takes_runs_once(bench: Bench) -> None:
    bench.put("a")
    [lease] = bench.take()
    assert bench.settle(lease, Retried(BOOM, delay_ms=30_000))
    assert len(bench.another(ahead_s=1_000).monitor()) == 1
    [again] = bench.take()
    assert bench.settle(again)
    bench.pass_time(30_001)
    assert not bench.take()
    assert bench.counts() == {}
    bench.audit()


def test_h11_many_jobs_in_progress_are_watched_page_by_page(bench: Bench) -> None:
    jobs = [bench.original.queue(n) for n in range(1_200)]
    for _ in jobs:
        bench.original.pop()
    for _ in range(30):
        bench.maintain()
    bench.pass_time(TIMEOUT_MS + 1)
    moved, most = 0, 0
    for _ in range(40):
        now = bench.maintain().reclaimed
        moved, most = moved + now, max(most, now)
    assert moved == len(jobs)
    assert most < len(jobs)
    assert sorted(bench.waiting()) == sorted(jobs)
    assert bench.progress() == {}
    bench.take(1)
    for _ in range(20):
        bench.maintain()
    assert not bench.db.exists(f"hworker-tenure-{bench.pool}:observed"), "nothing is remembered of them"


def test_h12_failed_jobs_are_trimmed_by_both_sides_and_counted(bench: Bench) -> None:
    for n in range(4):
        bench.original.queue(n)
        bench.another(failed_size=5).fail(bench.original.pop() or b"")
    for n in range(4, 8):
        bench.put(f"id-{n}", payload=b"%d" % n)
        assert bench.settle(bench.take()[0], Failed(ErrorInfo("E", f"no {n}")))
    assert [json.loads(job)[1] for job in bench.failed()] == [7, 6, 5, 4, 3]
    shown = bench.run(bench.engine.page("q", State.FAILED)).jobs
    assert [view.payload for view in shown] == [b"7", b"6", b"5", b"4", b"3"]
    assert shown[0].error is not None
    assert shown[0].error.message == "no 7"
    assert shown[-1].error is not None
    assert "another client" in shown[-1].error.message
    for _ in range(3):
        bench.maintain()
    bench.audit()


def test_h12_failed_jobs_of_originals_are_shown_when_the_list_is_full(bench: Bench) -> None:
    def fail(values: range) -> None:
        for n in values:
            bench.original.queue(n)
            bench.another(failed_size=5).fail(bench.original.pop() or b"")

    fail(range(5))
    bench.maintain()
    fail(range(5, 7))
    bench.put("ours", payload=b"7")
    assert bench.settle(bench.take()[0], Failed(BOOM))
    shown = bench.run(bench.engine.page("q", State.FAILED)).jobs
    assert [view.payload for view in shown] == [b"7", b"6", b"5", b"4", b"3"]
    bench.maintain()
    bench.audit()


def test_a_failed_job_is_shown_though_its_copy_runs(bench: Bench) -> None:
    job = bench.original.queue("x")
    bench.original.push(job)
    bench.original.fail(bench.original.pop() or b"")
    bench.maintain()
    [copy] = bench.take()
    [failed] = bench.run(bench.engine.page("q", State.FAILED)).jobs
    assert failed.payload == b'"x"'
    assert bench.settle(copy)
    bench.audit()


def test_a_job_that_fails_again_at_an_original_is_shown_again(bench: Bench) -> None:
    job = bench.original.queue("x")
    for _ in range(2):
        bench.original.fail(bench.original.pop() or b"")
        [failed] = bench.run(bench.engine.page("q", State.FAILED)).jobs
        assert bench.run(bench.engine.retry("q", failed.id))
    assert bench.waiting() == [job]
    bench.audit()


def test_failed_and_broken_jobs_of_both_sides_are_retried_repaired_and_purged(bench: Bench) -> None:
    bench.original.push(b'{"no":"pair"}')
    bench.original.decode(bench.original.pop() or b"")
    bench.original.queue("x")
    bench.original.fail(bench.original.pop() or b"")
    [broken] = bench.run(bench.engine.page("q", State.BROKEN)).jobs
    [failed] = bench.run(bench.engine.page("q", State.FAILED)).jobs
    assert (broken.payload, failed.payload) == (b'{"no":"pair"}', b'"x"')
    assert bench.run(bench.engine.retry("q", broken.id, b'{"now":"a job"}'))
    assert bench.run(bench.engine.retry("q", failed.id))
    assert bench.counts() == {"ready": 2}
    repaired, again = bench.take()
    assert (repaired.record.payload, again.record.payload) == (b'{"now":"a job"}', b'"x"')
    assert (repaired.record.malformed, again.record.id) == ("", failed.id)
    assert bench.settle(repaired, Failed(BOOM))
    assert bench.settle(again, Broken(BOOM))
    assert bench.run(bench.engine.purge("q", State.FAILED)) == 1
    assert bench.run(bench.engine.purge("q", State.BROKEN)) == 1
    assert bench.counts() == {}
    bench.audit()


def test_h15_bytes_behind_the_value_are_ignored_as_by_the_original(bench: Bench) -> None:
    bench.original.push(b' ["a-1", {"n": 1}] junk ["x"')
    [lease] = bench.take()
    assert (lease.record.id, lease.record.payload, lease.record.malformed) == ("a-1", b'{"n": 1}', "")
    assert bench.settle(lease)
    assert bench.counts() == {}


VALUES = [
    b"9007199254740993123456789",
    b'"\\u2603 \xe2\x98\x83"',
    b'{"b":1,"a":2.50}',
    b"null",
    b"[]",
    b'"\\ud83d\\ude00"',
]


@pytest.mark.parametrize("value", VALUES)
def test_the_bytes_of_an_original_come_and_go_unchanged(bench: Bench, value: bytes) -> None:
    job = b'["8c2a7d6e-1111-4222-8333-944455556666", ' + value + b"]"
    bench.original.push(job)
    [lease] = bench.take()
    assert lease.record.payload == value
    assert list(bench.progress()) == [job]
    assert bench.settle(lease, Released())
    assert bench.waiting() == [job]
    [lease] = bench.take()
    assert bench.settle(lease, Failed(BOOM))
    assert bench.failed() == [job]
    assert bench.run(bench.engine.retry("q", lease.record.id))
    assert bench.waiting() == [job]


def test_an_original_runs_and_ends_what_we_enqueue(bench: Bench) -> None:
    bench.put("5d9a3f0e-2c1b-4e6f-9a7b-1c2d3e4f5a6b", payload=b'{"to":"a@example.org"}')
    job = bench.original.pop()
    assert job == b'["5d9a3f0e-2c1b-4e6f-9a7b-1c2d3e4f5a6b",{"to":"a@example.org"}]'
    assert bench.original.decode(job) == {"to": "a@example.org"}
    bench.original.retry(job)
    assert bench.original.pop() == job
    bench.original.fail(job)
    assert bench.failed() == [job]


def test_the_front_for_jobs_of_the_dead_and_the_back_for_retries(bench: Bench) -> None:
    bench.put("a", "b", "c", "d")
    first = bench.take(2)
    assert bench.settle(first[0], Retried(BOOM, delay_ms=0))
    bench.pass_time(LEASE_MS + 50)
    bench.maintain()
    bench.pass_time(GRACE_MS + 50)
    bench.maintain()
    assert [json.loads(job)[0] for job in bench.waiting()] == ["b", "c", "d", "a"]
    assert bench.original.pop() is not None
    bench.maintain()
    bench.pass_time(TIMEOUT_MS + 1)
    bench.maintain()
    assert [json.loads(job)[0] for job in bench.waiting()] == ["b", "c", "d", "a"]


def test_a_call_of_another_program_is_found_behind_raw_payloads(bench: Bench) -> None:
    bench.original.push(b'["r1", {"raw": 1}]')
    [raw] = bench.take()
    assert bench.settle(raw, Unroutable())
    bench.original.push(b'[ "t1" , { "task" : "t", "tenure" : 1 , "args" : [9007199254740993] } ]')
    [lease] = bench.take()
    assert lease.record.task == "t"
    assert bench.waiting() == [b'["r1", {"raw": 1}]']
    assert not bench.take()
    assert isinstance(bench.engine.wait("ours", ["q"], 500), Poll), "a wait for the list would take the raw payload"
    assert bench.original.pop() == b'["r1", {"raw": 1}]'
    assert not bench.take()
    assert isinstance(bench.engine.wait("ours", ["q"], 500), Lead)


def test_a_raw_payload_that_a_wait_took_returns_to_its_place(bench: Bench) -> None:
    jobs = [b'["r1",1]', b'["r2",2]', b'["r3",3]']
    for job in jobs:
        bench.original.push(job)
    assert bench.settle(bench.take(1)[0], Unroutable())
    for _ in range(2):
        bench.db.lmove(bench.original.jobs, f"{bench.engine.prefix('q')}:taken", "RIGHT", "LEFT")
    assert not bench.take()
    assert bench.waiting() == jobs


def test_what_waits_took_for_workers_that_died_returns_in_its_order(bench: Bench) -> None:
    jobs = [b'["r1",1]', b'["r2",2]', b'["r3",3]']
    for job in jobs:
        bench.original.push(job)
    for _ in range(2):
        bench.db.lmove(bench.original.jobs, f"{bench.engine.prefix('q')}:taken", "RIGHT", "LEFT")
    bench.maintain()
    assert bench.waiting() == jobs


class TestPhantoms:
    """H1 in all orders: an idle original wrote `false`, its monitor returned it, its worker filed it."""

    def test_one_that_waits_is_not_shown_and_ends_in_no_record(self, bench: Bench) -> None:
        id = hashlib.sha1(FALSE, usedforsecurity=False).hexdigest()
        bench.original.push(FALSE)
        assert bench.run(bench.engine.page("q", State.READY)).jobs == ()
        assert bench.run(bench.engine.job("q", id)) is None
        assert bench.run(bench.engine.cancel("q", id)) is CancelAnswer.NOTHING
        assert not bench.run(bench.engine.discard("q", id))
        bench.put("a")
        assert bench.run(bench.engine.cancel_all("q")).cancelled == 1
        bench.original.push(FALSE)
        assert bench.run(bench.engine.purge("q", State.READY)) == 0
        assert bench.counts() == {"cancelled": 1}
        assert bench.waiting() == []

    def test_one_that_an_original_filed_under_broken_goes(self, bench: Bench) -> None:
        bench.original.pop()
        bench.another(ahead_s=1_000).monitor()
        job = bench.original.pop()
        assert job == FALSE
        bench.original.decode(job)
        assert bench.db.hexists(bench.original.broken, FALSE)
        bench.original.push(b"[broken")
        [lease] = bench.take()
        assert bench.settle(lease, Broken(BOOM))
        bench.maintain()
        assert [job.payload for job in bench.run(bench.engine.page("q", State.BROKEN)).jobs] == [b"[broken"]
        assert not bench.db.hexists(bench.original.broken, FALSE)
        assert bench.counts() == {"broken": 1}

    def test_a_worker_that_leaves_raw_payloads_drops_it(self, bench: Bench) -> None:
        bench.original.push(b'["r1",1]')
        assert bench.settle(bench.take()[0], Unroutable())
        bench.db.rpush(bench.original.jobs, FALSE)
        leased = bench.run(bench.engine.lease("ours", ["q"], 5))
        assert [entry.id for entry in leased.dropped] == ["false"]
        assert bench.waiting() == [b'["r1",1]']

    def test_one_that_a_wait_took_is_dropped(self, bench: Bench) -> None:
        bench.original.push(FALSE)
        bench.db.lmove(bench.original.jobs, f"{bench.engine.prefix('q')}:taken", "RIGHT", "LEFT")
        assert bench.take() == []
        assert bench.counts() == {}


def test_a_worker_beside_an_idle_original_asks_as_often_as_it_does(bench: Bench) -> None:
    """A wait for the list would take every job before the original asks again."""

    def next_wait() -> Lead | Poll:
        assert bench.take() == []
        return bench.engine.wait("ours", ["q"], 900)

    assert isinstance(next_wait(), Lead)
    assert bench.original.pop() is None
    wait = next_wait()
    assert isinstance(wait, Poll)
    assert wait.interval_ms == POLL_MS
    assert bench.progress() == {}
    assert isinstance(next_wait(), Poll), "the original is between two of its looks"
    bench.pass_time(IDLE_MS)
    assert isinstance(next_wait(), Lead), "the original has work, or has ended"


def test_a_worker_that_has_found_a_job_asks_at_once(bench: Bench) -> None:
    assert bench.original.pop() is None
    bench.put("a")
    (lease,) = bench.take(1)
    assert bench.settle(lease)
    assert isinstance(bench.engine.wait("ours", ["q"], 900), Lead)
