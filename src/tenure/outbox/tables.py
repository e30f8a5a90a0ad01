"""The SQL tables: rows of the outbox, sources under which relays number them, and jobs with a committed effect."""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table, Text, false, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from tenure.core.errors import NotConfigured, invalid
from tenure.core.limits import MAX_ID
from tenure.core.names import shown

DONE_NAME: Final = "tenure_done"
_BIG: Final = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts rows only in a column of the type INTEGER."""
_UNDEFINED_TABLE: Final = "42P01"
"""The SQLSTATE of PostgreSQL for it."""


def table_name(value: object) -> str:
    """Check the name of an outbox's table. Raises `InvalidArgument`."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z_][a-z0-9_]{0,49}", value) or value == DONE_NAME:
        rule = f"1 to 50 lower-case letters, digits and underscores, not {DONE_NAME}"
        raise invalid("table", rule, shown(value))
    return value


def rows_table(name: str, metadata: MetaData) -> Table:
    """Return the table of jobs that are not in Redis yet.

    `slot` and `number`: the source that a relay has given the row to, and its number there; both NULL: none has yet.
    `error`: why it cannot be enqueued.
    """
    return Table(
        name,
        metadata,
        Column("row", _BIG, primary_key=True, autoincrement=True),
        Column("id", String(MAX_ID), nullable=False),
        Column("namespace", String(255), nullable=False),
        Column("queue", String(255), nullable=False),
        Column("task", String(255)),
        Column("job", LargeBinary, nullable=False),
        Column("made_ms", BigInteger, nullable=False),
        Column("slot", Integer, index=True),
        Column("number", BigInteger),
        Column("error", Text),
    )


def sources_table(name: str, metadata: MetaData) -> Table:
    """Return the table of sources, each of which numbers one batch at a time.

    `source`: its name in Redis, random, so that two databases never share one. `number`: the highest that it has given.
    `busy_ms`: until when other relays leave its batch to the relay that has it.
    """
    return Table(
        f"{name}_source",
        metadata,
        Column("slot", Integer, primary_key=True, autoincrement=False),
        Column("source", String(64), nullable=False),
        Column("number", BigInteger, nullable=False),
        Column("busy_ms", BigInteger, nullable=False),
    )


def done_table(metadata: MetaData) -> Table:
    """Return the table of jobs with an effect that is committed. `result`: JSON, see `First.save`."""
    return Table(
        DONE_NAME,
        metadata,
        Column("queue", String(255), primary_key=True),
        Column("id", String(MAX_ID), primary_key=True),
        Column("done_ms", BigInteger, nullable=False, index=True),
        Column("result", LargeBinary),
    )


def lock_for_writes(connection: Connection, table: Table) -> None:
    """Begin a transaction as a writer, as `BEGIN IMMEDIATE` of SQLite does, however the engine begins transactions.

    SQLite refuses to write in a transaction that has read before another one wrote. Elsewhere this locks no row.
    """
    connection.execute(update(table).where(false()).values({table.c[0].name: table.c[0]}))


def is_missing(error: BaseException | None) -> bool:
    """Return whether this is a driver's error for a table that does not exist."""
    return getattr(error, "sqlstate", None) == _UNDEFINED_TABLE or "no such table" in str(error)


def explained(error: DBAPIError, table: str) -> Exception:
    """Return the error for a table that does not exist, or else the error as it is."""
    if not is_missing(error.orig):
        return error
    return NotConfigured(
        f"The database has no table {table!r}. Make it with outbox.create(engine), with Alembic from outbox.metadata, "
        "or with `manage.py migrate` of Django."
    )
