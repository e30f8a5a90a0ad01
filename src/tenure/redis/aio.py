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
import math
import os
from collections.abc import Callable
from typing import Any, TypeVar

from tenure.core.errors import InvalidArgument, Unreachable
from tenure.core.steps import Command, Invoke, Steps, Watcher, Work
from tenure.redis.attempt import Retrying
from tenure.redis.pipeline import AsyncLink
from tenure.redis.pubsub import AsyncSubscription, PubSub
from tenure.redis.wire import has_own_connection, packed

T = TypeVar("T")


class AsyncDriver(Retrying[AsyncLink]):
    """Runs steps against one Redis, on one event loop. The twin of `SyncDriver`: same options, same errors.

        driver = AsyncDriver("redis://localhost:6379/0")
        await driver.run(engine.enqueue([job]))

    Any number of tasks may run steps at once. Their calls share one connection, and the calls of one moment go out in
    one write; waits, large calls and calls that wait for replicas have their own connections. A task that is cancelled
    while it waits for a reply harms no other. The driver starts afresh in a forked child and, when the loop it belonged
    to is closed, on the next loop; it raises `InvalidArgument` when it is used on two running loops.
    """

    _kind = AsyncLink

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._pubsub: PubSub | None = None
        self._shared: AsyncLink | None = None
        self._opening: asyncio.Task[AsyncLink] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._abandoned: list[object] = []
        self._aging: asyncio.TimerHandle | None = None

    async def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end and return its answer.

        Raises what the operation raises; of Redis `Unreachable`, `AccessDenied`, `WrongState`, `QueueFull` and
        `ReplyError`; of a wait that came to nothing `WaitLost`.
        """
        self._check_home()
        return await self._run(steps)

    async def run_on_each(self, make: Callable[[], Steps[T]]) -> list[tuple[str, T | Unreachable]]:
        """Run an operation on each server that has keys. The answers, each with the address of its server; an error
        for one that is lost while others respond."""
        self._check_home()
        return await self._run_on_each(make)

    def subscribe(self, channel: str | bytes) -> AsyncSubscription:
        """Listen on a channel. All subscriptions share one connection.

            async with driver.subscribe("channel") as messages:
                message = await messages.get(timeout_s=5)   # bytes, or None

        Messages sent while the connection was down are lost. Raises `Unreachable` and `AccessDenied` on entering.
        """
        self._check_home()
        if self._pubsub is None:
            self._pubsub = PubSub(
                self._connector,
                self._patience,
                self._reply_timeout,
                self._random,
                self._availability,
                unused_s=self._idle_s,
            )
        return self._pubsub.subscription(channel)

    def watch(self, watcher: Watcher) -> None:
        """Have this called when Redis stops answering, and when it is back: once each, as it is logged."""
        self._availability.watch(watcher)

    async def close(self) -> None:
        """Close the connections. Those in use close as their calls end. The driver cannot be used again."""
        self._closed = True
        if self._aging is not None:
            self._aging.cancel()
        if self._loop is None or self._moved():
            self._abandon()
        pubsub, self._pubsub = self._pubsub, None
        idle, self._idle = self._idle, []
        for link in idle:
            await link.close()  # before anything that may be cancelled
        try:
            if pubsub is not None:
                await pubsub.close()
        finally:
            try:
                await self._close_shared()
                for link in idle:
                    await link.closed()
            finally:
                self._connector.close()

    async def _close_shared(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
        link, self._shared = self._shared, None
        if link is not None:
            link.retire()
            if not link.is_busy:
                await link.closed()

    async def _work(self, work: Work) -> Any:
        return await asyncio.to_thread(work.function)

    async def _take(self, alone: bool, fresh: bool, left_s: float) -> AsyncLink:
        if alone:
            return await super()._take(alone, fresh, left_s)
        link = self._shared
        if link is not None and link.is_open:
            if not self._connector.outdated(link):
                return link
            link.retire()
        self._check_open()  # a call that is repeated while the driver is closed opens no connection
        # A task of its own: any of the callers that wait for it may be cancelled.
        opening = self._opening
        if opening is None:
            opening = self._opening = asyncio.create_task(self._open_shared(), name="tenure connection")
            # If all of them are, asyncio would report an error that no caller has seen.
            opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(None if left_s == math.inf else left_s):
                return await asyncio.shield(opening)
        except TimeoutError as error:
            error.is_unsent = True  # type: ignore[attr-defined]
            raise

    async def _open_shared(self) -> AsyncLink:
        try:
            link = await self._connector.open(AsyncLink)
            if self._closed:  # `close` was cancelled while it waited for this task to end
                await link.close()
                raise asyncio.CancelledError
            link.is_shared = True
            self._shared = link
            return link
        finally:
            self._opening = None

    async def _put(self, link: AsyncLink | None, usable: bool) -> None:
        if link is None or not link.is_shared:
            await super()._put(link, usable)
        elif not usable:
            link.retire()

    async def _drop_idle(self, like: AsyncLink | None = None) -> None:
        shared = self._shared
        if shared is not None and like is not None and shared.heard <= like.heard:
            shared.retire()
        await super()._drop_idle(like)

    def _keep(self, link: AsyncLink) -> bool:
        if not link.is_shared:
            return super()._keep(link)
        if self._closed:
            link.retire()
        return True

    def _age_later(self) -> None:
        self._is_aging = True
        self._aging = asyncio.get_running_loop().call_later(self._idle_check_s, self._age)

    def _make_connection_limit(self) -> None:
        # The shared connection and that for messages need no place.
        self._connection_limit = None if self._max_connections is None else asyncio.Semaphore(self._max_connections - 2)

    def _counts_for_limit(self, call: Command | Invoke | Work) -> bool:
        return not isinstance(call, Work) and has_own_connection(call, packed(call))

    async def _acquire_connection(self) -> bool:
        try:
            async with asyncio.timeout(self._patience):
                return bool(await self._connection_limit.acquire())
        except TimeoutError:
            return False

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
        self._abandoned.extend((self._idle, self._pubsub, self._shared, self._opening))
        self._pubsub = self._shared = self._opening = self._aging = None
        self._start_afresh()
