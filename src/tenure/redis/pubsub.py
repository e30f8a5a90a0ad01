"""Subscriptions to many channels over one connection, for asyncio. Messages are hints: any of them may be lost.

One task sends and reconnects; messages are passed on as they arrive. Waiters never touch the connection, so a cancelled
waiter cannot harm the others.

    >>> async with driver.subscribe("news") as messages:   # doctest: +SKIP
    ...     await messages.get(timeout_s=1.0)
    b'hello'
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from tenure.core import limits
from tenure.core.backoff import RetryBudget
from tenure.core.errors import Unreachable
from tenure.redis import replies
from tenure.redis.availability import Availability
from tenure.redis.connector import Connector
from tenure.redis.link import pack
from tenure.redis.pipeline import AsyncLink
from tenure.redis.subscription import PING_MS

_PING_S: Final = PING_MS / 1000
_BATCH: Final = 500
"""The most channels in one command."""


class AsyncSubscription:
    """Made by `AsyncDriver.subscribe`. Entered once Redis has confirmed it, so later messages are not missed."""

    def __init__(self, hub: PubSub, channel: bytes) -> None:
        self._hub = hub
        self.channel = channel
        self.ready = asyncio.Event()
        self.failure: Exception | None = None
        self.messages: deque[bytes] = deque(maxlen=limits.MAX_MESSAGES)
        self.arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        try:
            await self._hub.join(self)
        except BaseException:
            self._hub.leave(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._hub.leave(self)

    async def get(self, timeout_s: float) -> bytes | None:
        """Wait for a message; None after `timeout_s`. It also waits while Redis is away or refuses the user."""
        if not self.messages:
            self.arrived.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self.arrived.wait()
            except TimeoutError:
                return None
        return self.messages.popleft()


class PubSub:
    """The subscriptions of one driver."""

    def __init__(
        self,
        connector: Connector,
        patience_s: float,
        reply_timeout_s: float,
        draw_random: Callable[[], float],
        condition: Availability,
        unused_s: float,
    ) -> None:
        self._connector = connector
        self._patience = patience_s
        self._reply_timeout = reply_timeout_s
        self._random = draw_random
        self._condition = condition
        self._unused_s = unused_s
        """How long the connection stays open without a subscription."""
        self._listeners: dict[bytes, set[AsyncSubscription]] = {}
        # Unconfirmed SUBSCRIBEs. A channel left and joined again is confirmed by the last of them only.
        self._unconfirmed: Counter[bytes] = Counter()
        self._outbox: deque[tuple[str, bytes]] = deque()
        self._work = asyncio.Event()
        self._connected = False
        self._last_error: Exception | None = None
        self._refusal: Exception | None = None
        """An error reply, as to SUBSCRIBE: the connection is made again."""
        self._task: asyncio.Task[None] | None = None

    def subscription(self, channel: str | bytes) -> AsyncSubscription:
        return AsyncSubscription(self, channel.encode() if isinstance(channel, str) else channel)

    async def join(self, subscription: AsyncSubscription) -> None:
        """Wait until Redis has confirmed the subscription. Raises `Unreachable` if Redis stays away."""
        channel = subscription.channel
        others = self._listeners.setdefault(channel, set())
        others.add(subscription)
        if self._connected and len(others) == 1:
            self._order("SUBSCRIBE", channel)
        elif self._connected and not self._unconfirmed[channel]:
            subscription.ready.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve(), name="tenure subscriptions")
        try:
            async with asyncio.timeout(self._patience):
                await subscription.ready.wait()
        except TimeoutError:
            last = self._last_error or TimeoutError("no reply in time")
            raise replies.unreachable(str(self._connector), self._patience, last) from self._last_error
        if subscription.failure is not None:
            raise subscription.failure

    def leave(self, subscription: AsyncSubscription) -> None:
        listeners = self._listeners.get(subscription.channel)
        if listeners is None or subscription not in listeners:
            return
        listeners.discard(subscription)
        if not listeners:
            del self._listeners[subscription.channel]
            if self._connected:
                self._order("UNSUBSCRIBE", subscription.channel)

    async def close(self) -> None:
        """End the tasks and close the connection. Waiters get None after their timeout."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._fail(Unreachable("The driver was closed while a subscription was being made."))

    def _order(self, what: str, channel: bytes) -> None:
        if what == "SUBSCRIBE":
            self._unconfirmed[channel] += 1
        self._outbox.append((what, channel))
        self._work.set()

    async def _serve(self) -> None:
        """Keep a connection while there are subscriptions, and for `unused_s` after the last of them."""
        renewals = RetryBudget(math.inf, self._random)
        while True:
            link: AsyncLink | None = None
            began = math.inf  # not connected yet
            try:
                link = await self._connector.open(AsyncLink)
                self._begin()
                began = time.monotonic()
                await self._talk(link)
                return  # nothing was subscribed for a while
            except Exception as error:
                self._last_error = error
                if not self._listeners:
                    return
                # A connection closed by the other end proves nothing: the next attempt shows whether Redis responds.
                silent = replies.timed_out(error) or link is None
                if not replies.is_passing(error):
                    self._fail(replies.error_of(error, str(self._connector)) if replies.is_reply(error) else error)
                    if not self._established:
                        return
                elif silent:
                    self._condition.lost(error, _PING_S + self._reply_timeout)
            finally:
                self._connected = False
                if link is not None:
                    await link.close()
            now = time.monotonic()
            await asyncio.sleep(renewals.lost(now - began, now))

    def _begin(self) -> None:
        self._connected = True
        self._condition.back()
        self._refusal = None
        self._unconfirmed.clear()
        self._outbox.clear()
        for channel in self._listeners:
            self._order("SUBSCRIBE", channel)

    async def _talk(self, link: AsyncLink) -> None:
        """Send the outbox until the connection is lost, and PINGs: silence means that the other end is gone."""
        link.receiver, link.on_lost = self._take_in, self._work.set
        asked_at, used_at = -math.inf, asyncio.get_running_loop().time()
        while True:
            if self._refusal is not None:
                raise self._refusal
            link.check()
            while self._outbox:
                link.send(pack(self._next_command()))
            now = asyncio.get_running_loop().time()
            if self._listeners:
                used_at = now
            elif now - used_at >= self._unused_s:
                return
            quiet_until = link.heard + _PING_S
            if now >= quiet_until and asked_at < link.heard:
                link.send(pack(("PING",)))
                asked_at = now
            if asked_at > link.heard:
                quiet_until = asked_at + self._reply_timeout
                if now >= quiet_until:
                    raise TimeoutError("no answer to PING")
            self._work.clear()
            wakes_at = quiet_until if self._listeners else min(quiet_until, used_at + self._unused_s)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(wakes_at):
                    await self._work.wait()

    def _next_command(self) -> tuple[str | bytes, ...]:
        what, channel = self._outbox.popleft()
        channels = [channel]
        while self._outbox and self._outbox[0][0] == what and len(channels) < _BATCH:
            channels.append(self._outbox.popleft()[1])
        return (what, *channels)

    def _take_in(self, item: Any) -> None:
        if isinstance(item, Exception):
            self._refusal = item
            self._work.set()
        if not isinstance(item, list) or len(item) != 3:
            return
        kind, channel, content = item
        listeners = self._listeners.get(channel, set())
        if kind == b"message":
            for listener in listeners:
                listener.messages.append(content)
                listener.arrived.set()
        elif kind == b"subscribe":
            self._unconfirmed[channel] -= 1
            if self._unconfirmed[channel] <= 0:
                del self._unconfirmed[channel]
                for listener in listeners:
                    listener.ready.set()

    @property
    def _established(self) -> bool:
        """Whether any subscription was confirmed before: the task retries for these, also when Redis refuses now."""
        everyone = (listener for listeners in self._listeners.values() for listener in listeners)
        return any(listener.ready.is_set() and listener.failure is None for listener in everyone)

    def _fail(self, failure: Exception) -> None:
        """Pass the failure to the subscriptions that wait for their confirmation."""
        for listeners in self._listeners.values():
            for listener in listeners:
                if not listener.ready.is_set():
                    listener.failure = failure
                    listener.ready.set()
