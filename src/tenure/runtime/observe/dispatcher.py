"""Sends the worker's events to listeners: in order, concurrently with jobs, and never at their cost.

Events wait in a bounded queue; when listeners are too slow for it, the newest are dropped and counted. A worker without
listeners has no dispatcher, and an event that no listener wants is not made.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from tenure.core import events, limits
from tenure.core.events import EVENTS, Event, Listener
from tenure.core.job import JobView, Lease
from tenure.core.outcome import (
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
from tenure.runtime.errors import describe
from tenure.runtime.jobs.held import Batch, Held, Outcomes
from tenure.runtime.jobs.reports import Subscriber
from tenure.runtime.log import Once, callback_failed, log_event, source_location
from tenure.runtime.observe.latency import enqueued_ms
from tenure.runtime.ports import Env

EVENTS_ROUND: Final = 100
"""Events that listeners receive before the event loop does other work."""
TROUBLE_LOGGED: Final = 100
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


class EventDispatcher(Subscriber):
    """See the module. Used from the event loop's thread only; only `run` and `flushed` wait, and nothing raises."""

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
        self._logged = Once(TROUBLE_LOGGED)
        self._dropped = 0
        self._is_dispatching = False

    # -------------------------------------------------------------------------------------------------- making events

    def claimed(self, lease: Lease) -> None:
        if self._listeners[events.Claimed]:
            self._put(events.Claimed(**self._of(lease)))

    def started(self, run: Held | Batch) -> None:
        if not self._listeners[events.Started]:
            return
        for held in run.members:
            waited = max(0.0, held.started_at - held.claimed_at)
            ms = enqueued_ms(held.lease)
            queued = None if ms is None else max(0.0, self._wall() - ms / limits.SECOND)
            self._put(events.Started(**self._of(held.lease), waited=waited, queued=queued))

    def settled(self, items: Outcomes) -> None:
        for held, outcome in items:
            self._ended(held, outcome)

    def _ended(self, held: Held, outcome: Outcome) -> None:
        kind = _OF_OUTCOME[type(outcome)]
        if not self._listeners[kind]:
            return
        about = self._of(held.lease) | {"seconds": self._seconds(held)}
        match outcome:
            case Retried(error) | Failed(error) | Broken(error):
                about |= {"error_type": error.type, "place": source_location(error.traceback)}
                if isinstance(outcome, Retried):
                    about["delay"] = outcome.delay_ms / limits.SECOND
            case Cancelled(reason):
                about["reason"] = reason
        self._put(kind(**about))

    def lost(self, held: Held, noticed: str, outcome: Outcome | None, certain: bool) -> None:
        if self._listeners[events.Lost]:
            seconds = self._seconds(held)
            self._put(events.Lost(**self._of(held.lease), seconds=seconds, noticed=noticed, certain=certain))

    def poisoned(self, view: JobView) -> None:
        about: dict[str, Any] = {"id": view.id, "queue": view.queue, "task": view.task, "lane": view.shape.lane}
        about |= {"attempt": view.failures + view.crashes, "seconds": 0.0, "error_type": "Crashed", "place": None}
        self._put(events.Broken(worker=self._worker, at=self._wall(), **about))

    def worker_started(self, queues: tuple[str, ...], slots: int) -> None:
        self._put(events.WorkerStarted(worker=self._worker, at=self._wall(), queues=queues, slots=slots))

    def worker_stopping(self, running: int) -> None:
        self._put(events.WorkerStopping(worker=self._worker, at=self._wall(), running=running))

    def worker_stopped(self, released: int | None, hard: bool) -> None:
        at, unheard = self._wall(), self._dropped
        self._put(events.WorkerStopped(worker=self._worker, at=at, given_back=released, hard=hard, unheard=unheard))

    def redis_away(self, error: BaseException) -> None:
        self._put(events.RedisAway(worker=self._worker, at=self._wall(), error_type=describe(error).type))

    def redis_back(self, away: float) -> None:
        self._put(events.RedisBack(worker=self._worker, at=self._wall(), away=away))

    # ---------------------------------------------------------------------------------------------------- dispatching

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while self._waiting:
                    for _ in range(min(len(self._waiting), EVENTS_ROUND)):
                        self._is_dispatching = True
                        await self._dispatch(self._waiting.popleft())
                        self._is_dispatching = False
                    await asyncio.sleep(0)  # jobs come first
            finally:
                if self._waiting:
                    self._wake.set()  # this loop is run again after an error
                else:
                    self._idle.set()
                    if self._dropping:
                        log_event("events_restored", dropped=self._dropping)
                        self._dropping = 0

    @property
    def unheard(self) -> int:
        """Events that some listener has not received."""
        return self._dropped + len(self._waiting) + self._is_dispatching

    async def flushed(self) -> None:
        """Wait until the listeners have received all events so far."""
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
        if held.seconds is None:
            return max(0.0, self._env.clock() - held.started_at) if held.started_at else 0.0
        return held.seconds

    def _put(self, one: Event) -> None:
        if not self._listeners[type(one)]:
            return
        if len(self._waiting) >= self._env.limits.events_waiting:
            if not self._dropping:
                log_event("events_dropped", kind="listener", waiting=len(self._waiting))
            self._dropping += 1
            self._dropped += 1
            return
        self._waiting.append(one)
        self._idle.clear()
        self._wake.set()

    async def _dispatch(self, one: Event) -> None:
        for listener in self._listeners[type(one)]:
            try:
                began = self._env.clock()
                answer = listener.function(one)
                seconds = self._env.clock() - began
                if seconds * limits.SECOND > self._env.limits.listener_slow_ms:
                    self._log_slow(logging.WARNING, listener, "blocking", seconds)
                if inspect.isawaitable(answer):
                    await self._awaited(listener, answer)
            except GeneratorExit:  # the event loop has ended
                raise
            except BaseException as error:  # a real Ctrl-C comes as a signal, never as an error in here
                if _is_cancelled(error):
                    raise
                is_new = self._logged.is_new(f"{listener.name} {describe(error).type}")
                about = {"listener": listener.name, "of": type(one).__name__}
                level = logging.ERROR if is_new else logging.DEBUG
                callback_failed("listener", error, listener.function, level, **about)

    async def _awaited(self, listener: Listener, answer: Awaitable[object]) -> None:
        """Await an async listener, for at most `listener_ms`. Log it if it then ignores its cancellation: all others
        wait for it."""
        most_ms = self._env.limits.listener_ms
        late_s = (most_ms + self._env.limits.cancel_ms) / limits.SECOND
        loop = asyncio.get_running_loop()
        late = loop.call_later(late_s, self._log_slow, logging.ERROR, listener, "hanging")
        try:
            async with asyncio.timeout(most_ms / limits.SECOND):
                await answer
        finally:
            late.cancel()

    def _log_slow(self, level: int, listener: Listener, state: str, seconds: float | None = None) -> None:
        if self._logged.is_new(f"{listener.name} {state}"):
            about: dict[str, object] = {"seconds": seconds, "waiting": len(self._waiting)}
            log_event("callback_failed", level, kind="listener", listener=listener.name, state=state, **about)


def _is_cancelled(error: BaseException) -> bool:
    """Whether the dispatcher's own task was cancelled. Else a listener raised the error."""
    # `isinstance` would read the error's `__class__`, and a listener's error may raise at that.
    task = asyncio.current_task() if issubclass(type(error), asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0
