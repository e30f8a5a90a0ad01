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
import random
import time
from collections.abc import Callable
from typing import TypeVar

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument, LeaseholdError, Unreachable
from leasehold.core.patience import RetryBudget
from leasehold.core.steps import Acknowledged, Command, Draw, Invoke, Reply, Steps, WaitLost, Watcher
from leasehold.redis import replies
from leasehold.redis.availability import Availability
from leasehold.redis.connector import MAX_IDLE_CONNECTIONS, AsyncConnection, Connector, ask_within
from leasehold.redis.pubsub import AsyncSubscription, PubSub
from leasehold.redis.replies import Action
from leasehold.redis.sessions import Session, Sessions
from leasehold.redis.url import Target
from leasehold.redis.wire import acknowledged, first_key, flat, packed, packed_text, packed_wait, time_for, wait_in

T = TypeVar("T")


class _Link:
    """A connection, and whether it has answered before."""

    __slots__ = ("connection", "used")

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.used = False

    async def ask(self, data: bytes, timeout_s: float, silence_s: float, led: bool = False) -> Reply:
        return await ask_within(self.connection, data, timeout_s, silence_s, led)

    async def close(self) -> None:
        await self.connection.disconnect(nowait=True)


class AsyncDriver:
    """Runs steps against one Redis, on one event loop. The twin of `SyncDriver`: same options, same errors.

        driver = AsyncDriver("redis://localhost:6379/0")
        await driver.run(engine.enqueue([job]))

    Any number of tasks may run steps at once. A task that is cancelled while it waits for a reply drops its connection,
    so that nobody else can be given that reply. It starts afresh in a forked child and, when the loop it belonged to is
    closed, on the next loop; raises `InvalidArgument` when it is used on two running loops.
    """

    def __init__(
        self,
        target: Target | str,
        *,
        patience_ms: int = limits.PATIENCE_MS,
        connect_timeout_ms: int = limits.CONNECT_TIMEOUT_MS,
        reply_timeout_ms: int = limits.REPLY_TIMEOUT_MS,
        max_idle: int = MAX_IDLE_CONNECTIONS,
        draw_random: Callable[[], float] = random.random,
    ) -> None:
        self._target = Target.parse(target) if isinstance(target, str) else target
        self._dialler = Connector(self._target, connect_timeout_ms)
        self._condition = Availability(str(self._target), lambda: self.liveness)
        self._patience = patience_ms / 1000
        self._reply_timeout = reply_timeout_ms / 1000
        self._max_idle = max_idle
        self._random = draw_random
        self._resp3 = self._target.protocol == 3
        self._idle: list[_Link] = []
        self._sessions = Sessions()
        self._hub: PubSub | None = None
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._abandoned: list[object] = []
        self._closed = False
        self.liveness = 0.0

    def __repr__(self) -> str:
        return f"AsyncDriver({str(self._target)!r})"

    async def run(self, steps: Steps[T]) -> T:
        """Run an operation to its end and return its answer.

        Raises what the operation raises; of Redis `Unreachable`, `AccessDenied`, `WrongState`, `QueueFull` and
        `ReplyError`; of a wait that came to nothing `WaitLost`.
        """
        self._check_home()
        session: Session | None = None
        try:
            call = next(steps)
            while True:
                if isinstance(call, Draw):
                    session = session or self._sessions.take()
                    call = steps.send(session.draw())
                    continue
                held, session = session, None  # in doubt until the final reply is here
                try:
                    reply = await self._call(call)
                except Unreachable as error:
                    call = steps.throw(error)
                except LeaseholdError as error:
                    session = held
                    call = steps.throw(error)
                else:
                    session = held
                    call = steps.send(reply)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        finally:
            steps.close()
            if session is not None:
                self._sessions.give(session)

    def subscribe(self, channel: str | bytes) -> AsyncSubscription:
        """Listen on a channel. All subscriptions share one connection.

            async with driver.subscribe("channel") as messages:
                message = await messages.get(timeout_s=5)   # bytes, or None

        Messages sent while the connection was down are lost. Raises `Unreachable` and `AccessDenied` on entering.
        """
        self._check_home()
        if self._hub is None:
            self._hub = PubSub(self._dialler, self._patience, self._reply_timeout, self._random, self._condition)
        return self._hub.subscription(channel)

    def watch(self, watcher: Watcher) -> None:
        """Have this called when Redis stops answering, and when it is back: once each, as it is logged."""
        self._condition.watch(watcher)

    async def close(self) -> None:
        """Close the connections. Those in use close as their calls end. The driver cannot be used again."""
        self._closed = True
        if self._loop is None or self._moved():
            self._abandon()
        hub, self._hub = self._hub, None
        idle, self._idle = self._idle, []
        try:
            if hub is not None:
                await hub.close()
        finally:
            for link in idle:
                await link.connection.disconnect()
            self._dialler.close()

    async def _call(self, call: Command | Invoke) -> Reply:
        data = packed(call)
        timeout = time_for(call, data, self._reply_timeout)
        led = isinstance(call, Invoke) and call.lead is not None
        patience: RetryBudget | None = None
        fresh = False
        while True:
            link: _Link | None = None
            left = math.inf if patience is None else patience.left(time.monotonic())
            bound = min(timeout, left + timeout - self._reply_timeout)
            try:
                link = await self._take(fresh, left)
                reply = await link.ask(data, bound, self._reply_timeout, led)
                reply = flat(call, reply) if self._resp3 else reply
                if isinstance(call, Invoke) and call.replicas:
                    reply = await self._wait(link, call.replicas, reply)
            except Exception as error:
                closed = link is not None and link.used and replies.was_closed(error)
                action = replies.action_of(error)
                await self._put(link, replies.keeps_connection(error) and action is not Action.RECONNECT)
                if action is Action.NOSCRIPT and isinstance(call, Invoke):
                    data, led = packed_text(call), False
                elif closed and wait_in(call) is None:
                    # The server closed it while it was idle, and probably the others too: no reason to wait.
                    await self._drop_idle()
                    fresh = True
                elif action in (Action.RESEND, Action.RECONNECT):
                    if action is Action.RECONNECT:
                        await self._drop_idle()
                    if wait_in(call) is not None:
                        raise WaitLost(replies.cause_of(error), replies.timed_out(error)) from error
                    patience = patience or RetryBudget(self._patience, self._random)
                    await asyncio.sleep(self._delay(patience, error, bound))
                elif replies.is_reply(error):
                    raise replies.error_of(error, str(self._target), first_key(call)) from None
                else:
                    raise
            except BaseException:
                # Cancelled: the reply may still be on its way, and nobody else may read it.
                await self._put(link, False)
                raise
            else:
                self.liveness = time.monotonic()
                link.used = True
                await self._put(link, True)
                if self._condition.failed_at is not None:
                    self._condition.back()
                return reply

    async def _wait(self, link: _Link, replicas: int, reply: Reply) -> Acknowledged:
        """Wait for the replicas. The link is in order after an error reply too, unless this raises."""
        try:
            bound = limits.WAIT_MS / limits.SECOND + self._reply_timeout
            waited = await link.ask(packed_wait(replicas), bound, self._reply_timeout)
        except Exception as error:
            return acknowledged(reply, error)
        return acknowledged(reply, waited)

    def _delay(self, patience: RetryBudget, error: Exception, silent_s: float) -> float:
        self._condition.lost(error, silent_s)
        last = patience.telling(error, replies.says_why(error))
        delay = patience.failed(time.monotonic())
        if delay is None:
            raise replies.unreachable(str(self._target), self._patience, last) from last
        return delay

    async def _take(self, fresh: bool, left_s: float) -> _Link:
        while self._idle and not fresh:
            link = self._idle.pop()
            if not self._dialler.outdated(link.connection):
                return link
            await link.close()
        return _Link(await self._dialler.aconnect(timeout_s=left_s))

    async def _put(self, link: _Link | None, usable: bool) -> None:
        if link is None:
            return
        if usable and not self._closed and len(self._idle) < self._max_idle:
            self._idle.append(link)
        else:
            await link.close()

    async def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for link in idle:
            await link.close()

    def _check_home(self) -> None:
        if self._closed:
            raise InvalidArgument("This driver was closed. Make a new one.")
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
        # Closing a transport of the parent's loop in a child would also take it out of the parent's selector, and
        # sharing a session would mix up answers. So all of it is left alone, and kept from the garbage collector.
        if os.getpid() != self._pid:
            self._dialler.forked()
            self._condition.forked()
        self._pid = os.getpid()
        self._abandoned.extend((self._idle, self._hub))
        self._idle = []
        self._hub = None
        self._sessions = Sessions()
