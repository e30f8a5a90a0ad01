"""The asyncio driver: runs steps on pooled connections of one event loop.

>>> async def main():
...     driver = AsyncDriver("redis://localhost:6379/0")
...     try:
...         return await driver.run(size("some list"))
...     finally:
...         await driver.close()
>>> def size(key):
...     return (yield Command(("LLEN", key)))
>>> asyncio.run(main())                          # doctest: +SKIP
0
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, TypeVar

from leasehold.core.errors import InvalidArgument
from leasehold.core.steps import Steps, Watcher, Work
from leasehold.redis.attempt import Retrying
from leasehold.redis.link import AsyncLink
from leasehold.redis.pubsub import AsyncSubscription, PubSub

T = TypeVar("T")


class AsyncDriver(Retrying[AsyncLink]):
    """Runs steps against one Redis, on one event loop. The twin of `SyncDriver`: same options, same errors.

        driver = AsyncDriver("redis://localhost:6379/0")
        await driver.run(engine.enqueue([job]))

    Any number of tasks may run steps at once. A task that is cancelled while it waits for a reply drops its connection,
    so that nobody else can be given that reply. It starts afresh in a forked child and, when the loop it belonged to is
    closed, on the next loop; raises `InvalidArgument` when it is used on two running loops.
    """

    _kind = AsyncLink

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._pubsub: PubSub | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._abandoned: list[object] = []

    async def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end and return its answer.

        Raises what the operation raises; of Redis `Unreachable`, `AccessDenied`, `WrongState`, `QueueFull` and
        `ReplyError`; of a wait that came to nothing `WaitLost`.
        """
        self._check_home()
        return await self._run(steps)

    def subscribe(self, channel: str | bytes) -> AsyncSubscription:
        """Listen on a channel. All subscriptions share one connection.

            async with driver.subscribe("channel") as messages:
                message = await messages.get(timeout_s=5)   # bytes, or None

        Messages sent while the connection was down are lost. Raises `Unreachable` and `AccessDenied` on entering.
        """
        self._check_home()
        if self._pubsub is None:
            self._pubsub = PubSub(
                self._connector, self._patience, self._reply_timeout, self._random, self._availability
            )
        return self._pubsub.subscription(channel)

    def watch(self, watcher: Watcher) -> None:
        """Have this called when Redis stops answering, and when it is back: once each, as it is logged."""
        self._availability.watch(watcher)

    async def close(self) -> None:
        """Close the connections. Those in use close as their calls end. The driver cannot be used again."""
        self._closed = True
        if self._loop is None or self._moved():
            self._abandon()
        pubsub, self._pubsub = self._pubsub, None
        idle, self._idle = self._idle, []
        try:
            if pubsub is not None:
                await pubsub.close()
        finally:
            for link in idle:
                await link.connection.disconnect()
            self._connector.close()

    async def _work(self, work: Work) -> Any:
        return await asyncio.to_thread(work.function)

    def _check_home(self) -> None:
        self._check_open()
        if self._loop is not None and not self._moved():
            return
        if self._loop is not None:
            if os.getpid() == self._pid and not self._loop.is_closed():
                raise InvalidArgument("This AsyncDriver belongs to another event loop. Make one for each loop.")
            self._abandon()
        self._loop = asyncio.get_running_loop()

    def _moved(self) -> bool:
        return os.getpid() != self._pid or self._loop is not asyncio.get_running_loop()

    def _abandon(self) -> None:
        # To close a transport of the parent's loop in a child would also remove it from the parent's selector. So the
        # connections stay as they are, and are kept from the garbage collector.
        self._abandoned.extend((self._idle, self._pubsub))
        self._pubsub = None
        self._start_afresh()
