"""The backend for Django's tasks: `TASKS = {"default": {"BACKEND": "tenure.integrations.django.TenureBackend"}}`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.core.checks import CheckMessage
from django.utils import timezone

from tenure.app.tasks import Task as BoundTask
from tenure.client.call import TaskCall
from tenure.client.handle import JobHandle
from tenure.core.errors import InvalidArgument, NotConfigured, UnsupportedFeature, invalid
from tenure.core.job import JobView
from tenure.integrations.django import registry
from tenure.integrations.django.framework import (
    BaseTaskBackend,
    InvalidTask,
    InvalidTaskBackend,
    TaskResultDoesNotExist,
    normalize_json,
    task_enqueued,
)
from tenure.integrations.django.options import OF_JOB, TenureTask, given
from tenure.integrations.django.project import DjangoApp
from tenure.integrations.django.results import new_result, result_of, update
from tenure.integrations.django.runner import ends, runner

SEPARATOR: Final = ":"
"""Between queue and id in the id of a result. The ids that Tenure draws have letters and digits."""


class TenureBackend(BaseTaskBackend):
    """Enqueues the tasks of Django as jobs of Tenure, and reads their results.

        TASKS = {
            "default": {
                "BACKEND": "tenure.integrations.django.TenureBackend",
                "QUEUES": ["default", "mails"],
                "OPTIONS": {"url": "redis://redis.example.org/0", "retries": 5},
            }
        }

    `OPTIONS`: the arguments of `Tenure` and of `TaskDefaults`. Without any, the app of the setting `TENURE` is used.
    """

    task_class = TenureTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def app(self) -> DjangoApp:
        """The app that has the jobs. Raises `InvalidTaskBackend` for settings that cannot be used."""
        try:
            return registry.app_of(self.alias, self.options)
        except (InvalidArgument, NotConfigured) as error:
            raise InvalidTaskBackend(str(error)) from None

    def validate_task(self, task: Any) -> None:
        """Check a task when it is defined, and when it is enqueued. Raises `InvalidTask`."""
        super().validate_task(task)
        kept = registry.note(task, self._run_by)
        try:
            app = self.app
        except InvalidTaskBackend:
            return  # `manage.py check` shows it, and so does the enqueue: modules with tasks can be imported
        try:
            _with_options(registry.bind(app, kept), task)
        except (InvalidArgument, UnsupportedFeature) as error:
            if kept is task:
                registry.forget(task)
            raise InvalidTask(str(error)) from None

    def _run_by(self, task: Any) -> registry.RunBy:
        return runner(task, type(self), self.alias), ends(task, type(self), self.alias)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue a call of a task. Raises as `tenure.Task.enqueue` does, and `TypeError` for what JSON cannot hold."""
        bound, args, kwargs = self._call(task, args, kwargs)
        handle = bound.enqueue(*args, **kwargs)
        result = self._result(task, handle, args, kwargs)
        if handle.created:
            task_enqueued.send(sender=type(self), task_result=result)
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Async version of `enqueue`."""
        bound, args, kwargs = self._call(task, args, kwargs)
        handle = await bound.aenqueue(*args, **kwargs)
        result = self._result(task, handle, args, kwargs)
        if handle.created:
            await task_enqueued.asend(sender=type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the result of a job. Raises `TaskResultDoesNotExist`, also when its record has expired."""
        return self._found(result_id, self._job(result_id).refresh())

    async def aget_result(self, result_id: str) -> Any:
        """Async version of `get_result`."""
        return self._found(result_id, await self._job(result_id).arefresh())

    def job(self, result_id: str) -> JobHandle[Any]:
        """Return Tenure's handle of a result, with what Django's has not: its progress, and `cancel`. Sends nothing.

            default_task_backend.job(result.id).cancel()

        Raises `InvalidArgument`.
        """
        queue, _, id = str(result_id).rpartition(SEPARATOR)
        return self.app.queue(queue).job(id)

    def check(self, **kwargs: Any) -> Iterable[CheckMessage]:
        """Return what `manage.py check` shows of this backend."""
        from tenure.integrations.django.checks import check_backend

        return check_backend(self)

    def call_of(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskCall[Any]:
        """Return Tenure's call of a task. Sends nothing, and raises what the enqueue of this call would raise."""
        bound, args, kwargs = self._call(task, args, kwargs)
        return bound.call(*args, **kwargs)

    def _call(
        self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[BoundTask[Any, Any, Any], list[Any], dict[str, Any]]:
        """Return the task of the app with the options of this call, and the arguments as JSON has them."""
        self.validate_task(task)
        bound = _with_options(registry.bind(self.app, task), task)
        return bound, *_plain(task, args, kwargs)

    def _result(self, task: Any, handle: JobHandle[Any], args: Any, kwargs: Any) -> Any:
        result = new_result(task, f"{handle.queue}{SEPARATOR}{handle.id}", self.alias, args, kwargs)
        update(result, enqueued_at=timezone.now())
        return result

    def _job(self, result_id: str) -> JobHandle[Any]:
        try:
            return self.job(result_id)
        except InvalidArgument:
            raise TaskResultDoesNotExist(result_id) from None

    def _found(self, result_id: str, view: JobView | None) -> Any:
        task = None if view is None or view.task is None else _known(view.task)
        if view is None or task is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(view, task, self.alias)


def _known(name: str) -> Any:
    """Return the task of a job. Its module may not be imported yet, in a process that only reads results."""
    if (task := registry.known(name)) is None:
        registry.discover()
        task = registry.known(name)
    return task


def _with_options(bound: BoundTask[Any, Any, Any], task: Any) -> BoundTask[Any, Any, Any]:
    """Return the task of the app with the options of Django's. Raises `InvalidArgument`."""
    options = dict(given(task, OF_JOB), queue=task.queue_name, priority=task.priority)
    if SEPARATOR in str(options.get("id", "")):
        raise invalid(
            "id", f"without {SEPARATOR!r}, which separates it from its queue in the id of a result", options["id"]
        )
    if task.run_after is not None:
        aware = timezone.is_aware(task.run_after)
        options["run_after"] = task.run_after if aware else timezone.make_aware(task.run_after)
    return bound.using(**options)


def _plain(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments as JSON has them. Raises `TypeError`, which names the argument."""
    plain: list[Any] = []
    try:
        for value in (*args, *kwargs.values()):
            plain.append(normalize_json(value))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{error}. Argument {_name(task, len(plain), len(args), [*kwargs])} of task {task.module_path} must be "
            "what JSON can hold: text, numbers, True, False, None, lists and dicts. Pass the key of a row, not the row."
        ) from None
    return plain[: len(args)], dict(zip(kwargs, plain[len(args) :], strict=True))


def _name(task: Any, number: int, positional: int, named: Sequence[str]) -> str:
    """Return the name of an argument of a call, or its number."""
    if number >= positional:
        return named[number - positional]
    slots = inspect.signature(task.func).parameters.values()
    names = [one.name for one in slots if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return dict(enumerate(names[int(task.takes_context) :])).get(number, str(number + 1))
