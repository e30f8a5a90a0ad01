"""Routers: tasks that are defined without the app."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from tenure.app.definitions import DefinesTasks, Definition
from tenure.app.tasks import Task
from tenure.core.errors import invalid

Bind: TypeAlias = Callable[[Task[Any, Any, Any], Definition], None]


class Router(DefinesTasks):
    """Tasks that are defined without the app, so that their modules need not import it.

        router = Router()                                   # billing.py

        @router.task(retries=5)
        def charge(order: str) -> str: ...

        app = Tenure()                                      # app.py
        app.include(billing.router, queue="billing")

    The tasks are as from `Tenure.task`, and can be called at once. They can be enqueued after `Tenure.include`; before
    that, a call that needs the app raises `InvalidArgument`. One app includes a router, once; a cell of a notebook can
    do so again.
    """

    def __init__(self) -> None:
        self._defined: list[tuple[Task[Any, Any, Any], Definition]] = []
        self._bind: Bind | None = None
        self._app: object = None

    def __repr__(self) -> str:
        return f"<Router of {len(self._defined)} tasks>"

    def _join(self, app: object, bind: Bind) -> None:
        """Pass each task to `bind`, also those that are defined later. `Tenure.include` calls this."""
        is_notebook = hasattr(sys, "ps1")  # or an interactive shell: a user runs code again
        if self._bind is not None and not is_notebook:
            if self._app is app:
                raise invalid("router", "included once", "a router that this app has", "Call include once.")
            advice = "Make one for each app, in a function that defines its tasks."
            raise invalid("router", "included once", "a router that another app has", advice)
        for task, definition in self._defined:
            bind(task, definition)
        self._app, self._bind = app, bind  # last: after an error the call can be repeated, corrected

    def _add(self, task: Task[Any, Any, Any], definition: Definition) -> None:
        self._defined.append((task, definition))
        if self._bind is not None:
            self._bind(task, definition)
