"""One connection of the caller's client, which a work queue keeps between its calls.

To take a connection out of a pool and to return it costs a client of the redis package nearly as much as the call. The
rest of the client's work for a command costs as much again, so commands are sent on the connection itself.
"""

from __future__ import annotations

import threading
import weakref
from types import FunctionType
from typing import Any, Final

from tenure.compat.redis_work_queue.forks import FORKS
from tenure.redis import replies

RAW: Final = {"NEVER_DECODE": True}
"""Data and ids are bytes, even on a client that decodes replies."""
POOL_LEAST: Final = 100
"""Connections that a pool must allow before one of them is kept. The caller may need each one of a smaller pool."""


class KeptConnection:
    """Sends commands on a blocking client. Safe for threads: one has the kept connection, others use the pool."""

    def __init__(self) -> None:
        self.begin()
        FORKS.known.add(self)

    def begin(self) -> None:
        """Keep nothing, at the start and after a fork: two processes must not use one connection."""
        self._lock = threading.Lock()
        self._owner: weakref.ref[Any] | None = None
        self._idle: Any = None

    def execute(self, db: Any, args: tuple[Any, ...]) -> Any:
        """Send a command on the kept connection of this client, or as the client itself sends it."""
        if not self._lock.acquire(blocking=False):
            return db.execute_command(*args, **RAW)
        client = db
        try:
            client, self._idle = self._take(db), None
            if client is db:
                return db.execute_command(*args, **RAW)
            reply = _send(client.connection, args)
            self._idle = client
            return reply
        except BaseException as error:
            if client is not db and isinstance(error, Exception) and replies.is_reply(error):
                self._idle = client
            elif client is not db:
                # The reply may still arrive, and the next call must not take it for its own.
                client.connection.disconnect()
                client.close()
            raise
        finally:
            self._lock.release()

    def _take(self, db: Any) -> Any:
        """Return a client that has the kept connection; or this client, if it keeps none."""
        if self._owner is None or self._owner() is not db:
            self._end()
            if not _may_keep(db):
                self._owner = None
                return db
            self._owner = weakref.ref(db)
        if self._idle is not None and not _is_fresh(self._idle.connection):
            self._end()
        return db.client() if self._idle is None else self._idle

    def _end(self) -> None:
        client, self._idle = self._idle, None
        if client is not None:
            client.close()

    def give_back(self) -> None:
        """Return the connection to its pool, unless a call uses it."""
        if self._lock.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._lock.release()


def _send(connection: Any, args: tuple[Any, ...]) -> Any:
    """Send a command and read its reply, as often as the client itself retries. What else a client does for a command
    takes it longer than both."""

    def exchange() -> Any:
        connection.send_command(*args)
        return connection.read_response(disable_decoding=True)

    return connection.retry.call_with_retry(exchange, lambda error: connection.disconnect())


def _may_keep(db: Any) -> bool:
    """Whether this is a plain client of the redis package with a pool of many connections."""
    if _kind_of(db) != ("redis.client", "Redis") or "execute_command" in vars(db) or db.connection is not None:
        return False
    if not _is_unwrapped(type(db).execute_command):
        return False
    pool = db.connection_pool
    return _kind_of(pool) == ("redis.connection", "ConnectionPool") and bool(pool.max_connections >= POOL_LEAST)


def _is_unwrapped(method: Any) -> bool:
    """Whether no other library has replaced the client's method, for traces of commands perhaps."""
    return isinstance(method, FunctionType) and bool(method.__globals__.get("__name__") == "redis.client")


def _kind_of(value: object) -> tuple[str, str]:
    return type(value).__module__, type(value).__qualname__


def _is_fresh(connection: Any) -> bool:
    """Whether Redis has neither closed this idle connection nor sent anything."""
    try:
        return not connection.can_read()
    except Exception:
        return False
