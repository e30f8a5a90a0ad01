"""Receives cancel and quiet requests at once: the next heartbeat or announcement would bring them anyway. Receives
requests for the stacks of running handlers, which nothing else brings.

Requests of other clients are kept nowhere. The engine notes them in Redis, so that the next heartbeat brings them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from tenure.core import limits
from tenure.core.engine import SHOW_STACKS
from tenure.core.errors import AccessDenied
from tenure.core.job import LeaseRef
from tenure.core.ports import RequestPort
from tenure.runtime.context import WorkerContext
from tenure.runtime.log import Once, brief, log_event
from tenure.runtime.ports import Messages


class RequestSubscriber:
    """A subscription for each channel. A lost message costs the time to the next heartbeat or announcement."""

    def __init__(
        self,
        context: WorkerContext,
        cancel: Callable[[LeaseRef, str], None],
        announce: Callable[[], Awaitable[None]],
        show_stacks: Callable[[], Awaitable[None]],
    ) -> None:
        self._context = context
        self._driver = context.driver
        self._signals = context.engine.signal_channel(context.worker)
        self._inflight = context.inflight
        self._cancel = cancel
        self._announce = announce
        self._show_stacks = show_stacks
        self._told = Once(16)
        self._look_s = context.env.limits.resubscribe_ms / limits.SECOND
        """After this time without a message the worker subscribes again, which renews a subscription that Redis
        refused. Also the pause after a refusal."""

    async def run(self) -> None:
        loops = [self._subscribe(self._signals, self._signal)]
        if (requests := self._context.engine.requests) is not None:
            channels = requests.request_channels(self._context.queues)
            loops += [
                self._subscribe(name, partial(self._request, requests, queue)) for name, queue in channels.items()
            ]
        tasks = [asyncio.ensure_future(loop) for loop in loops]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _subscribe(self, channel: str, act: Callable[[bytes], Awaitable[None]]) -> None:
        while True:
            try:
                async with self._driver.subscribe(channel) as messages:
                    await self._listen(channel, messages, act)
            except AccessDenied as error:
                if self._told.is_new(text := brief(error)):
                    log_event("redis_refused", logging.WARNING, what="subscribe", error=text)
                await self._context.env.sleep(self._look_s)

    async def _listen(self, channel: str, messages: Messages, act: Callable[[bytes], Awaitable[None]]) -> None:
        while True:
            first = await messages.get(self._look_s)
            if first is None:
                async with self._driver.subscribe(channel):
                    continue
            # Jobs that are cancelled together send many messages about one queue: ask once.
            different = {first}
            for _ in range(limits.MAX_MESSAGES):
                more = await messages.get(0)
                if more is None:
                    break
                different.add(more)
            for message in different:
                await act(message)

    async def _signal(self, message: bytes) -> None:
        if message == SHOW_STACKS:
            await self._show_stacks()
            return
        await self._act(message.decode("utf-8", "surrogateescape"))

    async def _request(self, requests: RequestPort, queue: str, message: bytes) -> None:
        if await self._driver.run(requests.note_request(self._context.worker, queue, message)):
            await self._act(queue)

    async def _act(self, queue: str) -> None:
        if not queue:
            await self._announce()
        elif queue in self._context.queues:
            held = [ref for ref in self._inflight.snapshot() if ref.queue == queue]
            if held:
                ask = self._context.engine.heartbeat(self._context.worker, (queue,), held)
                for asked in (await self._driver.run(ask)).cancelled:
                    self._cancel(asked.ref, asked.reason)
