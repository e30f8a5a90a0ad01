"""The tables of the SQL outbox that Django's migrations make, and jobs in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connections, transaction
from django.test import override_settings
from sqlalchemy import Engine, create_engine, event, inspect, make_url

from tenure import InvalidArgument, NotConfigured, PayloadTooLarge
from tenure.integrations.django.outbox import _engine, enqueue_in_transaction, relayed_outbox
from tenure.outbox import Outbox, Relay, once
from tests.support.django_project import Site, site
from tests.support.django_site import tasks
from tests.support.postgres import Postgres

__all__ = ["site"]
BACKEND = "tenure.integrations.django.TenureBackend"


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two empty databases."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
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


class ToOther:
    """Has the tables of Tenure in the database `other`."""

    def db_for_write(self, model: Any, **_: Any) -> str | None:
        return "other" if model._meta.app_label == "tenure" else None


@pytest.fixture
def routed(migrated: Engine) -> Iterator[Engine]:
    with override_settings(DATABASE_ROUTERS=[ToOther()]):
        yield migrated


@pytest.fixture
def outbox(routed: Engine) -> Iterator[Outbox]:
    outbox = relayed_outbox()
    yield outbox
    assert outbox.engine is not None
    outbox.engine.dispose()


@pytest.mark.parametrize("kind", ["django", "tenure"])
def test_a_transaction_of_django_makes_a_job_if_it_commits(site: Site, outbox: Outbox, kind: str) -> None:
    task: Any = tasks.add
    if kind == "tenure":
        task = site.app.task(name="add")(lambda first, second: first + second)
    assert outbox.engine is not None
    with transaction.atomic("other"):
        handle = enqueue_in_transaction(task, 2, second=3)
        assert Relay(outbox, outbox.engine).step() is None
    with transaction.atomic("other"):
        enqueue_in_transaction(task, 2, second=3)
        transaction.set_rollback(True, "other")
    assert outbox.status(outbox.engine).waiting == 1
    assert Relay(outbox, outbox.engine).step() == 1
    site.app.testing().drain()
    of_django = kind == "django"
    found = task.get_result(f"{handle.queue}:{handle.id}").return_value if of_django else handle.job.result(timeout=5)
    assert found == 5


def test_bad_uses_in_a_transaction_of_django(site: Site, routed: Engine) -> None:
    with pytest.raises(
        InvalidArgument, match=r"'other' has no transaction here\. Write `with transaction\.atomic\('other'\):`"
    ):
        enqueue_in_transaction(tasks.add, 1)
    both = {"default": {"BACKEND": BACKEND}, "own": {"BACKEND": BACKEND, "OPTIONS": {"url": site.url}}}
    with transaction.atomic("other"):
        for wrong in ("shop.tasks.add", None, tasks.add.func, tasks.add.using):
            with pytest.raises(InvalidArgument, match="task must be a task of Tenure or of Django, got"):
                enqueue_in_transaction(wrong, 1)
        with pytest.raises(TypeError, match="Argument second of task"):
            enqueue_in_transaction(tasks.add, 1, second={1})
        with pytest.raises(PayloadTooLarge):
            enqueue_in_transaction(tasks.echo, "x" * 2_000_000)
        with override_settings(TASKS=both), pytest.raises(InvalidArgument, match="backend 'own' does not have"):
            enqueue_in_transaction(tasks.add.using(backend="own"), 1)
    assert apps.get_model("tenure", "OutboxRow").objects.using("other").count() == 0
    Outbox(site.app).metadata.drop_all(routed)
    with pytest.raises(NotConfigured, match=r"no table 'tenure_outbox'\. Make it with"), transaction.atomic("other"):
        enqueue_in_transaction(tasks.add, 1)


def test_a_savepoint_that_is_rolled_back_takes_its_rows_along(site: Site, outbox: Outbox) -> None:
    with transaction.atomic("other"):
        enqueue_in_transaction(tasks.add, 1)
        with transaction.atomic("other"):
            enqueue_in_transaction(tasks.add, 2)
            transaction.set_rollback(True, "other")
    assert outbox.engine is not None
    assert outbox.status(outbox.engine).waiting == 1


def test_a_relay_connects_to_postgresql_as_django_does(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with options that Django takes out, and without prepared statements, for connection poolers."""
    options = {"isolation_level": 2, "pool": True, "assume_role": "shop", "application_name": "shop"}
    own = {"ENGINE": "django.db.backends.postgresql", "NAME": "shop", "PORT": 6432, "OPTIONS": options}
    databases = {"default": connections.settings["default"], "other": own}
    monkeypatch.setitem(connections.settings, "other", connections.configure_settings(databases)["other"])
    engine = _engine("other")
    del connections["other"]
    assert engine is not None
    given: dict[str, Any] = {}

    @event.listens_for(engine, "do_connect")
    def connect(*args: Any) -> None:
        given.update(args[-1])
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        engine.connect()
    of_url = {"dbname": "shop", "port": 6432, "client_encoding": "UTF8", "application_name": "shop"}
    assert {name: given[name] for name in given if name != "context"} == of_url | {"prepare_threshold": None}
