"""Calls the listeners of a client, one after the other: on its event loop, or on a thread of their own."""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from tenure.compat.emitter import Callbacks, Registered
from tenure.core.errors import InvalidArgument

Listener = Callable[[str, str], object]
"""Called with the event and its message: see `AsyncWorqr.on`."""
EVENTS_MOST: Final = 10_000
"""Events that wait for listeners. More are left out, with a line in the log."""
JOIN_S: Final = 5.0
"""How long a client that closes waits for a listener that runs."""
_log: Final = logging.getLogger("tenure")


class Event(NamedTuple):
    """`listeners`: the queue's listeners when the event came."""

    queue: str
    name: str
    message: str
    listeners: tuple[Registered, ...]


class Listeners(Callbacks):
    """The listeners by queue. They may use their client, and close it: no call of it waits for a listener."""

    _events: asyncio.Queue[Event] | queue.Queue[Event | None]

    def emit(self, queue_name: str, name: str, message: str) -> None:
        """Have the listeners called. Returns before that."""
        if listeners := self.take(queue_name):
            try:
                self._events.put_nowait(Event(queue_name, name, message, listeners))
            except (asyncio.QueueFull, queue.Full):
                _log.error("event_left_out queue=%s event=%s waiting=%d", queue_name, name, EVENTS_MOST)

    async def end(self) -> None:
        """Call no more listeners on the loop of the client."""


class LoopListeners(Listeners):
    """Calls functions and coroutine functions on the running event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._events: asyncio.Queue[Event] = asyncio.Queue(EVENTS_MOST)
        self._task: asyncio.Task[None] | None = None

    def emit(self, queue_name: str, name: str, message: str) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._call())
        super().emit(queue_name, name, message)

    async def end(self) -> None:
        """End the listener that runs, too, unless it is the caller."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task}, timeout=JOIN_S)

    async def _call(self) -> None:
        while True:
            event = await self._events.get()
            for one in event.listeners:
                if one.is_removed:
                    continue
                try:
                    answer = one.function(event.name, event.message)
                    if inspect.isawaitable(answer):
                        await answer
                except BaseException as error:
                    task = asyncio.current_task()
                    if task is not None and task.cancelling():
                        raise
                    _failed(event, error)


class ThreadListeners(Listeners):
    """Calls functions on a thread, so that they may block."""

    def __init__(self) -> None:
        super().__init__()
        self._events: queue.Queue[Event | None] = queue.Queue(EVENTS_MOST)
        self._thread = threading.Thread(target=self._call, name="tenure worqr listeners", daemon=True)
        self._is_closed = False

    def add(self, key: str, function: Listener, once: bool = False) -> None:
        if inspect.iscoroutinefunction(function):
            raise InvalidArgument("The listener must be a plain function. Use AsyncWorqr for others.")
        super().add(key, function, once)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Call no more listeners. Waits for the one that runs, unless it is the caller."""
        self._is_closed = True
        with suppress(queue.Full):  # the thread checks before each listener
            self._events.put_nowait(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_S)

    def _call(self) -> None:
        while (event := self._events.get()) is not None:
            for one in event.listeners:
                if self._is_closed:
                    return
                if one.is_removed:
                    continue
                try:
                    one.function(event.name, event.message)
                except BaseException as error:
                    _failed(event, error)


def _failed(event: Event, error: BaseException) -> None:
    # The message may be a task, which belongs in no log.
    _log.error("listener_failed queue=%s event=%s error=%s", event.queue, event.name, type(error).__name__)
