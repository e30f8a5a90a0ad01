"""Messages: a cancel reaches the worker that runs the task, and the end of a task is published."""

from __future__ import annotations

import json

import pytest

from tenure.core.errors import UnsupportedFeature
from tenure.core.job import JobRecord, Lease, NewJob, State
from tenure.core.outcome import Completed
from tenure.core.shape import CancelAnswer
from tenure.engines.worqr.records import name_of
from tests.wire.worqr.bench import Bench
from tests.wire.worqr.original import R


class TestCancel:
    def test_an_original_cancels_a_task_that_a_worker_runs(self, bench: Bench) -> None:
        original = bench.original()
        bench.put("a", "a", "b")
        leases = bench.take(3)
        assert bench.engine.request_channels(["q", "r"]) == {f"{R}_q_cancel": "q", f"{R}_r_cancel": "r"}
        with bench.driver.subscribe(f"{R}_q_cancel") as messages:
            original.cancel_tasks("q", "a")
            message = messages.get(timeout_s=5)
        assert message == b"a"
        for _ in range(2):
            assert bench.run(bench.engine.note_request("ours", "q", message))
        assert not bench.run(bench.engine.note_request("ours", "q", b"unknown"))
        assert not bench.run(bench.engine.note_request("other", "q", message))
        for _ in range(2):
            assert {asked.ref for asked in bench.beat(*leases).cancelled} == {leases[0].ref, leases[1].ref}

    def test_a_process_id_cancels_one_of_two_copies(self, bench: Bench) -> None:
        bench.put("a", "a")
        first, second = bench.take(2)
        assert bench.run(bench.engine.cancel("q", second.record.id)) is CancelAnswer.REQUESTED
        assert [asked.ref for asked in bench.beat(first, second).cancelled] == [second.ref]

    @pytest.mark.parametrize("by", ["process id", "hash"])
    def test_a_task_that_an_original_runs_gets_the_message(self, bench: Bench, by: str) -> None:
        original = bench.original("original", "q")
        bench.put("a")
        held = original.dequeue("q")
        assert held is not None
        with bench.driver.subscribe(f"{R}_q_cancel") as messages:
            id = held[0] if by == "process id" else name_of(b"a")
            assert bench.run(bench.engine.cancel("q", id)) is CancelAnswer.REQUESTED
            assert messages.get(timeout_s=5) == b"a"
        assert bench.run(bench.engine.cancel_all("q")).requested == 1

    def test_of_identical_tasks_those_that_wait_are_cancelled_one_by_one(self, bench: Bench) -> None:
        bench.put("a", "a", "a")
        [lease] = bench.take(1)
        answers = []
        for _ in range(3):
            answers.append(bench.run(bench.engine.cancel("q", name_of(b"a"))))
            bench.settle(lease)
        assert answers == [CancelAnswer.REQUESTED, CancelAnswer.CANCELLED, CancelAnswer.CANCELLED]
        assert bench.run(bench.engine.cancel("q", name_of(b"a"))) is CancelAnswer.NOTHING

    def test_of_identical_tasks_one_is_cancelled(self, bench: Bench) -> None:
        bench.put("a", "b", "a")
        assert bench.run(bench.engine.cancel("q", name_of(b"a"))) is CancelAnswer.CANCELLED
        assert bench.waiting() == ["b", "a"]
        [record] = bench.run(bench.engine.page("q", State.CANCELLED)).jobs
        assert record.payload == b"a"
        assert bench.run(bench.engine.retry("q", record.id))
        assert bench.waiting() == ["b", "a", "a"]


def test_payloads_that_are_no_text_are_refused_before_anything_is_sent(bench: Bench) -> None:
    jobs = [NewJob("q", "", b"text"), NewJob("q", "", b"\xff")]
    with pytest.raises(UnsupportedFeature, match="feature 'bytes'"):
        bench.run(bench.engine.enqueue(jobs))
    assert bench.waiting() == []


def test_a_task_that_is_done_is_published(bench: Bench) -> None:
    bench.put('a"\\ü')
    with bench.driver.subscribe(f"{R}_q_done") as messages:
        assert bench.settle(bench.take()[0], Completed(b'{"n":[1,2]}'))
        done = messages.get(timeout_s=5)
    assert done is not None
    assert json.loads(done) == {"workerId": "ours", "task": 'a"\\ü', "result": {"n": [1, 2]}}


def test_queues_that_only_originals_use_are_listed(bench: Bench) -> None:
    bench.original("original", "served").enqueue("waiting", "a")
    bench.put("b", queue="ours")
    assert bench.run(bench.engine.queues()) == ["ours", "served", "waiting"]
    view = bench.run(bench.engine.queue("waiting"))
    assert view.counts[State.READY] == 1
    [job] = bench.run(bench.engine.page("waiting", State.READY)).jobs
    assert (job.id, job.payload) == (name_of(b"a"), b"a")


def test_identical_tasks_are_processes_of_their_own(bench: Bench) -> None:
    bench.put("a", "a", "a")
    leases = bench.take()
    assert len({lease.record.id for lease in leases}) == 3
    assert bench.settle(leases[1])
    assert bench.settle(leases[0])
    assert bench.silence() == 1
    assert bench.waiting() == ["a"]
    assert not bench.settle(leases[2])


def test_the_marker_of_an_envelope_that_another_program_wrote_goes_with_its_end(bench: Bench) -> None:
    original = bench.original()
    task = '{"tenure": 1, "task": "t", "args": [1]}'
    assert original.enqueue_unique("q", task)
    [lease] = bench.take()
    assert (lease.record.task, lease.record.payload) == ("t", b"[[1],{}]")
    assert bench.settle(lease)
    assert not bench.is_marked(task)


def test_an_original_and_a_worker_take_turns(bench: Bench) -> None:
    """Each finishes what it took."""
    original = bench.original("original", "q")
    original.enqueue("q", "1", "2")
    bench.put("3", "4")
    done = []
    for _ in range(2):
        held = original.dequeue("q")
        assert held is not None
        [lease] = bench.take(1)
        done += [held[1], lease.record.payload.decode()]
        original.finish(held[0], {"ok": True})
        assert bench.settle(lease)
    assert done == ["1", "2", "3", "4"]
    assert original.dequeue("q") is None
    assert bench.working() == set()
    bench.leave()
    bench.audit()


def test_a_lease_that_another_program_made_up_settles_nothing(bench: Bench) -> None:
    original = bench.original("original", "q")
    bench.put("a")
    held = original.dequeue("q")
    assert held is not None
    made_up = Lease("ours", 1, JobRecord(held[0], "q", b"a", 0), 0, 0)
    assert not bench.settle(made_up)
    assert bench.working() == {held[0]}
