"""`manage.py check`: settings that cannot be used or mean two things, and a Redis that may lose jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.core import checks
from django.test import override_settings

from tenure.integrations.django.checks import check_tenure
from tenure.integrations.django.framework import InvalidTaskBackend, task_backends
from tenure.testing.server import RedisServer
from tests.support.django_project import Site, site
from tests.support.django_site import tasks

__all__ = ["site"]
BACKEND = "tenure.integrations.django.TenureBackend"


def backends(**options: dict[str, Any]) -> dict[str, Any]:
    return {alias: {"BACKEND": BACKEND, "OPTIONS": given} for alias, given in options.items()}


def found() -> list[tuple[str, str]]:
    """What the checks of the backends and of `TENURE` find: their ids and texts. Django 5.2 has no check of backends
    without the app of django-tasks, so ours asks them, too."""
    messages = [*check_tenure(), *(one for backend in task_backends.all() for one in backend.check())]
    return list(dict.fromkeys((one.id, one.msg) for one in messages))


def test_a_project_in_order_has_no_finding(site: Site) -> None:
    assert found() == []
    assert checks.run_checks() == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ulr": "redis://localhost"}, r"TASKS\['default'\]: OPTIONS: option must be one of .*got 'ulr'.*'url'"),
        ({"url": "http://localhost"}, "http"),
        ({"url": "redis://localhost", "retries": -1}, "retries"),
    ],
)
def test_options_that_cannot_be_used_are_an_error_and_so_is_the_enqueue(
    site: Site, options: dict[str, Any], text: str
) -> None:
    with override_settings(TASKS=backends(default=options)):
        [(id, message)] = found()
        assert id == "tenure.E001"
        assert [one.id for one in checks.run_checks()] == ["tenure.E001"]
        with pytest.raises(InvalidTaskBackend, match=text) as error:
            tasks.add.enqueue(1)
        assert str(error.value) == message


def test_kept_connections_without_health_checks_are_a_warning(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    database = settings.DATABASES["default"]
    monkeypatch.setitem(database, "CONN_MAX_AGE", 600)
    [(id, message)] = found()
    assert (id, "'default'" in message) == ("tenure.W004", True)
    monkeypatch.setitem(database, "CONN_HEALTH_CHECKS", True)
    assert found() == []


@pytest.mark.parametrize("given", [{"namespce": "a"}, {"dashboard": {"titel": "Jobs"}}, ["redis://localhost"]])
def test_a_wrong_setting_is_named(site: Site, given: object) -> None:
    with override_settings(TENURE=given):
        [(id, message)] = found()
        assert (id, message.partition(" ")[0].rstrip(":")) == ("tenure.E001", "TENURE")


def test_a_redis_that_evicts_jobs_is_an_error(site: Site, make_server: Callable[..., RedisServer]) -> None:
    server = make_server(args=["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"])
    with override_settings(TENURE={"url": server.url}):
        [(id, message)] = found()
        assert (id, "allkeys-lru" in message) == ("tenure.E002", True)


def test_a_redis_that_does_not_answer_is_a_warning_without_its_password(site: Site) -> None:
    with override_settings(TASKS=backends(default={"url": "redis://:secret@127.0.0.1:1/0"})):
        [(id, message)] = found()
        assert (id, "was not checked" in message, "secret" in message) == ("tenure.W001", True, False)


def test_settings_with_two_meanings_are_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    same = {"url": site.url, "namespace": "shop"}
    with override_settings(TASKS=backends(default=same, mails=same)):
        assert [id for id, _ in found()] == ["tenure.W003"]
    with override_settings(TASKS=backends(default={}, mails={})):
        assert [id for id, _ in found()] == ["tenure.W003"]
    monkeypatch.setenv("TENURE_URL", "redis://elsewhere")
    assert [id for id, _ in found()] == ["tenure.W002"]
