"""The tables of the SQL outbox that Django's migrations make, and jobs in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from sqlalchemy import Engine, create_engine, inspect, make_url

from tenure.outbox import Outbox, Relay, once
from tests.support.django_project import Site, site
from tests.support.postgres import Postgres, binaries

__all__ = ["site"]


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two empty databases."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
        return
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with Postgres(programs) as server:
        yield server.new_database(), server.new_database()


@pytest.fixture
def migrated(site: Site, urls: tuple[str, str]) -> Iterator[Engine]:
    """The database `other` of Django, with all migrations."""
    url = make_url(urls[0])
    given: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": url.database}
    if url.get_backend_name() == "postgresql":
        given |= {"ENGINE": "django.db.backends.postgresql", "USER": url.username, "HOST": url.query["host"]}
    databases = {"default": connections.settings["default"], "other": given}
    connections.settings["other"] = connections.configure_settings(databases)["other"]
    call_command("migrate", database="other", verbosity=0)
    engine = create_engine(url)
    yield engine
    engine.dispose()
    connections["other"].close()
    del connections["other"], connections.settings["other"]


def tables(engine: Engine) -> dict[str, Any]:
    """What the tables of Tenure are, without the names of indexes."""
    found: dict[str, Any] = {}
    inspector = inspect(engine)
    for name in inspector.get_table_names():
        if name.startswith("tenure_"):
            columns = [(one["name"], str(one["type"]), one["nullable"]) for one in inspector.get_columns(name)]
            key = inspector.get_pk_constraint(name)["constrained_columns"]
            indexes = sorted(one["column_names"] for one in inspector.get_indexes(name))
            found[name] = {"columns": sorted(columns), "key": key, "indexes": indexes}
    return found


def test_the_migrations_make_the_tables_of_outbox_create(site: Site, migrated: Engine, urls: tuple[str, str]) -> None:
    created = create_engine(urls[1])
    Outbox(site.app).create(created)
    assert tables(migrated) == tables(created)
    assert sorted(tables(created)) == ["tenure_done", "tenure_outbox", "tenure_outbox_source"]
    created.dispose()


def test_rows_become_jobs_and_effects_are_there_once(site: Site, migrated: Engine) -> None:
    @site.app.task(name="pay")
    def pay(order: int) -> bool:
        with migrated.begin() as connection, once(connection) as first:
            return bool(first)

    outbox = Outbox(site.app, engine=migrated)
    with migrated.begin() as connection:
        handle = outbox.enqueue(connection, pay.call(7))
    [row] = apps.get_model("tenure", "OutboxRow").objects.using("other")
    assert (row.job_id, row.queue, row.task, row.slot, row.error) == (handle.id, "default", "pay", None, None)
    assert Relay(outbox, migrated).step() == 1
    site.app.testing().drain()
    assert handle.job.result(timeout=5) is True
    [done] = apps.get_model("tenure", "Done").objects.using("other")
    assert done.pk == ("default", handle.id)
