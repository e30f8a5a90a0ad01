"""What OpenTelemetry gets: spans of enqueues and jobs, what their headers carry, and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from opentelemetry import baggage, context, metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tenure import Fail, Job, QueueFull, RedisWorkQueue, Snooze, Tenure, chain, current_job, group
from tenure.integrations.otel import instrument
from tenure.testing import Drained

Spans = Callable[[], dict[str, list[ReadableSpan]]]


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """Of the provider of this process, which can be set once."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture(scope="module")
def reader() -> InMemoryMetricReader:
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
    return reader


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Spans:
    """The spans that have ended, by name."""
    exporter.clear()

    def spans() -> dict[str, list[ReadableSpan]]:
        found: dict[str, list[ReadableSpan]] = {}
        for span in exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found

    return spans


@pytest.fixture
def app(redis_url: str) -> Iterator[Tenure]:
    with Tenure(redis_url) as app:
        yield app


def id_of(context: trace.SpanContext | None) -> tuple[int, int] | None:
    return None if context is None else (context.trace_id, context.span_id)


def inner(name: str) -> trace.Span:
    with trace.get_tracer("test").start_as_current_span(name) as span:
        return span


def test_a_job_is_linked_to_its_enqueue_and_its_handler_is_in_its_span(app: Tenure, spans: Spans) -> None:
    seen: list[Any] = []

    @app.task(name="shop.send")
    def in_thread(number: int) -> None:
        seen.append(baggage.get_baggage("tenant"))
        inner("sql")

    @app.task(name="shop.get")
    async def on_loop() -> None:
        inner("http")

    instrument(app)
    instrument(app)  # changes nothing
    token = context.attach(baggage.set_baggage("tenant", "7"))
    with trace.get_tracer("test").start_as_current_span("checkout"):
        job = in_thread.using(lane="ada").enqueue(1)
        asyncio.run(on_loop.aenqueue())
    context.detach(token)
    assert app.testing().drain() == Drained(completed=2)
    found = spans()
    (web,), *both = found["checkout"], found["enqueue default"], found["process default"]
    sent, done = (
        sorted(one, key=lambda span: str((span.attributes or {})["tenure.task"]), reverse=True) for one in both
    )
    assert [one.kind for one in (*sent, *done)] == [SpanKind.PRODUCER] * 2 + [SpanKind.CONSUMER] * 2
    assert {one.parent.span_id for one in sent if one.parent} == {web.context.span_id}
    assert [[link.context.span_id for link in one.links] for one in done] == [[one.context.span_id] for one in sent]
    assert [one.parent for one in done] == [None, None]
    assert [id_of(found[name][0].parent) for name in ("sql", "http")] == [id_of(one.context) for one in done]
    assert seen == ["7"]
    about: dict[str, Any] = {
        "messaging.system": "tenure",
        "messaging.destination.name": "default",
        "messaging.message.id": job.id,
        "server.address": app.settings.url.removeprefix("unix://"),
        "tenure.task": "shop.send",
        "tenure.lane": "ada",
    }
    operation = ("messaging.operation.name", "messaging.operation.type")
    assert dict(sent[0].attributes or {}) == about | dict(zip(operation, ("enqueue", "send"), strict=True))
    process = dict(zip(operation, ("process", "process"), strict=True))
    assert dict(done[0].attributes or {}) == about | process | {"tenure.attempt": 1}


