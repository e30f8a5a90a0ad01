"""The driver of one node of a cluster: an ordinary driver that makes one attempt."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from tenure.core.backoff import RetryBudget
from tenure.core.steps import Command, Invoke, Reply, Steps, WaitLost
from tenure.redis import replies
from tenure.redis.aio import AsyncDriver
from tenure.redis.availability import Availability
from tenure.redis.link import pack
from tenure.redis.pipeline import AsyncLink
from tenure.redis.sync import SyncDriver
from tenure.redis.wire import packed, time_for

T = TypeVar("T")


class NodeFailed(Exception):
    """An attempt failed, and may be repeated. `error`: what the connection raised. `was_lost`: no attempt was made,
    since the node did not reply a moment ago."""

    def __init__(self, error: Exception, was_lost: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.was_lost = was_lost


class BlockingNode(SyncDriver):
    """The driver of one node, for blocking code. An attempt that fails raises `NodeFailed`."""

    async def perform(self, steps: Steps[T]) -> T:
        return self.run(steps)

    def _pause(self, patience: RetryBudget, error: Exception, silent_s: float) -> float:
        raise _failed(self._availability, error, silent_s)


class AsyncNode(AsyncDriver):
    """The driver of one node, for asyncio. An attempt that fails raises `NodeFailed`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waiting: list[AsyncLink] = []

    async def perform(self, steps: Steps[T]) -> T:
        return await self.run(steps)

    async def wait(self, call: Command, begun: Callable[[int], None]) -> Reply:
        """Send a blocking command on a connection for waits. `begun` gets its id, for CLIENT UNBLOCK."""
        self._check_home()
        link: AsyncLink | None = None
        try:
            while self._waiting and link is None:
                link = self._waiting.pop()
                link = link if link.is_open else None
            if link is None:
                link = await self._connector.open(AsyncLink)
                link.number = int(await link.ask(pack(("CLIENT", "ID")), self._reply_timeout, self._reply_timeout))
            begun(link.number)
            data = packed(call)
            reply = await link.ask(data, time_for(call, data, self._reply_timeout), self._reply_timeout)
        except BaseException as error:
            if link is not None:
                await link.close()
            if not isinstance(error, Exception):
                raise
            if replies.is_passing(error):
                raise WaitLost(replies.cause_of(error), replies.timed_out(error)) from error
            if replies.is_reply(error):
                raise replies.error_of(error, str(self._target)) from None
            raise
        self.liveness = link.idle_since = time.monotonic()
        if self._closed:
            await link.close()
        else:
            self._waiting.append(link)
            if not self._is_aging:
                self._age_later()
        return reply

    def _pools(self) -> tuple[tuple[list[AsyncLink], int], ...]:
        return (*super()._pools(), (self._waiting, 0))

    async def close(self) -> None:
        await super().close()
        waiting, self._waiting = self._waiting, []
        for link in waiting:
            await link.close()
            await link.closed()

    def _abandon(self) -> None:
        super()._abandon()
        self._abandoned.append(self._waiting)
        self._waiting = []

    def _pause(self, patience: RetryBudget, error: Exception, silent_s: float) -> float:
        raise _failed(self._availability, error, silent_s)


Node: TypeAlias = BlockingNode | AsyncNode


def _failed(availability: Availability, error: Exception, silent_s: float) -> NodeFailed:
    if not is_busy(error):
        availability.lost(error, silent_s)
    return NodeFailed(error)


def is_busy(error: Exception) -> bool:
    """Whether a node that is well refused a call for a moment: it moves the slot to another node, or runs a script."""
    return replies.is_reply(error) and replies.read(replies.text_of(error))[0] in ("TRYAGAIN", "BUSY")


def one(call: Command | Invoke) -> Steps[Reply]:
    return (yield call)
