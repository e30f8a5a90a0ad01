"""Enqueues after the commit of the transaction."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db import transaction

from tenure.app.tasks import Task
from tenure.core.errors import invalid


def enqueue_on_commit(task: Any, /, *args: Any, **kwargs: Any) -> None:
    """Enqueue a call when the transaction of the default database has been committed; without one, at once.

        with transaction.atomic():
            order = Order.objects.create(...)
            enqueue_on_commit(confirm, order.pk)

    `task`: a task of Tenure or of Django. The arguments are checked at once, so that a wrong one rolls the transaction
    back. A rollback drops the call; a process that dies between the commit and the enqueue loses it:
    `enqueue_in_transaction` does not. Raises what `enqueue` raises for wrong arguments.
    """
    if isinstance(checked_task(task), Task):
        task.call(*args, **kwargs)
    elif (call_of := getattr(task.get_backend(), "call_of", None)) is not None:
        call_of(task, args, kwargs)
    transaction.on_commit(partial(task.enqueue, *args, **kwargs))


def checked_task(task: Any) -> Any:
    """Return a task of Tenure or of Django. Raises `InvalidArgument` for anything else."""
    if isinstance(task, type) or not (isinstance(task, Task) or hasattr(task, "get_backend")):
        raise invalid("task", "a task of Tenure or of Django", type(task).__name__, "Pass its arguments after it.")
    return task
