"""The sessions and connections of SQLAlchemy that this package writes with."""

from __future__ import annotations

from typing import TypeAlias

from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session, scoped_session

from tenure.core.errors import InvalidArgument, invalid

AnySession: TypeAlias = Session | scoped_session[Session] | Connection
AnyAsyncSession: TypeAlias = AsyncSession | AsyncConnection


def connection_of(session: object, better: str) -> Connection:
    """Return the connection of a session, in its transaction. `better`: what to write for an async session.

    Raises `InvalidArgument`, also if each statement is committed by itself.
    """
    if isinstance(session, AnyAsyncSession):
        raise InvalidArgument(f"This needs a blocking session. Write `{better}`.")
    if not isinstance(session, Session | scoped_session | Connection):
        raise invalid("session", "a Session or a Connection of SQLAlchemy", type(session).__name__)
    connection = session if isinstance(session, Connection) else session.connection()
    # Asking the database would cost a call.
    level = connection.get_execution_options().get("isolation_level")
    if (
        _has_autocommit(connection.connection.driver_connection)
        or (level or getattr(connection.dialect, "_on_connect_isolation_level", None)) == "AUTOCOMMIT"
    ):
        raise InvalidArgument(
            "The session has no transaction: it is in autocommit. Use an engine without isolation_level='AUTOCOMMIT', "
            "and a driver without autocommit."
        )
    return connection


def _has_autocommit(driver: object) -> bool:
    """Return whether a connection of a driver commits each statement.

    sqlite3 does so without an isolation level, unless the program itself has sent BEGIN, as SQLAlchemy's documentation
    shows.
    """
    if getattr(driver, "autocommit", None) is True:
        return True
    return getattr(driver, "in_transaction", None) is False and getattr(driver, "isolation_level", "") is None


def checked_async(session: object) -> AnyAsyncSession:
    """Return an async session or connection. Raises `InvalidArgument` for anything else."""
    if not isinstance(session, AnyAsyncSession):
        raise invalid("session", "an AsyncSession or AsyncConnection of SQLAlchemy", type(session).__name__)
    return session
