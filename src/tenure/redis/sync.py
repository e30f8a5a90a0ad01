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
import threading
from collections.abc import Callable
from typing import TypeVar

from tenure.core.errors import Unreachable
from tenure.core.steps import Steps, finish
from tenure.redis.attempt import Retrying
from tenure.redis.link import BlockingLink
from tenure.redis.subscription import Subscription

T = TypeVar("T")


class SyncDriver(Retrying[BlockingLink]):
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

    _kind = BlockingLink
    _min_idle_connections = 1
    _aging: threading.Timer | None = None

    def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end and return its answer.

        Raises what the operation raises; of Redis `Unreachable`, `AccessDenied`, `WrongState`, `QueueFull` and
        `ReplyError`; of a wait that came to nothing `WaitLost`.
        """
        if os.getpid() != self._pid:
            self._start_afresh()
        return finish(self._run(steps))

    def run_on_each(self, make: Callable[[], Steps[T]]) -> list[tuple[str, T | Unreachable]]:
        """Run an operation on each server that has keys. The answers, each with the address of its server; an error
        for one that is lost while others respond.

        driver.run_on_each(lambda: inspection(...))
        """
        if os.getpid() != self._pid:
            self._start_afresh()
        return finish(self._run_on_each(make))

    def subscribe(self, *channels: str | bytes) -> Subscription:
        """Listen on one or more channels, on a connection of its own.

            with driver.subscribe("channel") as messages:
                message = messages.get(timeout_s=5)   # bytes, or None

        Messages sent while the connection was down are lost. Raises `Unreachable` and `AccessDenied`.
        """
        if os.getpid() != self._pid:
            self._start_afresh()
        self._check_open()
        own = (self._connector, channels, self._patience, self._reply_timeout, self._random, self._availability)
        return Subscription(*own)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Close the idle connections; those in use close as their calls end. The driver cannot be used again."""
        self._closed = True
        if self._aging is not None:
            self._aging.cancel()
        if os.getpid() != self._pid:
            self._start_afresh()
        finish(self._drop_idle())
        self._connector.close()

    def _age_later(self) -> None:
        # Only for a second connection: a program with one thread gets no other, so that it may fork.
        self._is_aging = True
        self._aging = threading.Timer(self._idle_check_s, self._age)
        self._aging.daemon, self._aging.name = True, "tenure connections"
        self._aging.start()

    def _make_connection_limit(self) -> None:
        self._connection_limit = None if self._max_connections is None else threading.Semaphore(self._max_connections)

    async def _acquire_connection(self) -> bool:
        return bool(self._connection_limit.acquire(timeout=self._patience))
