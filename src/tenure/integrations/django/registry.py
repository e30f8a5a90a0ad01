"""The apps of this process: the project's, and one for each backend with `OPTIONS`. And the tasks of Django.

Django makes a backend for each thread. They share an app, and so its connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any, Final, TypeAlias

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from tenure.app.tasks import Task as BoundTask
from tenure.client.options import OF_ATTEMPT, OF_SHAPE
from tenure.core.errors import UnsupportedFeature
from tenure.integrations.django.configuration import Configuration
from tenure.integrations.django.project import DjangoApp

SETTING: Final = "TENURE"
"""The setting of the project's app, and its key."""

RunBy: TypeAlias = tuple[Callable[..., Any], Mapping[str, Any]]
"""The function that a worker calls for a task, and the hooks for the ends of its jobs."""

_lock: Final = RLock()
_apps: Final[dict[str, tuple[dict[str, Any], DjangoApp]]] = {}
_tasks: Final[dict[str, tuple[Any, RunBy]]] = {}
"""Every task of Django that this process has defined, by name."""


def project_app() -> DjangoApp:
    """Return the app of the setting `TENURE`. Raises `InvalidArgument` and `NotConfigured`."""
    return _app(SETTING, getattr(settings, SETTING, {}))


def app_of(alias: str, options: Mapping[str, Any]) -> DjangoApp:
    """Return the app of a backend: the project's for a backend without `OPTIONS`."""
    return _app(f"TASKS[{alias!r}]: OPTIONS", options) if options else project_app()


def _app(setting: str, given: Any) -> DjangoApp:
    with _lock:
        kept = _apps.get(setting)
        if kept is not None and kept[0] == given:
            return kept[1]
        app = DjangoApp(Configuration.of(setting, given, of_project=setting == SETTING), _All())
        _apps[setting] = (dict(given), app)
    if kept is not None:
        kept[1].close()  # tests change settings
    return app


def note(task: Any, run_by: Callable[[Any], RunBy]) -> Any:
    """Keep a task that was defined, unless it is a copy of one by `using`. Returns the task that is kept."""
    with _lock:
        kept = _tasks.get(task.module_path)
        if kept is None or kept[0].func is not task.func:
            kept = _tasks[task.module_path] = task, run_by(task)
        return kept[0]


def forget(task: Any) -> None:
    """Remove a task with a definition that was refused."""
    with _lock:
        _tasks.pop(task.module_path, None)


def known(name: str) -> Any:
    """Return the task of this name; None: no module with it was imported."""
    kept = _tasks.get(name)
    return None if kept is None else kept[0]


def bind(app: DjangoApp, task: Any) -> BoundTask[Any, Any, Any]:
    """Return the task of this app that runs a task of Django. Raises `InvalidArgument` and `UnsupportedFeature`."""
    # Imported here: a project without tasks of Django needs no task framework.
    from tenure.integrations.django.options import OF_DEFINITION, OF_JOB, given

    with _lock:
        first, (function, hooks) = _tasks[task.module_path]
        found: Any = app.tasks.get(first.module_path)
        if found is None or found.__wrapped__ is not function:
            options: Any = {**given(first, OF_DEFINITION | (OF_JOB & OF_SHAPE) | OF_ATTEMPT.keys()), **hooks}
            if "schedule" in options and not _has(first.backend, app):
                del options["schedule"]  # the app of its own backend has the ticks
            app.forget(first.module_path)
            found = app.task(name=first.module_path, queue=first.queue_name, **options)(function)
        bound: BoundTask[Any, Any, Any] = found
        return bound


def _has(alias: str, app: DjangoApp) -> bool:
    """Whether the backend has this app. One with wrong settings has none."""
    from tenure.integrations.django.framework import task_backends

    try:
        return getattr(task_backends[alias], "app", None) is app
    except ImproperlyConfigured:
        return False


class _All:
    """The tasks of Django, as an app sees them."""

    def bind_all(self, app: DjangoApp) -> None:
        """Make all tasks known to an app: `using(backend=...)` may send a job to any."""
        for task, _ in list(_tasks.values()):
            try:
                bind(app, task)
            except UnsupportedFeature:  # its wire format lacks an option of the task, and refuses such jobs
                if _has(task.backend, app):
                    raise

    def queues(self, app: DjangoApp) -> list[str]:
        """Return the queues of the backends that have this app."""
        from tenure.integrations.django.framework import task_backends

        aliases = [alias for alias in getattr(settings, "TASKS", {}) if _has(alias, app)]
        return sorted({queue for alias in aliases for queue in task_backends[alias].queues})


def discover() -> None:
    """Import the module `tasks` of each installed app."""
    autodiscover_modules("tasks")
