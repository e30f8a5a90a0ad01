"""The app of a Django project: each handler runs with usable database connections, and every task is known."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any, Protocol

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from tenure.app.app import Tenure
from tenure.core.schedules.schedule import ScheduleSpec
from tenure.core.task import TaskSpec
from tenure.core.values import replace
from tenure.integrations.django.configuration import Configuration


class DjangoTasks(Protocol):
    """What the app needs of the tasks that Django knows."""

    def bind_all(self, app: DjangoApp) -> None:
        """Make all tasks known to the app."""
        ...

    def queues(self, app: DjangoApp) -> Collection[str]:
        """Return the queues of the backends that have this app."""
        ...


class DjangoApp(Tenure):
    """A `Tenure` made of the settings. `tasks`: the tasks of Django."""

    def __init__(self, configuration: Configuration, tasks: DjangoTasks) -> None:
        super().__init__(**configuration.arguments, defaults=configuration.defaults)
        self.configuration = configuration
        self._tasks_of_django = tasks

    @property
    def served_queues(self) -> Collection[str]:
        """The `QUEUES` of its backends: `using(queue_name=...)` may send a task to each."""
        return self._tasks_of_django.queues(self)

    def forget(self, name: str) -> None:
        """Remove a task that its module defines again, after an import that failed."""
        self._tasks.pop(name, None)

    def scheduled(self, source: str, queues: Collection[str]) -> tuple[ScheduleSpec, ...]:
        """Return the schedules in code on these queues, also of the tasks of Django."""
        self._tasks_of_django.bind_all(self)
        return super().scheduled(source, queues)

    def specs(self) -> tuple[TaskSpec, ...]:
        """Return all tasks and handlers, also the tasks of Django, with fresh connections around each call."""
        self._tasks_of_django.bind_all(self)
        return tuple(replace(one, function=_fresh(one.function, one.is_async)) for one in super().specs())


def _fresh(function: Callable[..., Any], is_async: bool) -> Callable[..., Any]:
    """Close database connections that are broken or too old before and after a call, as Django does for a request."""
    if not is_async:

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            close_old_connections()
            try:
                return function(*args, **named)
            finally:
                close_old_connections()

        return call

    # The async methods of the ORM run in one thread of the process, which has connections of its own.
    close = sync_to_async(close_old_connections)

    @functools.wraps(function)
    async def acall(*args: Any, **named: Any) -> Any:
        await close()
        try:
            return await function(*args, **named)
        finally:
            await close()

    return acall
