"""How a relay waits for rows: by a notification of PostgreSQL, or by looks at the table that become rarer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

Wait: TypeAlias = Callable[[float, threading.Event], None]
"""Waits for rows for at most this many seconds, or until the event is set."""


@contextmanager
def wait_for(engine: Engine, channel: str) -> Iterator[Wait]:
    """Make the way to wait. A notification is a hint: the relay looks at the table after each wait anyway."""
    if engine.dialect.name != "postgresql" or engine.dialect.driver != "psycopg":
        yield _sleep
        return
    listener = _Listener(engine, channel)
    try:
        yield listener.wait
    finally:
        listener.close()


def _sleep(seconds: float, stop: threading.Event) -> None:
    stop.wait(seconds)


class _Listener:
    """A connection of its own that listens. It is made again after it was lost."""

    def __init__(self, engine: Engine, channel: str) -> None:
        self._engine = engine
        self._channel = channel
        self._connection: Connection | None = None

    def wait(self, seconds: float, stop: threading.Event) -> None:
        try:
            if self._connection is None:
                self._listen()
                return  # an earlier commit has sent no notification: the relay looks once more
            driver: Any = self._connection.connection.dbapi_connection
            for _ in driver.notifies(timeout=seconds, stop_after=1):
                pass
        except (DBAPIError, self._engine.dialect.loaded_dbapi.Error):
            self.close()
            stop.wait(seconds)

    def _listen(self) -> None:
        self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._connection.detach()  # the pool may be small
        self._connection.exec_driver_sql(f'LISTEN "{self._channel}"')

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()
