"""Tells those who listen what happens in the worker: in order, beside the jobs, and never at their cost.

Events wait in a bounded line; when listeners are too slow for it, the newest are dropped and counted. There is no
`EventDispatcher` in a worker to which nobody listens, and no event is made that nobody wants to hear.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from leasehold.core import events, limits
from leasehold.core.events import EVENTS, Event, Listener
from leasehold.core.job import JobView, Lease
from leasehold.core.outcome import (
    Broken,
    Cancelled,
    Completed,
    Crashed,
    Failed,
    Outcome,
    Released,
    Retried,
    Unroutable,
)
from leasehold.runtime.errors import describe
from leasehold.runtime.jobs.held import Held
from leasehold.runtime.log import Once, callback_failed, log_event, source_location
from leasehold.runtime.ports import Env

EVENTS_ROUND: Final = 100
"""Events that listeners receive before the event loop does other work."""
TOLD_MAX: Final = 100
"""Kinds of trouble that are logged once each. Further kinds are logged at debug level only."""

_OF_OUTCOME: Final[dict[type, type[Event]]] = {
    Completed: events.Completed,
    Retried: events.Retried,
    Failed: events.Failed,
    Broken: events.Broken,
    Cancelled: events.Cancelled,
    Released: events.Released,
    Crashed: events.Crashed,
    Unroutable: events.Unroutable,
}


class EventDispatcher:
    """See the module. Used from the event loop's thread only; nothing but `run` and `flushed` waits, nothing raises."""

    def __init__(
        self, listeners: Sequence[Listener], worker: str, env: Env, wall: Callable[[], float] = time.time
    ) -> None:
        self._listeners = {kind: tuple(one for one in listeners if issubclass(kind, one.kinds)) for kind in EVENTS}
        self._worker = worker
        self._env = env
        self._wall = wall
        self._waiting: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._dropping = 0
        self._told = Once(TOLD_MAX)
        self.dropped = 0
        """Events that nobody heard, because listeners were too slow."""
        self._hearing = False
        self._claimed = bool(self._listeners[events.Claimed])
        self._started = bool(self._listeners[events.Started])

    # ------------------------------------------------------------------------------------------------ what is to tell

    def claimed(self, lease: Lease) -> None:
        if self._claimed:
            self._tell(events.Claimed(**self._of(lease)))

    def started(self, held: Held) -> None:
        if self._started:
            waited = max(0.0, held.started_at - held.claimed_at)
            self._tell(events.Started(**self._of(held.lease), waited=waited))

    def ending(self, held: Held) -> None:
        """Its attempt is over; how it ended is on its way to Redis."""
        held.end_at(self._env.clock())

    def ended(self, held: Held, outcome: Outcome) -> None:
        """Redis has noted how the attempt ended."""
        kind = _OF_OUTCOME[type(outcome)]
        if not self._listeners[kind]:
            return
        about = self._of(held.lease) | {"seconds": self._seconds(held)}
        match outcome:
            case Retried(error, delay_ms):
                about |= {
                    "error_type": error.type,
                    "place": source_location(error.traceback),
                    "delay": delay_ms / limits.SECOND,
                }
            case Failed(error) | Broken(error):
                about |= {"error_type": error.type, "place": source_location(error.traceback)}
            case Cancelled(reason):
                about["reason"] = reason
        self._tell(kind(**about))

    def lost(self, held: Held, noticed: str, *, certain: bool = True) -> None:
        if self._listeners[events.Lost]:
            seconds = self._seconds(held)
            self._tell(events.Lost(**self._of(held.lease), seconds=seconds, noticed=noticed, certain=certain))

    def poisoned(self, view: JobView) -> None:
        """A job took down what ran it once too often, here or elsewhere."""
        about: dict[str, Any] = {"id": view.id, "queue": view.queue, "task": view.task, "lane": view.shape.lane}
        about |= {"attempt": view.failures + view.crashes, "seconds": 0.0, "error_type": "Crashed", "place": None}
        self._tell(events.Broken(worker=self._worker, at=self._wall(), **about))

    def worker_started(self, queues: tuple[str, ...], slots: int) -> None:
        self._tell(events.WorkerStarted(worker=self._worker, at=self._wall(), queues=queues, slots=slots))

    def worker_stopping(self, running: int) -> None:
        self._tell(events.WorkerStopping(worker=self._worker, at=self._wall(), running=running))

    def worker_stopped(self, given_back: int | None, hard: bool) -> None:
        at, unheard = self._wall(), self.dropped
        self._tell(events.WorkerStopped(worker=self._worker, at=at, given_back=given_back, hard=hard, unheard=unheard))

    def redis_away(self, error: BaseException) -> None:
        self._tell(events.RedisAway(worker=self._worker, at=self._wall(), error_type=describe(error).type))

    def redis_back(self, away: float) -> None:
        self._tell(events.RedisBack(worker=self._worker, at=self._wall(), away=away))

    # -------------------------------------------------------------------------------------------------------- telling

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while self._waiting:
                    for _ in range(min(len(self._waiting), EVENTS_ROUND)):
                        self._hearing = True
                        await self._hear(self._waiting.popleft())
                        self._hearing = False
                    await asyncio.sleep(0)  # jobs first: whoever is ready has its turn
            finally:
                if self._waiting:
                    self._wake.set()  # this loop is run again after an error
                else:
                    self._idle.set()
                    self._caught_up()

    @property
    def unheard(self) -> int:
        """Events that some listener has not heard so far, or never will."""
        return self.dropped + len(self._waiting) + self._hearing

    async def flushed(self) -> None:
        """Until everything so far has been heard."""
        await self._idle.wait()

    def _of(self, lease: Lease) -> dict[str, Any]:
        record = lease.record
        return {
            "worker": self._worker,
            "at": self._wall(),
            "id": record.id,
            "queue": record.queue,
            "task": record.task,
            "lane": record.shape.lane,
            "attempt": lease.attempt,
        }

    def _seconds(self, held: Held) -> float:
        """How long the attempt took, or has taken so far; 0 if it was never started."""
        if not held.started_at:
            return 0.0
        return max(0.0, (held.ended_at or self._env.clock()) - held.started_at)

    def _tell(self, one: Event) -> None:
        if not self._listeners[type(one)]:
            return
        if len(self._waiting) >= self._env.limits.events_waiting:
            if not self._dropping:
                log_event("events_dropped", kind="listener", waiting=len(self._waiting))
            self._dropping += 1
            self.dropped += 1
            return
        self._waiting.append(one)
        self._idle.clear()
        self._wake.set()

    def _caught_up(self) -> None:
        if self._dropping:
            log_event("events_restored", dropped=self._dropping)
            self._dropping = 0

    async def _hear(self, one: Event) -> None:
        for listener in self._listeners[type(one)]:
            try:
                began = self._env.clock()
                answer = listener.function(one)
                seconds = self._env.clock() - began
                if seconds * limits.SECOND > self._env.limits.listener_slow_ms:
                    self._slow(listener, seconds)
                if inspect.isawaitable(answer):
                    await self._awaited(listener, answer)
            except BaseException as error:  # a real Ctrl-C comes as a signal, and never as an error in here
                if _meant_for_us(error):
                    raise
                self._failed(listener, one, error)

    async def _awaited(self, listener: Listener, answer: Awaitable[object]) -> None:
        most_ms = self._env.limits.listener_ms
        late_s = (most_ms + self._env.limits.cancel_ms) / limits.SECOND
        late = asyncio.get_running_loop().call_later(late_s, self._hangs, listener)
        try:
            async with asyncio.timeout(most_ms / limits.SECOND):
                await answer
        finally:
            late.cancel()

    def _hangs(self, listener: Listener) -> None:
        """It took too long, was cancelled, and goes on: nobody hears of anything until it ends."""
        if self._told.is_new(f"{listener.name} hangs"):
            about = {"kind": "listener", "listener": listener.name, "state": "hanging", "waiting": len(self._waiting)}
            log_event("callback_failed", logging.ERROR, **about)

    def _slow(self, listener: Listener, seconds: float) -> None:
        """It kept the event loop, and with it every async job here."""
        if self._told.is_new(f"{listener.name} slow"):
            log_event("callback_failed", kind="listener", listener=listener.name, state="blocking", seconds=seconds)

    def _failed(self, listener: Listener, one: Event, error: BaseException) -> None:
        news = self._told.is_new(f"{listener.name} {describe(error).type}")
        level = logging.ERROR if news else logging.DEBUG
        about = {"listener": listener.name, "of": type(one).__name__}
        callback_failed("listener", error, listener.function, level, **about)


def _meant_for_us(error: BaseException) -> bool:
    """Whether the telling itself is to end, by a cancellation or, with the event loop, for good. Else a listener
    raised it."""
    kind = type(error)  # `isinstance` would ask the error itself, and a listener's may raise at that
    if issubclass(kind, GeneratorExit):
        return not _in_a_task()
    task = asyncio.current_task() if issubclass(kind, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


def _in_a_task() -> bool:
    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # no loop runs
        return False
