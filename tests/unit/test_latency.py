"""How long jobs wait and run: what one worker counts, and what several add up to."""

from __future__ import annotations

import pytest

from tenure.core.job import JobRecord, Lease
from tenure.core.latency import BOUNDS, Latency, Times, bucket_of, latency_of
from tenure.core.minutes import Ends
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Released, Retried
from tenure.runtime.jobs.held import Held
from tenure.runtime.observe.latency import WINDOW_S, Latencies
from tests.runtime.fakes import task
from tests.support.world import BOOM

SINCE_1970_S = 1_800_000_000.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def latencies(clock: Clock) -> Latencies:
    return Latencies(clock, lambda: SINCE_1970_S + clock.now)


def run(
    latencies: Latencies, clock: Clock, waited: float, took: float, *, failures: int = 0, delayed: bool = False
) -> Held:
    enqueued_ms = round((SINCE_1970_S + clock.now - waited) * 1000)
    record = JobRecord("a", "q", b"", enqueued_ms, task="t", delayed=delayed)
    held = Held(Lease("w", 1, record, failures, 0), ("q", "a", 1), task(lambda: None), clock.now)
    held.begin_in_process(clock.now)
    latencies.finished([(held, [], clock.now + took)])
    return held


def test_percentiles_of_two_workers_add_up() -> None:
    one = Times(run={bucket_of(0.010): 50})
    two = Times(run={bucket_of(0.010): 45, bucket_of(1.0): 4, bucket_of(60.0): 1})
    latency = latency_of([one, two])
    assert latency.wait is None
    assert latency.run is not None
    assert latency.run.count == 100
    assert 0.010 <= latency.run.p50 == latency.run.p95 < 0.012
    assert 1.0 <= latency.run.p99 < 1.2
    assert latency_of([]) == Latency()


@pytest.mark.parametrize("seconds", [-5.0, 0.0, 1e-6, 1e9])
def test_a_time_beyond_the_buckets_counts_as_the_nearest(seconds: float) -> None:
    latency = latency_of([Times(wait={bucket_of(seconds): 1})])
    assert latency.wait is not None
    assert latency.wait.p50 == (BOUNDS[-1] if seconds > 1 else BOUNDS[0])


def test_a_wait_is_that_of_a_first_attempt_that_was_not_delayed(latencies: Latencies, clock: Clock) -> None:
    run(latencies, clock, waited=3.0, took=0.5)
    run(latencies, clock, waited=3_600.0, took=0.5, failures=1)
    run(latencies, clock, waited=3_600.0, took=0.5, delayed=True)
    latency = latency_of(latencies.of_queues().values())
    assert latency.wait is not None
    assert latency.run is not None
    assert (latency.wait.count, latency.run.count) == (1, 3)
    assert 3.0 <= latency.wait.p99 < 3.6


def test_counts_are_forgotten_after_two_windows(latencies: Latencies, clock: Clock) -> None:
    run(latencies, clock, waited=1.0, took=1.0)
    for _ in range(2):
        assert latencies.of_queues()["q"].run
        latencies.take_ends()
        clock.now += WINDOW_S
    assert latencies.of_queues() == {}


def test_what_has_ended_is_taken_once_and_stays_in_the_percentiles(latencies: Latencies, clock: Clock) -> None:
    held = run(latencies, clock, waited=3.0, took=0.5)
    shown = latencies.of_queues()["q"]
    bad = (Failed(BOOM), Broken(BOOM), Retried(BOOM), Cancelled(), Released(), Retried(BOOM, deferred=True))
    latencies.settled([(held, outcome) for outcome in (Completed(), *bad)])
    assert latencies.take_ends() == {"q": Ends(completed=1, failed=2, retried=1, cancelled=1, times=shown)}
    assert latencies.take_ends() == {}
    run(latencies, clock, waited=3.0, took=0.5)
    assert latencies.take_ends() == {"q": Ends(times=shown)}
    assert latencies.of_queues()["q"].run == {bucket: 2 * count for bucket, count in shown.run.items()}
