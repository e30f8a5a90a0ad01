"""Jobs in Django's own transaction: rows of the outbox, which `manage.py tenure relay` brings to Redis."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, router, transaction
from sqlalchemy import URL, Engine, create_engine

from tenure.app.tasks import Task
from tenure.core.errors import InvalidArgument, NotConfigured
from tenure.integrations.django import registry
from tenure.integrations.django.commit import checked_task
from tenure.integrations.django.project import DjangoApp
from tenure.outbox import Outbox, OutboxHandle
from tenure.outbox.tables import is_missing

_OF_DJANGO: Final = ("context", "cursor_factory")
"""Parameters for connections to PostgreSQL that are classes of Django."""


def enqueue_in_transaction(task: Any, /, *args: Any, **kwargs: Any) -> OutboxHandle:
    """Write a call into the current transaction. `manage.py tenure relay` enqueues it after the commit, exactly once.

        with transaction.atomic():
            order = Order.objects.create(...)
            enqueue_in_transaction(confirm, order.pk)

    `task`: a task of Tenure or of Django, of the app of the setting `TENURE`. Raises what `enqueue` raises for wrong
    arguments, `InvalidArgument` without a transaction, and `NotConfigured` (no such table).
    """
    rows = _rows()
    alias = router.db_for_write(rows)
    connection = transaction.get_connection(alias)
    if not connection.in_atomic_block:
        using = "" if alias == DEFAULT_DB_ALIAS else repr(alias)
        raise InvalidArgument(
            f"The database {alias!r} has no transaction here. Write `with transaction.atomic({using}):`, or use "
            "enqueue_on_commit."
        )
    handle, row = _outbox(registry.project_app())._row(_call(task, args, kwargs))
    try:
        rows.objects.using(alias).create(job_id=row.pop("id"), **row)
        if connection.vendor == "postgresql":  # sent with the commit: it wakes the relays
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_notify(%s, '')", [rows._meta.db_table])
    except DatabaseError as error:
        if is_missing(error.__cause__):
            raise NotConfigured(
                f"The database {alias!r} has no table {rows._meta.db_table!r}. Make it with `manage.py migrate`."
            ) from error
        raise
    return handle


def relayed_outbox() -> Outbox:
    """Return the outbox of the project with an engine for its database, which relays need."""
    return Outbox(registry.project_app(), engine=_engine(router.db_for_write(_rows())))


def _rows() -> Any:
    """Return the model of the rows. Imported later than this module, which needs no set-up of Django."""
    try:
        return apps.get_model("tenure", "OutboxRow")
    except LookupError:
        raise NotConfigured("The outbox needs 'tenure.integrations.django' in INSTALLED_APPS.") from None


@lru_cache(maxsize=8)
def _outbox(app: DjangoApp) -> Outbox:
    return Outbox(app)


def _call(task: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(checked_task(task), Task):
        return task.call(*args, **kwargs)
    backend = task.get_backend()
    if getattr(backend, "app", None) is not registry.project_app():
        raise InvalidArgument(
            f"The outbox serves the app of the setting TENURE, which backend {task.backend!r} does not have. Use "
            "enqueue_on_commit, or a TenureBackend without OPTIONS."
        )
    return backend.call_of(task, args, kwargs)


def _engine(alias: str) -> Engine | None:
    """Return an engine for a database of the settings; None: SQLAlchemy's name for it is not known here."""
    connection = connections[alias]
    if connection.vendor == "sqlite":
        return create_engine(URL.create("sqlite", database=str(connection.settings_dict["NAME"])))
    if connection.vendor != "postgresql":
        return None
    given = connection.get_connection_params()
    plain = {name: value for name, value in given.items() if name not in _OF_DJANGO}
    return create_engine("postgresql+psycopg://", pool_pre_ping=True, connect_args=plain)
