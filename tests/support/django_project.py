"""Starts the project in the process of the tests, and gives it a Redis for each test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from unittest.mock import patch

import django
import pytest
from django.core.management import call_command
from django.test import override_settings

# Not for longer: other tests start programs, which inherit the environment.
with patch.dict(os.environ, DJANGO_SETTINGS_MODULE="tests.support.django_site.settings"):
    django.setup()

from django.contrib.auth.models import AnonymousUser, Permission, User

from tenure.integrations.django import registry
from tenure.integrations.django.project import DjangoApp
from tests.support.django_site import tasks

_number = count()


__all__ = ["AnonymousUser", "Permission", "Site", "User", "site"]


@dataclass(frozen=True)
class Site:
    """The project of one test. `url`: its Redis."""

    url: str

    @property
    def app(self) -> DjangoApp:
        return registry.project_app()


@pytest.fixture
def site(redis_url: str) -> Iterator[Site]:
    """The project with an empty database and an empty Redis."""
    tasks.seen.clear()
    # An app remembers the queues that it has announced: each test has its own.
    with override_settings(TENURE={"url": redis_url, "namespace": f"site-{next(_number)}"}):
        call_command("migrate", verbosity=0)
        yield Site(redis_url)
        call_command("flush", verbosity=0, interactive=False)
        registry.project_app().close()
