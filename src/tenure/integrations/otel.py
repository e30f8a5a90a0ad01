"""OpenTelemetry: a span and metrics for each enqueue and each call of a handler, by the conventions for messaging.

    from tenure.integrations.otel import instrument

    instrument(app)

Needs `pip install 'tenure[otel]'`, and an SDK that your program sets up.
"""

from __future__ import annotations

import os
import time
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opentelemetry import context as contexts
from opentelemetry import propagate, trace
from opentelemetry.metrics import Counter, get_meter
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from tenure._version import __version__
from tenure.app.instruments import Instrument, InstrumentedApp, TraceHeaders, is_cancellation
from tenure.core.signals import Fail, JobCancelled, RateLimited, Retry, Snooze
from tenure.redis.url import Target
from tenure.runtime.jobs.held import Stop
from tenure.runtime.jobs.job import run_of

if TYPE_CHECKING:
    from tenure.client.outgoing import Outgoing
    from tenure.runtime.handlers.middleware import CallNext
    from tenure.runtime.jobs.job import Job

# The conventions for messaging, which are still in development: so the names are here, without a package for them.
SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
OPERATION: Final = "messaging.operation"
"""The name until 1.25, which `OTEL_SEMCONV_STABILITY_OPT_IN=messaging/dup` adds."""
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
BATCH_COUNT: Final = "messaging.batch.message_count"
MESSAGE_ID: Final = "messaging.message.id"
ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
TASK: Final = "tenure.task"
LANE: Final = "tenure.lane"
ATTEMPT: Final = "tenure.attempt"

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
_NO_ERRORS: Final = (JobCancelled, RateLimited, Snooze)
"""Outcomes that a handler chooses, and that do not count as a failed attempt."""
TIMEOUT: Final = "Timeout"
"""The type of the error of a job that was ended by its timeout."""
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The bounds that the conventions name, in seconds."""
_LINKS_MAX: Final = 128
"""The most links of a span that SDKs keep."""
Attributes: TypeAlias = dict[str, Any]


def instrument(app: InstrumentedApp, *, process_parent: bool = False, redis_calls: bool = False) -> None:
    """Trace and count the enqueues and the jobs of an app. A second call changes nothing.

        instrument(app, process_parent=True)

    `process_parent`: the span of a job is a child of the span of its enqueue. By default it begins a trace of its own,
    with a link to it. A batch has links in any case. `redis_calls`: the workers' calls to Redis that claim and settle
    jobs have spans, too. A call is for many jobs, so each begins a trace.
    """
    calls = _RedisCalls(app) if redis_calls else None
    app.instruments.add(Instrument("otel", _Handlers(app, process_parent), _Enqueues(app), calls))


class _Names:
    """What all spans and metrics of an app have in common."""

    def __init__(self, app: InstrumentedApp, name: str, type: str, old: str) -> None:
        target = Target.parse(app.settings.url)
        address = (target.seeds or target.sentinels or ((target.host, target.port),))[0]
        self.server: Attributes = {SERVER_ADDRESS: address[0], SERVER_PORT: address[1]} if address[0] else {}
        if target.scheme == "unix":
            self.server = {SERVER_ADDRESS: target.path}
        self.metric: Attributes = {SYSTEM: "tenure", OPERATION_NAME: name} | self.server
        self.span: Attributes = self.metric | {OPERATION_TYPE: type}
        if "messaging/dup" in [one.strip() for one in os.environ.get(OPT_IN, "").split(",")]:
            self.span[OPERATION] = old
        self.tracer = trace.get_tracer("tenure", __version__, schema_url=SCHEMA)
        self.meter = get_meter("tenure", __version__, schema_url=SCHEMA)

    def counter(self, name: str, description: str) -> Counter:
        return self.meter.create_counter(name, "{message}", description)


class _Enqueues:
    """A producer span around each enqueue. The headers of the jobs carry its context."""

    def __init__(self, app: InstrumentedApp) -> None:
        self._names = _Names(app, "enqueue", "send", "publish")
        self._headers = TraceHeaders(app.engine)
        self._sent = self._names.counter("messaging.client.sent.messages", "Jobs that were enqueued.")

    @contextmanager
    def __call__(self, jobs: Sequence[Outgoing]) -> Iterator[None]:
        queue, error_type = jobs[0].queue, ""
        about = self._names.span | _of_jobs(jobs)
        # Not the current span: the caller's task may run other code before Redis replies.
        span = self._names.tracer.start_span(f"enqueue {queue}", kind=SpanKind.PRODUCER, attributes=about)
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        self._headers.add(jobs, carrier)
        try:
            yield
        except BaseException as error:
            error_type = _failed(span, error)
            raise
        finally:
            span.end()
            self._sent.add(len(jobs), self._names.metric | {DESTINATION: queue} | _error(error_type))


class _Handlers:
    """Async middleware: a consumer span around each call of a handler."""

    def __init__(self, app: InstrumentedApp, process_parent: bool) -> None:
        self._names = _Names(app, "process", "process", "process")
        self._is_child = process_parent
        self._consumed = self._names.counter("messaging.client.consumed.messages", "Jobs that handlers got.")
        self._duration = self._names.meter.create_histogram(
            "messaging.process.duration", "s", "How long handlers ran.", explicit_bucket_boundaries_advisory=_BUCKETS
        )

    async def __call__(self, jobs: Sequence[Job], call_next: CallNext) -> object:
        queue = jobs[0].queue
        metric = self._names.metric | {DESTINATION: queue}
        self._consumed.add(len(jobs), metric)
        before, links = self._before(jobs)
        about = self._names.span | _of_jobs(jobs) | _of_attempt(jobs)
        span = self._names.tracer.start_span(
            f"process {queue}", before, SpanKind.CONSUMER, attributes=about, links=links
        )
        token = contexts.attach(trace.set_span_in_context(span, before))
        began_at, error_type = time.perf_counter(), ""
        try:
            result = await call_next()
            if isinstance(result, Fail | Retry):  # as if it was raised
                error_type = _failed(span, result)
            return result
        except _NO_ERRORS:
            raise
        except BaseException as error:
            if not is_cancellation(error, jobs):
                is_timeout = isinstance(error, CancelledError) and run_of(jobs[0]).stop is Stop.TIMEOUT
                error_type = _failed(span, error, TIMEOUT if is_timeout else None)
            raise
        finally:
            contexts.detach(token)
            span.end()
            self._duration.record(time.perf_counter() - began_at, metric | _error(error_type))

    def _before(self, jobs: Sequence[Job]) -> tuple[contexts.Context, list[Link]]:
        """The context of the span, and its links. The baggage comes from the first job."""
        sent = [propagate.extract(job.headers, contexts.Context()) for job in jobs[:_LINKS_MAX]]
        if self._is_child and len(jobs) == 1:
            return sent[0], []
        found = (trace.get_current_span(context).get_span_context() for context in sent)
        links = {one.span_id: Link(one) for one in found if one.is_valid}  # jobs of one enqueue have one span
        return trace.set_span_in_context(trace.INVALID_SPAN, sent[0]), list(links.values())


class _RedisCalls:
    """A client span for each call that claims or settles jobs, made after its reply."""

    def __init__(self, app: InstrumentedApp) -> None:
        self._names = {
            "claim": _Names(app, "claim", "receive", "receive"),
            "settle": _Names(app, "settle", "settle", "settle"),
        }

    def __call__(self, script: str, seconds: float) -> None:
        name = script.partition("_")[0]  # claim_full and settle_full do the same for queues with more features
        if name in self._names:
            names, ended_ns = self._names[name], time.time_ns()
            began_ns = ended_ns - round(seconds * 1e9)
            nothing = contexts.Context()
            names.tracer.start_span(name, nothing, SpanKind.CLIENT, names.span, start_time=began_ns).end(ended_ns)


def _of_jobs(jobs: Sequence[Job] | Sequence[Outgoing]) -> Attributes:
    about: Attributes = {DESTINATION: jobs[0].queue}
    if len(jobs) > 1:
        about[BATCH_COUNT] = len(jobs)
    else:
        about[MESSAGE_ID] = jobs[0].id
        about |= {} if jobs[0].lane is None else {LANE: jobs[0].lane}
    return about if jobs[0].task is None else about | {TASK: jobs[0].task}


def _of_attempt(jobs: Sequence[Job]) -> Attributes:
    if len(jobs) > 1:
        return {}
    partition = run_of(jobs[0]).members[0].lease.partition
    about: Attributes = {ATTEMPT: jobs[0].attempt}
    return about | {PARTITION: str(partition)} if partition else about


def _failed(span: Span, error: BaseException, name: str | None = None) -> str:
    """Note an error on the span. Return its type, or the name."""
    if name is None:
        name = type(error).__qualname__
        if type(error).__module__ not in ("builtins", "tenure.core.signals"):
            name = f"{type(error).__module__}.{name}"
    span.set_attribute(ERROR_TYPE, name)
    span.set_status(Status(StatusCode.ERROR))
    span.record_exception(error)
    return name


def _error(type: str) -> Attributes:
    return {ERROR_TYPE: type} if type else {}
