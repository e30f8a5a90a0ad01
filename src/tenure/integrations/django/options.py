"""Django's task with the options of Tenure, as in `@task(lane="mails", retries=5)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, make_dataclass
from typing import Any, Final

from msgspec import UNSET

from tenure.app.policy import OF_RUN
from tenure.client.options import OF_USING
from tenure.core.hints import hint_at_keywords
from tenure.core.values import replace
from tenure.integrations.django.framework import Task, task_backends

OF_DJANGO: Final = frozenset({"queue", "priority", "run_after", "delay"})
"""Options that Django's task has itself, under these or other names."""
OF_JOB: Final = OF_USING - OF_DJANGO
"""Options of one job; `using` takes these, too."""
OF_DEFINITION: Final = (OF_RUN | {"run_in", "max_memory", "schedule"}) - OF_JOB - {"on_failure", "on_success"}
"""Options of the task alone. The ends of its jobs are signals of Django."""


class _WithOptions:
    """What the fields of `TenureTask` are for."""

    __slots__ = ()

    def using(self, **options: Any) -> Any:
        """Return a copy of the task with these options for its jobs: Django's, and the options of `tenure.Task.using`.

        send.using(queue_name="mails", lane="user:7").enqueue(7)
        """
        changes = {name: value for name, value in options.items() if value is not None or name in OF_JOB}
        return replace(self, **changes)


TenureTask: Final[Any] = make_dataclass(
    "TenureTask",
    [(name, Any, field(default=UNSET)) for name in sorted(OF_JOB | OF_DEFINITION)],
    bases=(_WithOptions, Task),
    namespace={"__module__": __name__, "__doc__": "A task of Django with the options of Tenure."},
    frozen=True,
    slots=True,
    kw_only=True,
)
hint_at_keywords(TenureTask)


def given(task: Any, names: frozenset[str]) -> Mapping[str, Any]:
    """Return the options among these that the task has."""
    values = {name: getattr(task, name, UNSET) for name in names}
    return {name: value for name, value in values.items() if value is not UNSET}


def task(
    function: Callable[..., Any] | None = None,
    *,
    priority: int = 0,
    queue_name: str = "default",
    backend: str = "default",
    takes_context: bool = False,
    **options: Any,
) -> Any:
    """Define a task of Django, also with the options of `Tenure.task`.

        @task(queue_name="mails", lane="outgoing", retries=8)
        def welcome(user: int) -> str: ...

    As Django's own decorator, which takes further options from Django 6.1 on. Another backend, as the immediate one in
    tests, gets the options of Django only. Raises `InvalidTask`, and `TypeError` for an unknown option.
    """

    def define(function: Callable[..., Any]) -> Any:
        kind = task_backends[backend].task_class
        ours = issubclass(kind, TenureTask)
        taken = {name: value for name, value in options.items() if ours or name not in OF_JOB | OF_DEFINITION}
        return kind(
            func=function,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            takes_context=takes_context,
            run_after=None,
            **taken,
        )

    return define if function is None else define(function)
