"""How leases gather to batches, and what a batch handler's answer means."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.job import JobRecord, Lease
from tenure.core.outcome import Cancelled, Completed, Failed, Outcome, Retried
from tenure.core.shape import Shape
from tenure.core.signals import Fail, JobCancelled, Retry
from tenure.core.task import BatchRule
from tenure.runtime.jobs.batches import outcomes_of_answers
from tenure.runtime.jobs.held import Batch, Held, Phase
from tenure.runtime.jobs.table import Inflight
from tests.runtime.fakes import task


class Table(Inflight):
    """With short names for what the tests do."""

    def take_in(self, id: str, now: float, *, queue: str = "q", **shape: Any) -> Held:
        record = JobRecord(id, queue, b"", 0, shape=Shape(**shape))
        held = self.add(Lease("w", self._added + 1, record, 0, 0), self.spec, now)
        assert held is not None
        return held

    def __init__(self, slots: int, **rule: Any) -> None:
        super().__init__(slots)
        self.spec = task(lambda jobs: None, name=None, decode=None, batch=BatchRule(**rule))

    def next_batch(self, now: float) -> list[str] | None:
        run = next(self.starting(now), None)
        if run is None:
            return None
        assert isinstance(run, Batch)
        return [held.ref.id for held in run.members]


class TestGathering:
    def test_a_full_batch_starts_at_once_and_the_rest_when_it_has_waited(self):
        table = Table(2, size=2, linger_ms=1_000)
        for number in range(3):
            table.take_in(str(number), 10.0)
        assert table.next_batch(10.0) == ["0", "1"]
        assert table.next_batch(10.9) is None
        assert table.next_batch(11.0) == ["2"]

    def test_it_waits_since_its_oldest(self):
        table = Table(2, size=9, linger_ms=1_000)
        table.take_in("a", 10.0)
        table.take_in("b", 10.9)
        assert table.gathering.next_at() == 11.0
        assert table.next_batch(11.0) == ["a", "b"]

    def test_a_batch_has_one_slot(self):
        table = Table(1, size=2)
        for number in range(4):
            table.take_in(str(number), 0.0)
        assert table.next_batch(0.0) == ["0", "1"]
        assert table.free == 0
        assert table.next_batch(0.0) is None

    def test_lanes_do_not_mix_and_wait_for_nothing(self):
        table = Table(9, size=9, linger_ms=1_000, one_lane=True)
        for id, lane in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("n1", None), ("n2", None), ("w1", "wide")):
            table.take_in(id, 0.0, lane=lane, lane_limit=2 if lane == "wide" else 1)
        assert table.next_batch(0.0) == ["a1", "a2"]
        assert table.next_batch(0.0) == ["b1"]
        assert table.next_batch(0.0) is None
        assert table.next_batch(1.0) == ["n1", "n2"]
        assert table.next_batch(1.0) == ["w1"]

    def test_without_one_lane_lanes_mix(self):
        table = Table(9, size=9)
        table.take_in("a", 0.0, lane="a")
        table.take_in("b", 0.0, lane="b")
        assert table.next_batch(0.0) == ["a", "b"]

    def test_queues_do_not_mix(self):
        table = Table(9, size=9)
        table.take_in("a", 0.0)
        table.take_in("b", 0.0, queue="r")
        assert table.next_batch(0.0) == ["a"]
        assert table.next_batch(0.0) == ["b"]

    def test_a_persistent_job_is_alone(self):
        table = Table(9, size=2, linger_ms=1_000)
        table.take_in("a", 0.0)
        table.take_in("p", 0.0, persistent=True)
        assert table.next_batch(0.0) == ["p"]

    def test_what_was_claimed_first_starts_first_among_batches_and_others(self):
        table = Table(9, size=2)
        single = table.add(Lease("w", 99, JobRecord("s", "q", b"", 0, task="t"), 0, 0), task(lambda: None), 0.0)
        table.take_in("b", 0.0)
        assert next(table.starting(0.0), None) is single
        assert table.next_batch(0.0) == ["b"]

    def test_what_is_lost_leaves_its_batch(self):
        table = Table(9, size=2, linger_ms=1_000)
        lost = table.take_in("a", 0.0)
        table.take_in("b", 0.0)
        table.lose(lost.ref)
        assert table.next_batch(0.0) == ["b"]
        alone = table.take_in("c", 0.0)
        table.lose(alone.ref)
        assert table.next_batch(9.0) is None
        assert not table.pending
        assert not table.gathering.group_of

    def test_all_that_is_pending_is_taken_back_in_the_order_of_the_claims(self):
        table = Table(9, size=2, linger_ms=1_000)
        table.take_in("1", 0.0)
        table.add(Lease("w", 99, JobRecord("2", "q", b"", 0, task="t"), 0, 0), task(lambda: None), 0.0)
        table.take_in("3", 0.0)
        table.take_in("4", 0.0)
        assert [held.ref.id for held in table.take_pending(lambda _: True)] == ["1", "2", "3", "4"]
        assert not table.pending
        assert not table.gathering.group_of
        assert table.next_batch(9.0) is None


def batch_of(*ids: str, **options: Any) -> Batch:
    spec = task(lambda jobs: None, name=None, decode=None, batch=BatchRule(9), **options)
    batch = Batch(spec, [])
    for token, id in enumerate(ids):
        lease = Lease("w", token, JobRecord(id, "q", b"", 0), 0, 0)
        held = Held(lease, ("q", id, token), spec, 0.0)
        held.phase, held.batch = Phase.RUNNING, batch
        batch.members.append(held)
    return batch


def judged(batch: Batch, value: object) -> dict[str, Outcome]:
    return {held.ref.id: outcome for held, outcome in outcomes_of_answers(batch, value, lambda: 0.5)}


class TestAnswers:
    def test_nothing_means_that_all_are_completed(self):
        assert judged(batch_of("a", "b"), None) == {"a": Completed(b"None"), "b": Completed(b"None")}

    def test_each_entry_is_for_its_job(self):
        batch = batch_of("a", "b", "c", "d", "e", "f")
        found = judged(batch, [1, Retry("busy", delay=2), Fail("no"), JobCancelled("gone"), ValueError("x"), None])
        assert found["a"] == Completed(b"1")
        assert isinstance(found["b"], Retried)
        assert found["b"].delay_ms == 2_000
        assert isinstance(found["c"], Failed)
        assert found["d"] == Cancelled("gone")
        assert isinstance(found["e"], Retried)
        assert found["e"].error.type == "ValueError"
        assert found["f"] == Completed(b"None")

    def test_jobs_that_were_answered_or_lost_are_left_alone(self):
        batch = batch_of("a", "b", "c")
        batch.members[0].answered = True
        batch.members[1].phase = Phase.LOST
        assert judged(batch, [1, 2, 3]) == {"c": Completed(b"3")}

    @pytest.mark.parametrize("value", [[1], [1, 2, 3], 5, "ab", {"a": 1, "b": 2}, {1, 2}])
    def test_anything_else_is_a_failed_attempt_that_says_what_was_expected(self, value):
        found = judged(batch_of("a", "b"), value)
        assert found.keys() == {"a", "b"}
        for outcome in found.values():
            assert isinstance(outcome, Retried)
            assert "one entry for each job" in outcome.error.message
            assert "2 jobs" in outcome.error.message

    def test_a_job_that_was_to_be_cancelled_is_unless_it_has_a_result(self):
        batch = batch_of("a", "b")
        for held in batch.members:
            held.cancelled = "asked"
        assert judged(batch, [1, ValueError()]) == {"a": Completed(b"1"), "b": Cancelled("asked")}
