"""Supervises background loops: a loop runs again after an error, and the worker stops when it keeps failing."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from tenure.core import limits
from tenure.core.backoff import Pauses
from tenure.core.errors import AccessDenied, RedisError, Unreachable, is_away
from tenure.core.steps import Steps
from tenure.runtime.forks import ForkGuard
from tenure.runtime.jobs.reports import Reports
from tenure.runtime.log import Once, brief, log_event
from tenure.runtime.ports import Driver, Env, Messages

LOOP_FAILURES: Final = 10
"""A background loop that raised this often within a minute stops the worker with an error."""
CALM_MS: Final = 5 * limits.SECOND
"""How long no call must have been refused before access counts as restored: with a wrong password, calls on the
connections that are open succeed, and those that need a new one do not."""
REDIS_BACKOFF_MS: Final = 50
"""The pause after a background loop lost Redis. It doubles with every failure."""

T = TypeVar("T")


class LoopFailed(Exception):
    """A background loop keeps failing. The worker cannot continue without it."""


class MonitoredDriver:
    """The worker's driver. It knows whether Redis answers, and notifies listeners of changes."""

    def __init__(self, driver: Driver, env: Env, reports: Reports) -> None:
        self._own = ForkGuard()
        self._driver = driver
        self._reports = reports
        self._env = env
        self._refused = False
        self._refused_at = -math.inf
        self.down_since: float | None = None
        self.good_at = env.clock()
        """When Redis last gave a good reply, or when this driver was made."""
        driver.watch(self)

    async def run(self, steps: Steps[T]) -> T:
        self._own.end_clone()
        try:
            answer = await self._driver.run(steps)
        except (Unreachable, AccessDenied) as error:
            if is_away(error):
                self._away(error, 0.0)
            raise
        self.good_at = self._env.clock()
        self.redis_back()
        return answer

    def redis_lost(self, missed_s: float) -> None:
        """The driver has no reply. It retries its calls, and gives them up much later."""
        self._away(Unreachable("Redis does not answer."), missed_s)

    def redis_back(self) -> None:
        if self.down_since is None or self._env.clock() - self._refused_at < CALM_MS / limits.SECOND:
            return
        away, self.down_since = self._env.clock() - self.down_since, None
        if self._refused:
            log_event("redis_restored", what="access", after_s=away)
        self._refused = False
        self._reports.redis_back(away)

    def _away(self, error: Unreachable | AccessDenied, missed_s: float) -> None:
        """Report an outage once, and a refusal once. The driver logs outages."""
        refuses = isinstance(error, AccessDenied)
        if refuses:
            self._refused_at = self._env.clock()
        if self.down_since is None:
            self.down_since = self._env.clock() - missed_s
            self._reports.redis_away(error)
        if refuses and not self._refused:
            log_event("redis_refused", what="access", error=brief(error))
        self._refused = self._refused or refuses

    async def wait(self, steps: Steps[T]) -> T:
        """Wait for work. An error here does not mean that Redis is away: the next claim shows that."""
        self._own.end_clone()
        answer = await self._driver.run(steps)
        self.good_at = self._env.clock()
        return answer

    def subscribe(self, channel: str) -> AbstractAsyncContextManager[Messages]:
        self._own.end_clone()
        return self._driver.subscribe(channel)


class FailureRate:
    """Counts events within the last minute."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._at: deque[float] = deque(maxlen=most + 1)

    def strike(self, now: float) -> bool:
        """Count a failure. True: it was one too many."""
        self._at.append(now)
        minute = limits.MINUTE / limits.SECOND
        return len(self._at) > self._most and now - self._at[0] < minute


async def supervised(
    name: str,
    run: Callable[[], Awaitable[None]],
    stopping: Callable[[], bool],
    env: Env,
    ending: Callable[[], bool] = lambda: True,
) -> None:
    """Run a loop until it returns; when it raises, run it again after a growing pause.

    Errors of Redis may repeat for ever (`MonitoredDriver` logs those that mean that Redis is away). Any other error is
    a bug, as is a cancellation while the worker is neither `stopping` nor `ending`: a handler may cancel all tasks.
    After `LOOP_FAILURES` of them in a minute it raises `LoopFailed`.
    """
    strikes = FailureRate(LOOP_FAILURES - 1)
    pauses = redis_pauses(env)
    told = Once()
    while not stopping():
        began = env.clock()
        try:
            await run()
            return
        except RedisError as error:
            if env.clock() - began > limits.MINUTE / limits.SECOND:  # it went well until then
                told.forget()
            if not is_away(error) and told.is_new(text := brief(error)):
                log_event("redis_refused", what=name, error=text)
        except (Exception, asyncio.CancelledError, SystemExit) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                if stopping() or ending():
                    raise
                while task.uncancel():  # continue as if it had not been cancelled
                    pass
            log_event("loop_failed", loop=name, error=brief(error))
            if strikes.strike(env.clock()):
                raise LoopFailed(f"The {name} loop failed {LOOP_FAILURES} times in a minute.") from error
        if env.clock() - began > limits.MINUTE / limits.SECOND:
            pauses.reset()
        await env.sleep(pauses.next_s())


def redis_pauses(env: Env) -> Pauses:
    return Pauses(REDIS_BACKOFF_MS / limits.SECOND, env.limits.redis_pause_ms / limits.SECOND, env.random)


async def unsupervised(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a loop that restarts itself. Any error that it raises ends the worker in order, even `SystemExit`."""
    try:
        await run()
    except SystemExit as error:
        raise LoopFailed(f"The {name} loop raised SystemExit.") from error
