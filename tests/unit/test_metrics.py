"""What a worker counts for the metrics, with which labels, and what the files for Grafana and Prometheus name."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tenure.core.errors import Unreachable
from tenure.core.job import ErrorInfo, JobRecord, JobView, Lease, State
from tenure.core.latency import bucket_of
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried
from tenure.core.steps import Invoke, Script, Steps
from tenure.metrics.counts import OTHER, TASKS_MAX, Counts, Measured
from tenure.metrics.exposition import Snapshot, exposition
from tenure.metrics.families import FAMILIES, OF_FLEET, OF_WORKERS
from tenure.runtime.jobs.held import Held
from tenure.runtime.observe.metrics import TimedDriver, WorkerMetrics
from tests.runtime.fakes import task

SINCE_1970_S = 1_800_000_000.0
BOOM = ErrorInfo("ValueError", "boom")
ALERTS = (files("tenure.integrations") / "prometheus" / "alerts.yml").read_text()
DASHBOARD = json.loads((files("tenure.integrations") / "prometheus" / "dashboard.json").read_text())
HOWTO = Path(__file__).parents[2] / "docs/howto/prometheus.md"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> WorkerMetrics:
    return WorkerMetrics(clock, lambda: SINCE_1970_S + clock.now)


def held(clock: Clock, waited_s: float = 2.0) -> Held:
    enqueued_ms = round((SINCE_1970_S + clock.now - waited_s) * 1000)
    one = Held(
        Lease("w", 1, JobRecord("a", "q", b"", enqueued_ms, task="t"), 0, 0),
        ("q", "a", 1),
        task(lambda: None),
        clock.now,
    )
    one.begin_in_process(clock.now)
    return one


def samples(measured: Measured) -> dict[tuple[str, ...], float]:
    """The samples of the text, by name and sorted labels; buckets without a job left out."""
    text = exposition(Snapshot(measured, {**OF_WORKERS, **OF_FLEET})).decode()
    return {
        (one.name, *(f"{key}={value}" for key, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_outcomes_that_redis_has_are_counted_by_queue_and_task(metrics: WorkerMetrics, clock: Clock) -> None:
    outcomes: list[Outcome] = [Completed(), Completed(), Failed(BOOM), Broken(BOOM), Cancelled()]
    outcomes += [Retried(BOOM), Crashed(), Retried(BOOM, deferred=True), Released()]
    metrics.settled([(held(clock), one) for one in outcomes])
    metrics.poisoned(JobView("b", "q", State.BROKEN, task="t"))
    metrics.lost(held(clock), "settle", None, True)
    found = samples(metrics.take())
    ends = {key[1]: number for key, number in found.items() if key[0] == "tenure_jobs_ended_total"}
    assert ends == {"outcome=completed": 2, "outcome=failed": 1, "outcome=broken": 2, "outcome=cancelled": 1}
    assert found["tenure_retries_total", "queue=q", "task=t"] == 2
    assert found["tenure_leases_lost_total", "queue=q", "task=t"] == 1
    assert metrics.take() == Measured()


def test_the_counters_of_the_tasks_begin_at_0(metrics: WorkerMetrics, clock: Clock) -> None:
    specs = [task(lambda: None), task(lambda: None, name=None), task(lambda: None, name="other", queue="other")]
    metrics.begin(specs, ["q"])
    found = samples(metrics.take())
    ends = {key[1:]: number for key, number in found.items() if key[0] == "tenure_jobs_ended_total"}
    assert set(ends.values()) == {0}
    assert {key[1:] for key in ends} == {("queue=q", "task=t"), ("queue=q", "task=")}
    assert {key[0] for key in ends} == {f"outcome={one}" for one in ("completed", "failed", "broken", "cancelled")}
    assert found["tenure_retries_total", "queue=q", "task=t"] == 0
    metrics.begin([task(lambda: None, name=f"t{n}") for n in range(TASKS_MAX + 1)], ["q"])
    assert metrics.take() == Measured()


def test_times_are_counted_in_buckets(metrics: WorkerMetrics, clock: Clock) -> None:
    job = held(clock)
    metrics.finished([(job, [], clock.now + 0.3)])
    assert metrics.of_queues()["q"].run == {bucket_of(0.3): 1}  # the latencies have them as well
    metrics.finished([(held(clock, waited_s=-1.0), [], clock.now + 0.3)])  # the clock of Redis is ahead
    metrics.ticked("q", 0.07)
    found = samples(metrics.take())
    run = {key[1]: number for key, number in found.items() if key[0] == "tenure_job_run_seconds_bucket"}
    assert (run["le=0.256"], run["le=0.512"], run["le=+Inf"]) == (0, 2, 2)
    assert found["tenure_job_run_seconds_sum", "queue=q", "task=t"] == pytest.approx(0.6)
    assert found["tenure_job_wait_seconds_sum", "queue=q"] == pytest.approx(2.0)
    assert found["tenure_schedule_lateness_seconds_count", "queue=q"] == 1


def test_seconds_without_redis_count_while_they_last(metrics: WorkerMetrics, clock: Clock) -> None:
    name = ("tenure_redis_away_seconds_total",)
    metrics.redis_away(Unreachable("gone"))
    clock.now += 4
    assert samples(metrics.take())[name] == 4
    clock.now += 2
    metrics.redis_back(6)
    clock.now += 10
    assert samples(metrics.take())[name] == 2
    assert samples(metrics.take())[name] == 0


async def test_the_calls_of_scripts_are_timed(metrics: WorkerMetrics, clock: Clock) -> None:
    class Driver:
        """Replies to each call after three seconds; the second one fails."""

        async def run(self, steps: Steps[Any]) -> Any:
            next(steps)
            clock.now += 3
            steps.send(None)
            clock.now += 3
            try:
                steps.throw(Unreachable("gone"))
            except StopIteration as stop:
                return stop.value

    def steps() -> Steps[str]:
        yield Invoke(Script("claim", ""), (), ())
        try:
            yield Invoke(Script("settle", ""), (), ())
        except Unreachable:
            return "away"
        return "settled"

    driver = TimedDriver(Driver(), metrics.redis_called, clock)  # type: ignore[arg-type]
    assert await driver.run(steps()) == "away"
    found = samples(metrics.take())
    assert found["tenure_redis_call_seconds_sum", "call=claim"] == 3
    assert ("tenure_redis_call_seconds_sum", "call=settle") not in found


def test_labels_are_clean_and_their_values_bounded() -> None:
    counts = Counts()
    counts.add("tenure_retries_total", "q", "a\nb\x00\ud800")
    counts.add("tenure_retries_total", "q", "x" * 10_000)
    for number in range(TASKS_MAX + 50):
        counts.add("tenure_retries_total", "q", f"task{number}")
    tasks = {key[2]: number for key, number in samples(counts.snapshot()).items() if key[0] == "tenure_retries_total"}
    assert len(tasks) == TASKS_MAX + 1
    assert tasks[f"task={OTHER}"] == 52
    assert tasks["task=a?b?\\ud800"] == tasks[f"task={'x' * 200}"] == 1


def test_the_counts_of_several_processes_add_up() -> None:
    parent = Counts()
    for seconds in (0.2, 0.3):
        child = Counts()
        child.add("tenure_retries_total", "q", "t")
        child.observe("tenure_job_wait_seconds", "q", seconds=seconds)
        parent.merge(child.take())
    found = samples(parent.snapshot())
    assert found["tenure_retries_total", "queue=q", "task=t"] == 2
    assert found["tenure_job_wait_seconds_sum", "queue=q"] == pytest.approx(0.5)
    for key, numbers in ((("made up",), (1.0,)), (("tenure_retries_total", "q"), (1.0,))):
        with pytest.raises(ValueError, match="no metric"):
            parent.merge(Measured(((key, numbers),)))


def test_the_dashboard_and_the_alerts_use_each_metric_and_no_other() -> None:
    exprs = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    named = set(re.findall(r"\btenure_\w+", "\n".join([*exprs, ALERTS])))
    assert {re.sub("_bucket$", "", name) for name in named} == set(FAMILIES)
    assert DASHBOARD["uid"] == "tenure-queues"
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["datasource", "queue"]


def test_each_alert_has_a_section_of_the_page() -> None:
    names = re.findall(r"- alert: (\w+)", ALERTS)
    assert [f"#{name.lower()}" for name in names] == re.findall(r"prometheus\.html(#\w+)", ALERTS)
    assert re.findall(r"^### (Tenure\w+)$", HOWTO.read_text(), re.MULTILINE) == names
