"""Sentry: errors of handlers with their job, spans of enqueues and jobs in one trace, check-ins of schedules.

    import sentry_sdk
    from tenure.integrations.sentry import TenureIntegration

    sentry_sdk.init(integrations=[TenureIntegration()])

For sentry-sdk 2 and 3.
"""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import sentry_sdk
from sentry_sdk.crons import capture_checkin
from sentry_sdk.integrations import Integration
from sentry_sdk.integrations import logging as sentry_logging

from tenure.app.instruments import Instrument, InstrumentedApp, TraceHeaders, instrument_all, is_cancellation
from tenure.core import limits
from tenure.core.schedules.schedule import ScheduleSpec
from tenure.core.signals import Fail, JobCancelled, RateLimited, Retry, Snooze
from tenure.runtime.jobs.job import run_of
from tenure.runtime.observe.latency import enqueued_ms

if TYPE_CHECKING:
    from tenure.client.outgoing import Outgoing
    from tenure.runtime.handlers.middleware import CallNext
    from tenure.runtime.jobs.job import Job

ORIGIN: Final = "auto.queue.tenure"
_IS_SDK_2: Final = hasattr(sentry_sdk, "start_transaction")
_FAILURES: Final = (Fail, Retry)
"""Outcomes that a handler chooses, and that count as a failed attempt."""
_NO_FAILURES: Final = (JobCancelled, RateLimited, Snooze)
"""The others, with which the span of a job is no failed one."""
_UNITS: Final = {"day": limits.DAY, "hour": limits.HOUR, "minute": limits.MINUTE}
"""The intervals that Sentry knows, in milliseconds."""


class TenureIntegration(Integration):
    """Instruments every app of the process. `cron_checkins`: jobs of schedules in code check in with Sentry Crons."""

    identifier = "tenure"

    def __init__(self, cron_checkins: bool = False) -> None:
        self.cron_checkins = cron_checkins

    @staticmethod
    def setup_once() -> None:
        # The worker logs each error too, and the SDK would report the line.
        ignore: Any = getattr(sentry_logging, "ignore_logger_for_events", None) or sentry_logging.ignore_logger
        ignore("tenure.worker")
        instrument_all(lambda app: Instrument("sentry", _Handlers(app), _Enqueues(app)))


def _integration() -> TenureIntegration | None:
    return sentry_sdk.get_client().get_integration(TenureIntegration)


class _Enqueues:
    """A span around an enqueue, if there is one around the caller. Its trace goes into the headers of the jobs."""

    def __init__(self, app: InstrumentedApp) -> None:
        self._headers = TraceHeaders(app.engine)

    @contextmanager
    def __call__(self, jobs: Sequence[Outgoing]) -> Iterator[None]:
        if _integration() is None:
            yield
            return
        about: dict[str, Any] = _batch(jobs) | {"messaging.message.body.size": sum(len(job.payload) for job in jobs)}
        with _span("queue.publish", jobs[0].queue, about):
            trace = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
            self._headers.add(jobs, {name: value for name, value in trace.items() if value})
            yield


