"""The blocking driver: runs steps on pooled connections, from any number of threads.

>>> driver = SyncDriver("redis://localhost:6379/0")
>>> def size(key):
...     return (yield Command(("LLEN", key)))
>>> driver.run(size("some list"))                # doctest: +SKIP
0
>>> driver.close()
"""

from __future__ import annotations

import os
import time
from typing import TypeVar

from leasehold.core.steps import Reply, Steps, finish
from leasehold.redis import replies
from leasehold.redis.attempt import Retrying
from leasehold.redis.connector import Connection, socket_of
from leasehold.redis.subscription import Subscription

T = TypeVar("T")


class _Link:
    """A connection with a timeout for each reply. Its coroutines block."""

    __slots__ = ("_send", "_socket", "_timeout", "connection", "has_replied")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._send = connection.send_packed_command
        self._socket = socket_of(connection)
        self._timeout = -1.0
        self.has_replied = False

    async def ask(self, data: bytes, timeout_s: float, silence_s: float, led: bool = False) -> Reply:
        # The timeout is that of the socket: for sending as a whole, and for each piece of the reply that arrives.
        if timeout_s != self._timeout:
            self._socket.settimeout(timeout_s)
            self._timeout = timeout_s
        self._send([data], False)
        if led:
            with replies.ignoring_refusal():
                self.connection.read_response()
        return self.connection.read_response()

    async def close(self) -> None:
        self.connection.disconnect()


class SyncDriver(Retrying[_Link]):
    """Runs steps against one Redis, for programs without an event loop. Times in milliseconds.

        driver = SyncDriver("redis://localhost:6379/0", patience_ms=2_000)
        driver.run(engine.enqueue([job]))

    A call that fails is sent again, the same bytes, until `patience_ms` after its first failure; then `Unreachable` is
    raised into the steps. Every call that an engine yields may be sent twice, but for a wait: `WaitLost` is raised
    instead. `reply_timeout_ms` bounds the silence before and within a reply (blocking commands get their own time on
    top), `connect_timeout_ms` each step of connecting.

    Nothing is sent before the first `run`. Safe to use from several threads and after a fork. Tests that want a call
    to fail wrap the steps. Raises `NotConfigured` when the URL cannot be used.
    """

    def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end and return its answer.

        Raises what the operation raises; of Redis `Unreachable`, `AccessDenied`, `WrongState`, `QueueFull` and
        `ReplyError`; of a wait that came to nothing `WaitLost`.
        """
        if os.getpid() != self._pid:
            self._start_afresh()
        return finish(self._run(steps))

    def subscribe(self, channel: str | bytes) -> Subscription:
        """Listen on a channel, on a connection of its own.

            with driver.subscribe("channel") as messages:
                message = messages.get(timeout_s=5)   # bytes, or None

        Messages sent while the connection was down are lost. Raises `Unreachable` and `AccessDenied`.
        """
        if os.getpid() != self._pid:
            self._start_afresh()
        self._check_open()
        own = (self._connector, channel, self._patience, self._reply_timeout, self._random, self._availability)
        return Subscription(*own)

    def close(self) -> None:
        """Close the idle connections; those in use close as their calls end. The driver cannot be used again."""
        self._closed = True
        if os.getpid() != self._pid:
            self._start_afresh()
        finish(self._drop_idle())
        self._connector.close()

    async def _connect(self, timeout_s: float) -> _Link:
        return _Link(self._connector.connect(timeout_s=timeout_s))

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251
