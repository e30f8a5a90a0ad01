"""Waits for work as the engine states it: see `core.waiting`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from tenure.core import limits
from tenure.core.backoff import HELD_S, RetryBudget
from tenure.core.engine import Engine
from tenure.core.errors import AccessDenied
from tenure.core.job import Leased
from tenure.core.steps import Steps, WaitLost
from tenure.core.waiting import Lead, Listen, Poll, SeparateWait, Take, Wait, Wake, alone, led_by
from tenure.runtime.log import Once, log_event
from tenure.runtime.loops import MonitoredDriver
from tenure.runtime.ports import Env, Messages

STAY_S: Final = 5.0
"""How long a worker of several queues waits for the one that brings jobs, before it waits for the next."""
LOST_LOGGED: Final = 5
"""The worker logs lost waits when this many were lost in a row."""


class WorkWaiter:
    """Executes the waits of one worker, and pauses longer and longer while waits are lost."""

    def __init__(self, engine: Engine, link: MonitoredDriver, worker: str, env: Env) -> None:
        self._engine = engine
        self._link = link
        self._worker = worker
        self._env = env
        self._backoff = RetryBudget(math.inf, env.random)
        self._lost = 0
        self._told = Once(1)
        self._put_back: Callable[[], Steps[None]] | None = None
        self._led_by: str | None = None
        """The queue of the last claim that waited; since when it is the same; and whether it brought a job."""
        self._led_since = -math.inf
        self._has_brought = False
        self._subscriptions: dict[str, Messages] = {}
        self._open = AsyncExitStack()

    def wait_for(self, queues: Sequence[str], timeout_ms: int, is_idle: bool) -> Wait:
        """How to wait until one of the queues may have work: a `Lead` is for `claim`, other waits are for `wait`.
        `is_idle`: the worker holds no jobs."""
        wait = self._engine.wait(self._worker, self._in_turn(queues), timeout_ms)
        return Wake(alone(wait)) if isinstance(wait, Lead) and wait.if_idle and not is_idle else wait

    async def wait(self, wait: SeparateWait, timeout_ms: int) -> str | None:
        """Wait until a queue may have work. Return its name; empty: unknown; None: the wait was lost."""
        began = self._env.clock()
        try:
            queue = await self._execute(wait, timeout_ms)
        except (WaitLost, AccessDenied) as error:
            await self._pause(error, began)
            return None
        self._note_good()
        return queue or ""

    async def claim(self, lead: Lead, steps: Steps[Leased]) -> tuple[Leased, bool]:
        """Wait and claim in one write. Return also whether the wait ended before its time. Raises `WaitLost`."""
        began = self._env.clock()
        try:
            leased = await self._link.run(led_by(lead.command, steps))
        except WaitLost as error:
            await self._pause(error, began)
            raise
        self._note_good()
        if lead.queue != self._led_by:
            self._led_by, self._led_since = lead.queue, began
        self._has_brought = bool(leased.leases)
        waited_ms = (self._env.clock() - began) * limits.SECOND
        return leased, waited_ms < lead.command.block_ms - limits.MIN_WAIT_MS

    async def put_back(self) -> None:
        """Return the job that a wait took to its queue: no claim will adopt it."""
        put_back, self._put_back = self._put_back, None
        if put_back is not None:
            await self._link.run(put_back())

    async def close(self) -> None:
        self._subscriptions = {}
        await self._open.aclose()

    def _in_turn(self, queues: Sequence[str]) -> tuple[str, ...]:
        """The queues, for a claim that waits: first the one that brings jobs, for a while; then the next."""
        last = self._led_by
        if last is None:
            return tuple(queues)
        ring = sorted(queues)
        stays = self._has_brought and self._env.clock() < self._led_since + STAY_S
        first = next((n for n, queue in enumerate(ring) if queue > last or (stays and queue == last)), 0)
        return (*ring[first:], *ring[:first])

    async def _execute(self, wait: SeparateWait, timeout_ms: int) -> str | None:
        match wait:
            case Wake(calls):
                return await self._link.wait(calls)
            case Take(call, put_back):
                self._put_back = put_back
                return await self._link.wait(call)
            case Poll(interval_ms):
                await self._env.sleep(min(interval_ms, timeout_ms) / limits.SECOND)
            case Listen():
                return await self._listen(wait, timeout_ms)
        return None

    async def _listen(self, wait: Listen, timeout_ms: int) -> str | None:
        """Return the queue that the next message names. After subscribing, return at once: a message may have come
        before. Channels stay subscribed between waits, so no message is missed between a claim and the next wait."""
        new = [channel for channel in wait.channels if channel not in self._subscriptions]
        for channel in new:
            self._subscriptions[channel] = await self._open.enter_async_context(self._link.subscribe(channel))
        if new:
            return None
        timeout_s = timeout_ms / limits.SECOND
        gets = [asyncio.ensure_future(self._subscriptions[channel].get(timeout_s)) for channel in wait.channels]
        try:
            await asyncio.wait(gets, return_when=asyncio.FIRST_COMPLETED)
            channels = dict(zip(wait.channels, gets, strict=True))
            messages = [
                (name, got) for name, get in channels.items() if get.done() and (got := get.result()) is not None
            ]
        finally:
            for get in gets:
                get.cancel()
        # Later messages remain in their subscriptions; one claim answers all messages of this wait.
        return next((queue for name, message in messages if (queue := wait.parse(name, message)) is not None), None)

    async def _pause(self, error: WaitLost | AccessDenied, began: float) -> None:
        now = self._env.clock()
        self._log_lost(error, now - began)
        await self._env.sleep(self._backoff.lost(now - began, now))

    def _note_good(self) -> None:
        self._backoff.good()
        self._lost = 0
        if self._told.forget():
            log_event("redis_restored", what="wait")

    def _log_lost(self, error: Exception, held_s: float) -> None:
        """Log waits that are lost in a row, once. A connection that is cut after a quiet while does not count."""
        cut = held_s >= HELD_S and isinstance(error, WaitLost) and not error.silent
        self._lost = 0 if cut else self._lost + 1
        if self._lost >= LOST_LOGGED and self._told.is_new(""):
            log_event("redis_lost", what="wait", error=str(error))
