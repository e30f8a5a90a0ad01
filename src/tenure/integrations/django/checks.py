"""System checks: settings that cannot be used, a Redis that may lose jobs, and settings with two meanings.

`manage.py check` looks at Redis for about a second at most. A Redis that does not answer is a warning: images are
built without one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import django
from django.apps import apps
from django.conf import settings
from django.core import checks

from tenure.client.connections import Connections
from tenure.core.errors import AccessDenied, InvalidArgument, NotConfigured, RedisError
from tenure.core.text import masked
from tenure.core.values import replace
from tenure.integrations.django import registry
from tenure.integrations.django.project import DjangoApp
from tenure.manage.preflight import Inspection, combined, inspect_server
from tenure.redis.url import Target, is_cluster

BACKEND: Final = "tenure.integrations.django.TenureBackend"
LOOK_S: Final = 1.0
"""How long each step of the look at Redis may take."""
_OPTION: Final = "TASKS[{!r}]: OPTIONS"


def check_tenure(app_configs: object = None, **kwargs: object) -> list[checks.CheckMessage]:
    """Check the setting `TENURE`, and what several backends mean together."""
    own = _of(registry.SETTING) if hasattr(settings, registry.SETTING) or not _backends() else []
    if django.VERSION < (6, 0) and not apps.is_installed("django_tasks"):  # else its own check asks each backend
        for alias, options in _backends().items():
            own += _of(_OPTION.format(alias), alias, options) if options else []
    return [*own, *_ambiguous(), *_of_databases()]


def _of_databases() -> Iterator[checks.CheckMessage]:
    for alias, database in settings.DATABASES.items():
        if database.get("CONN_MAX_AGE", 0) != 0 and not database.get("CONN_HEALTH_CHECKS"):
            hint = "Set CONN_HEALTH_CHECKS to True: after a restart of the database one job of each thread fails else."
            yield checks.Warning(
                f"DATABASES[{alias!r}] keeps connections, and does not check them.", hint=hint, id="tenure.W004"
            )


def check_backend(backend: Any) -> list[checks.CheckMessage]:
    """Check the `OPTIONS` of a backend. Without any, its app is the one of `TENURE`, which has a check of its own."""
    if not backend.options and hasattr(settings, registry.SETTING):
        return []
    return _of(_OPTION.format(backend.alias), backend.alias, backend.options)


def _of(setting: str, alias: str = "", options: Mapping[str, Any] | None = None) -> list[checks.CheckMessage]:
    try:
        app = registry.app_of(alias, options) if options is not None else registry.project_app()
    except (InvalidArgument, NotConfigured) as error:
        return [checks.Error(str(error), id="tenure.E001")]
    return list(_of_redis(setting, app))


def _of_redis(setting: str, app: DjangoApp) -> Iterator[checks.CheckMessage]:
    url = app.settings.url
    where = f"{setting}: Redis {masked(str(Target.parse(url)))}"
    if Target.parse(url).scheme == "embedded":
        return  # it starts at its first use
    try:
        found = _look(replace(app.settings, patience=0.0, connect_timeout=LOOK_S, reply_timeout=LOOK_S))
    except NotConfigured:  # a test that may use no Redis
        return
    except AccessDenied as error:
        yield checks.Error(f"{where}: {masked(str(error))}", id="tenure.E002")
    except RedisError as error:
        yield checks.Warning(f"{where} was not checked: {masked(str(error))}", id="tenure.W001")
    else:
        for text in found.errors:
            yield checks.Error(f"{where}: {masked(text)}", id="tenure.E002")


def _look(settings: Any) -> Inspection:
    connections = Connections(settings)
    clustered = is_cluster(settings.url)
    try:
        return combined(connections.run_on_each(lambda: inspect_server(clustered)))
    finally:
        connections.close()


def _backends() -> dict[str, Mapping[str, Any]]:
    """Return the `OPTIONS` of each backend of Tenure, by alias."""
    tasks = getattr(settings, "TASKS", None) or {}
    return {alias: one.get("OPTIONS", {}) for alias, one in tasks.items() if one.get("BACKEND") == BACKEND}


def _ambiguous() -> Iterator[checks.CheckMessage]:
    found = _backends()
    given: dict[str, Any] = {_OPTION.format(alias): options for alias, options in found.items() if options}
    if getattr(settings, registry.SETTING, None):
        given[registry.SETTING] = getattr(settings, registry.SETTING)
    places: dict[tuple[str, str], str] = {}
    for setting, options in given.items():
        if not isinstance(options, Mapping):
            continue
        url = options.get("url")
        variable = next((name for name in ("TENURE_URL", "REDIS_URL") if os.environ.get(name, "").strip()), None)
        if url and variable and os.environ[variable] != url:
            hint = f"Leave one of the two out. The setting counts; `tenure` without --app reads {variable}."
            yield checks.Warning(f"{setting} and {variable} name different URLs.", hint=hint, id="tenure.W002")
        place = (str(url), str(options.get("namespace")))
        if place in places:
            hint = "Write them in one place: a backend without OPTIONS uses the app of TENURE."
            text = f"{places[place]} and {setting} are two apps on the same Redis and namespace."
            yield checks.Warning(text, hint=hint, id="tenure.W003")
        places.setdefault(place, setting)
    plain = [alias for alias, options in found.items() if not options]
    if len(plain) > 1:
        hint = "Give the others OPTIONS with a url or a namespace."
        text = f"The backends {', '.join(map(repr, plain))} have no OPTIONS: they are the same app."
        yield checks.Warning(text, hint=hint, id="tenure.W003")
