"""Calls that follow a job: what is refused, and where."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenure import InvalidArgument, PayloadTooLarge, Tenure, UnsupportedFeature, chain, group, then
from tenure.core.engine import Feature
from tenure.core.job import JobRecord, Lease
from tenure.core.outcome import Completed
from tenure.core.shape import Shape
from tenure.runtime.jobs.held import Held
from tenure.runtime.jobs.job import Job
from tenure.runtime.jobs.members import MAX_FOLLOW_BYTES
from tenure.runtime.jobs.outcomes import outcome_of_return


def report(day: str) -> None: ...


def running(app: Tenure, persistent: bool = False) -> tuple[Job, Held]:
    """A job of the app as its handler sees it."""
    (spec, *_) = app.specs()
    record = JobRecord("1", "q", b"[[],{}]", 0, task=spec.name, shape=Shape(persistent=persistent))
    held = Held(Lease("w", 1, record, 0, 0), ("q", "1", 1), spec, 0.0)
    held.persistent = persistent
    return Job(held, services=None), held  # type: ignore[arg-type]


def test_the_outcome_of_the_attempt_has_the_jobs(app: Any) -> None:
    task = app.task(report, result_ttl=0)
    job, held = running(app)
    job.then(task.call("monday"), task.using(queue="slow", delay=5, lane="L").call("friday"))
    job.then(task.call("sunday"))
    outcome = outcome_of_return(held, None, lambda: 0.5)
    assert isinstance(outcome, Completed)
    assert [(one.queue, one.payload, one.delay_ms, one.shape.lane) for one in outcome.follow] == [
        ("default", b'[["monday"],{}]', 0, None),
        ("slow", b'[["friday"],{}]', 5_000, "L"),
        ("default", b'[["sunday"],{}]', 0, None),
    ]


def test_flows_travel_with_the_outcome_from_a_job_process(app: Any) -> None:
    task = app.task(report, result_ttl=0)
    job, held = running(app)
    job.then(chain(task.call("monday"), group([task.using(lane="L").call("friday")]), task.call("sunday")))
    outcome = outcome_of_return(held, None, lambda: 0.5)
    assert isinstance(outcome, Completed)
    assert [(one.payload, one.shape.lane) for one in outcome.jobs_after()] == [
        (b'[["monday"],{}]', None),
        (b'[["friday"],{}]', "L"),
        (b'[["sunday"],{}]', None),
    ]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(outcome), type=Completed) == outcome


def test_enqueue_middleware_sees_them(app: Any) -> None:
    task = app.task(report)
    app.enqueue_middleware(lambda job: job.headers.update(tenant="7"))
    job, held = running(app)
    job.then(task.call("monday"))
    assert held.follow[0].headers == {"tenant": "7"}


def test_refused(app: Any) -> None:
    task = app.task(report)
    stranger = Tenure("redis://127.0.0.1:1").task(name="stranger")(lambda: None)
    job, held = running(app)
    cases: list[tuple[Any, str]] = [
        (report, r"then must be a call of a task, as in report.call\(...\)"),
        (task, "then must be a call of a task"),
        (stranger.call(), "then must be a call of a task of this app, got a call of stranger"),
        (task.using(durable=1).call("monday"), "durable cannot be set"),
    ]
    for call, error in cases:
        with pytest.raises(InvalidArgument, match=error):
            job.then(call)
    with pytest.raises(PayloadTooLarge):
        job.then(task.call("x" * app.settings.payload_limit))
    with pytest.raises(InvalidArgument, match="at most 1,000 follow-up jobs"):
        job.then(*[task.call("monday")] * 1_001)
    with pytest.raises(InvalidArgument, match="bytes of payloads"):
        job.then(*[task.call("x" * (MAX_FOLLOW_BYTES // 2))] * 3)
    with pytest.raises(InvalidArgument, match="on_failed must be a call of a task of this app"):
        task.using(on_failed=stranger.call()).enqueue("monday")
    with pytest.raises(InvalidArgument, match="on_failed must be a call of a task"):
        task.using(on_failed=report)
    with pytest.raises(InvalidArgument, match="on_failed must be at most 8,192 bytes"):
        task.using(on_failed=task.call("x" * 9_000)).enqueue("monday")
    assert (held.follow, held.flows) == ((), ())
    with pytest.raises(InvalidArgument, match="Write a task that enqueues the chain"):
        app._client.follow_up(chain(task.call("monday"), task.call("sunday")), "call")


def test_nothing_follows_a_persistent_job_or_code_outside_of_jobs(app: Any) -> None:
    task = app.task(report)
    job, _ = running(app, persistent=True)
    with pytest.raises(InvalidArgument, match="never completes"):
        job.then(task.call("monday"))
    with pytest.raises(InvalidArgument, match="for the handlers of jobs"):
        then(task.call("monday"))


def test_a_format_without_them_refuses(app: Any, engine: Any) -> None:
    task = app.task(report)
    engine.features -= {Feature.FLOWS}
    job, _ = running(app)
    with pytest.raises(UnsupportedFeature, match="follow-up jobs"):
        job.then(task.call("monday"))
    with pytest.raises(UnsupportedFeature, match="follow-up jobs"):
        task.using(on_failed=task.call("monday")).enqueue("monday")
    with pytest.raises(UnsupportedFeature, match="follow-up jobs"):
        task.job("1").then(task.call("monday"))
