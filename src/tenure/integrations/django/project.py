"""The app of a Django project: each handler runs with usable database connections, and every task is known."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from tenure.app.app import Tenure
from tenure.core.task import TaskSpec
from tenure.integrations.django.configuration import Configuration


class DjangoApp(Tenure):
    """A `Tenure` made of the settings. `bind`: makes the tasks of Django its own, when a worker asks for them."""

    def __init__(self, configuration: Configuration, bind: Callable[[DjangoApp], None]) -> None:
        super().__init__(**configuration.arguments, defaults=configuration.defaults)
        self.configuration = configuration
        self._bind_tasks = bind

    def forget(self, name: str) -> None:
        """Remove a task that its module defines again, after an import that failed."""
        self._tasks.pop(name, None)

    def specs(self) -> tuple[TaskSpec, ...]:
        """Return all tasks and handlers, also the tasks of Django, with fresh connections around each call."""
        self._bind_tasks(self)
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
