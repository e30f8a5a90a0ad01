"""Calls the listeners of a client, one after the other: on its event loop, or on a thread of their own."""

from __future__ import annotations

import asyncio
import inspect
import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from tenure.core.errors import InvalidArgument

Listener = Callable[[str, str], object]
"""Called with the event and its message: see `AsyncWorqr.on`."""
EVENTS_MOST: Final = 10_000
"""Events that wait for listeners. More are left out, with a line in the log."""
JOIN_S: Final = 5.0
"""How long a client that closes waits for a listener that runs."""
_log: Final = logging.getLogger("tenure")


@dataclass(slots=True, eq=False)
class Registered:
    """A listener of a queue. `is_removed`: events that came before the removal do not call it either."""

    listener: Listener
    is_once: bool
    is_removed: bool = False


class Event(NamedTuple):
    """`listeners`: those of the queue when the event came."""

    queue: str
    name: str
    message: str
    listeners: tuple[Registered, ...]


class Listeners(ABC):
    """The listeners by queue. They may use their client, and close it: no call of it waits for a listener."""

    def __init__(self) -> None:
        self._by_queue: dict[str, list[Registered]] = {}
        self._lock = threading.Lock()
        """The user's thread adds and removes while the loop of the client emits."""

    def add(self, queue: str, listener: Listener, once: bool = False) -> None:
        with self._lock:
            self._by_queue.setdefault(queue, []).append(Registered(listener, once))

    def remove(self, queue: str, listener: Listener) -> None:
        """Remove the latest registration of this listener, if there is one."""
        with self._lock:
            registered = self._by_queue.get(queue, [])
            for one in reversed(registered):
                if one.listener == listener:
                    one.is_removed = True
                    registered.remove(one)
                    break

    def emit(self, queue: str, name: str, message: str) -> None:
        """Have the listeners called. Returns before that."""
        with self._lock:
            listeners = tuple(self._by_queue.get(queue, ()))
            if any(one.is_once for one in listeners):
                self._by_queue[queue] = [one for one in listeners if not one.is_once]
        if listeners:
            self._put(Event(queue, name, message, listeners))

    @abstractmethod
    def _put(self, event: Event) -> None:
        """Keep the event until its turn comes."""

    @abstractmethod
    async def end(self) -> None:
        """Call no more listeners on the loop of the client."""


class LoopListeners(Listeners):
    """Calls functions and coroutine functions on the running event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._events: asyncio.Queue[Event] = asyncio.Queue(EVENTS_MOST)
        self._task: asyncio.Task[None] | None = None

    def _put(self, event: Event) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._call())
        try:
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            _left_out(event)

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
                    answer = one.listener(event.name, event.message)
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

    def add(self, queue: str, listener: Listener, once: bool = False) -> None:
        if inspect.iscoroutinefunction(listener):
            raise InvalidArgument("The listener must be a plain function. Use AsyncWorqr for others.")
        super().add(queue, listener, once)

    def start(self) -> None:
        self._thread.start()

    def _put(self, event: Event) -> None:
        try:
            self._events.put_nowait(event)
        except queue.Full:
            _left_out(event)

    async def end(self) -> None:
        """None is called there."""

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
                    one.listener(event.name, event.message)
                except BaseException as error:
                    _failed(event, error)


def _failed(event: Event, error: BaseException) -> None:
    # The message may be a task, which belongs in no log.
    _log.error("listener_failed queue=%s event=%s error=%s", event.queue, event.name, type(error).__name__)


def _left_out(event: Event) -> None:
    _log.error("event_left_out queue=%s event=%s waiting=%d", event.queue, event.name, EVENTS_MOST)
