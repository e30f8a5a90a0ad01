"""What a worker calls for a task of Django: the function with its context, the signals, and a result that is JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.utils import timezone

from tenure.core.errors import JobFailed
from tenure.core.job import ErrorInfo, Lease
from tenure.core.signals import Fail
from tenure.integrations.django.framework import (
    TaskContext,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from tenure.integrations.django.results import error_of, new_result, stored, time_of, update, workers
from tenure.runtime.jobs.job import Job, current_job, lease_of


class NotJson(Fail):
    """What a task returned is not JSON. It is not run again: it would do its work again, and return the same."""


_COPIED: Final = ("__module__", "__name__", "__qualname__", "__doc__")


def runner(task: Any, sender: type, alias: str) -> Callable[..., Any]:
    """Return the function that a worker calls for a task. `sender`: of its signals. `alias`: its backend."""
    function = task.func
    run: Callable[..., Any]
    if inspect.iscoroutinefunction(function):

        async def run(*args: Any, **kwargs: Any) -> Any:
            result = _running(task, alias, args, kwargs)
            await task_started.asend(sender=sender, task_result=result)
            return _stored(task, await function(*_with_context(task, result, args), **kwargs), args, kwargs)
    else:

        def run(*args: Any, **kwargs: Any) -> Any:
            result = _running(task, alias, args, kwargs)
            task_started.send(sender=sender, task_result=result)
            return _stored(task, function(*_with_context(task, result, args), **kwargs), args, kwargs)

    for name in _COPIED:
        setattr(run, name, getattr(function, name))
    setattr(run, "__signature__", _signature(function, task.takes_context))  # noqa: B010 - mypy knows no such name
    return run


def _signature(function: Callable[..., Any], takes_context: bool) -> inspect.Signature:
    """Return the parameters of a call. Without annotations: a task of Django gets plain JSON."""
    given = list(inspect.signature(function).parameters.values())[int(takes_context) :]
    return inspect.Signature([one.replace(annotation=one.empty) for one in given])


def _running(task: Any, alias: str, args: Any, kwargs: Any) -> Any:
    """Return the result of the job that runs here, as a task sees it in its context."""
    job = current_job()
    assert job is not None
    now = timezone.now()
    result = _result(job, task, alias, args, kwargs)
    update(result, status=TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now)
    return result


def _result(job: Job, task: Any, alias: str, args: Any, kwargs: Any) -> Any:
    lease: Lease = lease_of(job)
    result = new_result(task, f"{job.queue}:{job.id}", alias, args, kwargs)
    update(result, enqueued_at=time_of(lease.record.enqueued_ms), worker_ids=workers(job.attempt, lease.worker))
    return result


def _with_context(task: Any, result: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (TaskContext(task_result=result), *args) if task.takes_context else args


def _stored(task: Any, value: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    try:
        plain = normalize_json(value)
    except (TypeError, ValueError) as error:
        raise NotJson(f"{error}. {task.module_path} must return what JSON can hold.") from None
    return stored(plain, args, kwargs)


def ends(task: Any, sender: type, alias: str) -> dict[str, Callable[..., object]]:
    """Return the hooks that send `task_finished`, once for each job."""

    def completed(job: Job, content: Any) -> None:
        result = _result(job, task, alias, *_arguments(content))
        value = content["return_value"] if isinstance(content, dict) else None
        _finish(sender, result, status=TaskResultStatus.SUCCESSFUL, _return_value=value)

    def failed(job: Job, info: ErrorInfo) -> None:
        result = _result(job, task, alias, (), {})
        try:
            raise JobFailed("failed", info.type, info.message, id=job.id, task=job.task)
        except JobFailed:  # Django's receiver logs the exception that is handled where the signal is sent
            _finish(sender, result, status=TaskResultStatus.FAILED, errors=[error_of(info)])

    return {"on_success": completed, "on_failure": failed}


def _arguments(content: Any) -> tuple[Any, Any]:
    return (content["args"], content["kwargs"]) if isinstance(content, dict) else ((), {})


def _finish(sender: type, result: Any, **values: object) -> None:
    update(result, finished_at=timezone.now(), **values)
    task_finished.send(sender=sender, task_result=result)
