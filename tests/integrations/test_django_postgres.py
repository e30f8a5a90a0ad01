"""Jobs of a Django project after a restart of its PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connections
from sqlalchemy import make_url

from tenure.testing import Drained
from tests.support.django_project import Site, site
from tests.support.postgres import Postgres

__all__ = ["site"]


@pytest.fixture
def connection(postgres: Postgres) -> Iterator[Any]:
    """A connection of Django that stays open between jobs."""
    url = make_url(postgres.new_database())
    given: dict[str, Any] = {"ENGINE": "django.db.backends.postgresql", "NAME": url.database, "USER": url.username}
    given |= {"HOST": url.query["host"], "CONN_MAX_AGE": None}
    databases = {"default": connections.settings["default"], "other": given}
    connections.settings["other"] = connections.configure_settings(databases)["other"]
    yield connections["other"]
    connections["other"].close()
    del connections["other"], connections.settings["other"]


def test_a_connection_that_a_restart_has_broken_is_replaced_after_one_failed_attempt(
    site: Site, postgres: Postgres, connection: Any
) -> None:
    @site.app.task(name="query", retries=1)
    def query() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return int(cursor.fetchone()[0])

    jobs = site.app.testing()
    query.enqueue()
    assert jobs.drain() == Drained(completed=1)
    assert connection.connection is not None
    postgres.stop()
    postgres.start()
    query.enqueue()
    with pytest.raises(OperationalError):
        jobs.drain()
    assert connection.connection is None
    jobs.advance(minutes=1)
    assert jobs.drain() == Drained(completed=1)
