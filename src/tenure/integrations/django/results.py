"""What Django shows of a job: its `TaskResult`, made of the record in Redis."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings
from django.utils import timezone
from msgspec import UNSET

import tenure
from tenure.client.call import as_arguments
from tenure.core import limits
from tenure.core.encoding.codec import decode_json, note_of
from tenure.core.job import ErrorInfo, JobView, State
from tenure.core.values import replace
from tenure.integrations.django.framework import InvalidTask, TaskError, TaskResult, TaskResultStatus

UNKNOWN_WORKER: Final = "unknown"
"""Stands for the worker of an earlier attempt: Redis keeps the name of the last one."""
_STATUSES: Final = {
    State.ACTIVE: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.BROKEN: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
"""All other states are READY: the job waits, perhaps for another attempt."""
_CANCELLED: Final = "tenure.JobCancelled"
_NOT_JSON: Final = "tenure.integrations.django.runner.NotJson"
_CLASSES: Final = {
    "Timeout": "builtins.TimeoutError",
    "Expired": _CANCELLED,
    "Cancelled": _CANCELLED,
    _NOT_JSON: "builtins.TypeError",
}
"""The classes for types of errors that no code raises."""
_VALUE, _ARGS, _KWARGS = "return_value", "args", "kwargs"


def stored(value: object, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
    """Return what a job keeps as its result: the record of a completed job has no payload."""
    return {_VALUE: value, _ARGS: args, _KWARGS: kwargs}


def time_of(ms: int | None) -> datetime | None:
    """Return a time as Django has it: aware, or naive in the current time zone without USE_TZ."""
    if ms is None:
        return None
    at = datetime.fromtimestamp(ms / limits.SECOND, UTC)
    return at if settings.USE_TZ else timezone.make_naive(at)


def new_result(task: Any, id: str, alias: str, args: Sequence[object], kwargs: Mapping[str, object]) -> Any:
    """Return the result of a job that waits. Raises `TypeError` and `ValueError` for arguments that are not JSON."""
    return TaskResult(
        task=task,
        id=id,
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def update(result: Any, **values: object) -> None:
    """Set fields of a result, which Django has frozen."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def workers(attempts: int, last: str | None) -> list[str]:
    """Return an id for each attempt; `last` is known."""
    return [UNKNOWN_WORKER] * (attempts - 1) + [last or UNKNOWN_WORKER] if attempts > 0 else []


def error_of(info: ErrorInfo) -> Any:
    """Return an error with the path of its class."""
    path = info.type
    if path in _CLASSES:
        path = _CLASSES[path]
    elif "." not in path:
        path = next((f"{one.__name__}.{path}" for one in (builtins, tenure) if hasattr(one, path)), "tenure.JobFailed")
    text = info.traceback or f"{info.type}: {info.message}"
    return TaskError(
        exception_class_path=path,
        traceback=f"Traceback (most recent call last):\n{text}\n" if text.startswith(" ") else f"{text}\n",
    )


def result_of(view: JobView, task: Any, alias: str) -> Any:
    """Return the result of a job as it is in Redis."""
    value: Any = UNSET
    args: Any = ()
    kwargs: Any = {}
    if view.payload is not None:
        args, kwargs = as_arguments(view.payload)
    errors = [error_of(one) for one in (*reversed(view.earlier_errors), *([view.error] if view.error else []))]
    status = _STATUSES.get(view.state, TaskResultStatus.READY)
    if view.state is State.COMPLETED and view.result:
        content = decode_json(view.result)
        reason = note_of(content)
        if reason is not None:
            status = TaskResultStatus.FAILED
            errors = [error_of(ErrorInfo("ResultError", f"The result could not be stored: {reason}"))]
        elif isinstance(content, dict) and content.keys() == {_VALUE, _ARGS, _KWARGS}:
            args, kwargs, value = content[_ARGS], content[_KWARGS], content[_VALUE]
    if (task.queue_name, task.priority) != (view.queue, view.shape.priority):
        with suppress(InvalidTask):  # the backend has this queue no more
            task = replace(task, queue_name=view.queue, priority=view.shape.priority)
    result = new_result(task, f"{view.queue}:{view.id}", alias, args, kwargs)
    attempts = view.failures + view.crashes + (view.state in (State.ACTIVE, State.COMPLETED))
    started = time_of(view.started_ms)
    update(
        result,
        status=status,
        enqueued_at=time_of(view.enqueued_ms),
        started_at=started,
        last_attempted_at=started,
        finished_at=time_of(view.ended_ms) if view.state.ended else None,
        errors=errors,
        worker_ids=workers(attempts, view.worker),
    )
    if value is not UNSET:
        update(result, _return_value=value)
    return result