class _Handlers:
    """Async middleware: a transaction around each call of a handler, with its errors."""

    def __init__(self, app: InstrumentedApp) -> None:
        self._app = app

    async def __call__(self, jobs: Sequence[Job], call_next: CallNext) -> object:
        integration = _integration()
        if integration is None:
            return await call_next()
        job = jobs[0]
        name = job.task or job.queue
        with sentry_sdk.isolation_scope() as scope:
            scope.set_transaction_name(name, source="task")
            scope.set_tag("queue", job.queue)
            scope.set_context("job", {"id": job.id, "attempt": job.attempt, "task": job.task, "lane": job.lane})
            returned: object = None
            put_off: BaseException | None = None
            try:
                with _transaction(job.headers, name, _batch(jobs) | _about(job)), self._checking_in(integration, job):
                    try:
                        returned = await call_next()
                        if isinstance(returned, _FAILURES):  # as if it was raised
                            raise returned
                    except _NO_FAILURES as outcome:
                        put_off = outcome
                    except CancelledError as error:
                        if not is_cancellation(error, jobs):
                            raise
                        put_off = error
                    except Exception as error:
                        if not isinstance(error, _FAILURES):
                            sentry_sdk.capture_exception(error)
                        raise
            except _FAILURES as failure:
                if failure is not returned:
                    raise
                return failure.with_traceback(None)
            if put_off is not None:
                raise put_off
            return returned

    @contextmanager
    def _checking_in(self, integration: TenureIntegration, job: Job) -> Iterator[None]:
        spec = self._schedule_of(job) if integration.cron_checkins else None
        config = None if spec is None else _monitor(spec)
        if spec is None or config is None:
            yield
            return
        began_at, status = time.monotonic(), "error"
        id = capture_checkin(spec.name, status="in_progress", monitor_config=config)
        try:
            yield
            status = "ok"
        finally:
            capture_checkin(spec.name, id, status, time.monotonic() - began_at, config)

    def _schedule_of(self, job: Job) -> ScheduleSpec | None:
        """The schedule in code that has made the job: of several of its task the one with its arguments."""
        task = self._app.tasks.get(job.task or "")
        if task is None or job.scheduled_for is None:
            return None
        return next((spec for spec in task.scheduled("") if spec.payload == job.payload), None)


def _monitor(spec: ScheduleSpec) -> Any:
    """What Sentry has to know of a schedule; None: it cannot have such schedules."""
    if len(spec.cron.split()) == 5:
        return {"schedule": {"type": "crontab", "value": spec.cron}, "timezone": spec.tz}
    unit = next((unit for unit, ms in _UNITS.items() if spec.every_ms and spec.every_ms % ms == 0), None)
    if unit is None:
        return None
    return {"schedule": {"type": "interval", "value": spec.every_ms // _UNITS[unit], "unit": unit}}


def _batch(jobs: Sequence[Job | Outgoing]) -> dict[str, Any]:
    about: dict[str, Any] = {"messaging.system": "tenure", "messaging.destination.name": jobs[0].queue}
    if len(jobs) == 1:
        return about | {"messaging.message.id": jobs[0].id}
    return about | {"messaging.batch.message_count": len(jobs)}


def _about(job: Job) -> dict[str, Any]:
    run = run_of(job)
    lease = run.members[0].lease
    about: dict[str, Any] = {
        "messaging.message.body.size": len(job.payload),
        "messaging.message.retry.count": job.attempt - 1,
    }
    if (since_ms := enqueued_ms(lease)) is not None:
        about["messaging.message.receive.latency"] = max(0.0, time.time() * limits.SECOND - since_ms)
    return about


# ------------------------------------------------------------------------------------------------ the SDK, 2 and 3


@contextmanager
def _span(op: str, name: str, about: Mapping[str, Any]) -> Iterator[None]:
    """A span below the current one. Without one there is no trace to add it to."""
    if sentry_sdk.get_current_span() is None:
        yield
    elif _IS_SDK_2:
        with sentry_sdk.start_span(op=op, name=name, origin=ORIGIN) as span:
            for key, value in about.items():
                span.set_data(key, value)
            yield
    else:
        attributes = {"sentry.op": op, "sentry.origin": ORIGIN, **about}
        with sentry_sdk.start_span(name=name, attributes=attributes):
            yield


def _transaction(headers: Mapping[str, str], name: str, about: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """The root of the spans of a job, in the trace of its producer."""
    sdk: Any = sentry_sdk
    if not _IS_SDK_2:
        sdk.continue_trace(dict(headers))
        attributes = {"sentry.op": "queue.process", "sentry.origin": ORIGIN, **about}
        attributes["sentry.segment.name.source"] = "task"
        return sdk.start_span(name=name, attributes=attributes, parent_span=None)  # type: ignore[no-any-return]
    trace = sdk.continue_trace(dict(headers), op="queue.process", name=name, source="task", origin=ORIGIN)
    started = sdk.start_transaction(trace)
    for key, value in about.items():
        started.set_data(key, value)
    return started  # type: ignore[no-any-return]