def test_many_jobs_have_one_span_and_each_carries_it(
    app: Tenure, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, messaging/dup")

    @app.handler("events", batch=10)
    async def store(jobs: list[Job]) -> None: ...

    instrument(app, process_parent=True)
    app.queue("events").enqueue_many([b"a", b"b"])
    app.queue("events").enqueue(b"c")
    app.testing().drain()
    (many, single), (batch,) = spans()["enqueue events"], spans()["process events"]
    assert (many.attributes or {})["messaging.batch.message_count"] == 2
    assert (batch.attributes or {})["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in (batch.attributes or {})
    assert [id_of(link.context) for link in batch.links] == [id_of(many.context), id_of(single.context)]
    assert [(one.attributes or {})["messaging.operation"] for one in (many, batch)] == ["publish", "process"]


def test_members_of_a_group_are_counted_once_by_queue_and_linked_to_their_enqueue(
    app: Tenure, spans: Spans, reader: InMemoryMetricReader
) -> None:
    @app.task(name="shop.resize", queue="group-images")
    def resize(number: int) -> None: ...

    @app.task(name="shop.mail", queue="group-mails")
    def mail() -> None: ...

    instrument(app)
    group([resize.call(1), mail.call(), resize.call(2)]).enqueue(on_success=mail.call())
    with app.open_group("group-mails") as opened:
        opened.add(mail.call())
    assert app.testing().drain() == Drained(completed=5)
    found = spans()
    (images,) = found["enqueue group-images"]
    assert (images.attributes or {})["messaging.batch.message_count"] == 2
    assert [one.links[0].context.span_id for one in found["process group-images"]] == [images.context.span_id] * 2
    enqueued = {(one.attributes or {})["messaging.message.id"]: one for one in found["enqueue group-mails"]}
    done = {(one.attributes or {})["messaging.message.id"]: one for one in found["process group-mails"]}
    assert enqueued.keys() == done.keys()
    assert {id: one.links[0].context.span_id for id, one in done.items()} == {
        id: one.context.span_id for id, one in enqueued.items()
    }
    sent = [points(reader, queue)["messaging.client.sent.messages", None] for queue in ("group-images", "group-mails")]
    assert sent == [2, 3]


def test_the_elements_of_a_chain_have_one_span(app: Tenure, spans: Spans, reader: InMemoryMetricReader) -> None:
    @app.task(name="shop.fetch", queue="chain")
    def fetch() -> str:
        return "page"

    @app.task(name="shop.parse", queue="chain")
    def parse(page: str) -> None: ...

    instrument(app)
    chain(fetch.call(), parse).enqueue()
    assert app.testing().drain() == Drained(completed=2)
    (enqueued,), processed = spans()["enqueue chain"], spans()["process chain"]
    assert (enqueued.attributes or {})["messaging.batch.message_count"] == 2
    assert [one.links[0].context.span_id for one in processed] == [enqueued.context.span_id] * 2
    assert points(reader, "chain")["messaging.client.sent.messages", None] == 2


def test_a_job_can_be_a_child_of_its_enqueue(app: Tenure, spans: Spans) -> None:
    @app.task(name="shop.send")
    def send() -> None: ...

    instrument(app, process_parent=True)
    send.enqueue()
    app.testing().drain()
    (sent,), (done,) = spans()["enqueue default"], spans()["process default"]
    assert id_of(done.parent) == id_of(sent.context)
    assert done.context.trace_id == sent.context.trace_id


def test_claims_and_settlements_have_spans_if_asked_for(app: Tenure, spans: Spans) -> None:
    @app.task(name="shop.send")
    def send() -> None: ...

    instrument(app, redis_calls=True)
    send.enqueue()
    app.run_worker(burst=True)
    found = spans()
    calls = [*found["claim"], *found["settle"]]
    assert {(one.kind, one.parent) for one in calls} == {(SpanKind.CLIENT, None)}
    types = {(one.attributes or {})["messaging.operation.type"] for one in calls}
    assert types == {"receive", "settle"}


def test_errors_have_their_type_and_chosen_outcomes_only_if_they_count(
    app: Tenure, spans: Spans, reader: InMemoryMetricReader
) -> None:
    @app.task(name="shop.run", queue="errors", retries=0)
    def run(how: str) -> object:
        if how == "raises":
            raise ConnectionError("no")
        if how == "snoozes":
            raise Snooze(60)
        return Fail("no") if how == "fails" else None

    instrument(app)
    for how in ("raises", "snoozes", "fails", "returns"):
        run.enqueue(how)
    app.testing().drain(raises=False)
    done = spans()["process errors"]
    errors = [(one.attributes or {}).get("error.type") for one in done]
    assert errors == ["ConnectionError", None, "Fail", None]
    assert [one.status.status_code is StatusCode.ERROR for one in done] == [True, False, True, False]
    app.control.configure("errors", max_length=1)
    with pytest.raises(QueueFull):
        run.enqueue_many([run.call("a"), run.call("b")])
    full = spans()["enqueue errors"][-1]
    assert (full.attributes or {})["error.type"] == "tenure.core.errors.QueueFull"
    found = points(reader, "errors")
    assert found["messaging.client.sent.messages", None] == 4
    assert found["messaging.client.sent.messages", "tenure.core.errors.QueueFull"] == 2
    assert found["messaging.client.consumed.messages", None] == 4
    assert found["messaging.process.duration", None] == 2
    assert found["messaging.process.duration", "ConnectionError"] == 1


def test_a_cancelled_job_is_no_error_and_a_timeout_has_the_type_that_its_job_has(app: Tenure, spans: Spans) -> None:
    @app.task(name="shop.wait", queue="ended", retries=0, timeout=0.5)
    async def wait(cancels: bool) -> None:
        job = current_job()
        assert job is not None
        if cancels:
            await app.control.acancel(job.queue, job.id)
        await asyncio.Event().wait()

    instrument(app)
    ids = {wait.using(timeout=60).enqueue(True).id: None, wait.enqueue(False).id: "Timeout"}
    app.run_worker(burst=True)
    done = [one.attributes or {} for one in spans()["process ended"]]
    assert {one["messaging.message.id"]: one.get("error.type") for one in done} == ids


def points(reader: InMemoryMetricReader, queue: str) -> dict[tuple[str, Any], Any]:
    """The numbers of the points of a queue, or how many times they count, by metric and type of error."""
    data = reader.get_metrics_data()
    assert data is not None
    found = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            attributes = point.attributes or {}
            if attributes["messaging.destination.name"] == queue:
                number = getattr(point, "count", None) or getattr(point, "value", None)
                found[metric.name, attributes.get("error.type")] = number
    return found


def test_a_raw_payload_of_another_format_is_unchanged(redis_url: str, spans: Spans) -> None:
    with Tenure(redis_url, protocol=RedisWorkQueue(prefix="jobs")) as app, redis.Redis.from_url(redis_url) as client:
        instrument(app)
        app.queue("jobs").enqueue(b"for a program in Rust")
        assert b"for a program in Rust" in client.mget(client.keys("*:item:*"))
    assert len(spans()["enqueue jobs"]) == 1
