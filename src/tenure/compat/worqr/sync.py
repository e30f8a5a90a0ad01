"""The client for programs without an event loop: the one for asyncio, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Self, TypeVar

from tenure.compat.twins import blocking_twin
from tenure.compat.worqr.aio import AsyncWorqr
from tenure.compat.worqr.listeners import Listener, ThreadListeners
from tenure.core.errors import InvalidArgument
from tenure.redis.clients import Client

T = TypeVar("T")


class Worqr:
    """The queues of worqr, with the methods of `AsyncWorqr`. Listeners are called on a thread of their own, one
    after the other, and may use the client. Safe for threads."""

    def __init__(self, url: str | Client = "redis://localhost:6379/0", **options: Any) -> None:
        self._listeners = ThreadListeners()
        self._twin = _OnThread(self._listeners, url, **options)
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="tenure worqr", daemon=True)
        self._thread.start()
        self._listeners.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def worker_id(self) -> str:
        return self._twin.worker_id

    enqueue = blocking_twin(AsyncWorqr.enqueue)
    cancel_tasks = blocking_twin(AsyncWorqr.cancel_tasks)
    delete_queue = blocking_twin(AsyncWorqr.delete_queue)
    peek_queue = blocking_twin(AsyncWorqr.peek_queue)
    count_queue = blocking_twin(AsyncWorqr.count_queue)
    get_tasks = blocking_twin(AsyncWorqr.get_tasks)
    get_queues = blocking_twin(AsyncWorqr.get_queues)
    get_workers = blocking_twin(AsyncWorqr.get_workers)
    get_working_queues = blocking_twin(AsyncWorqr.get_working_queues)
    get_matching_processes = blocking_twin(AsyncWorqr.get_matching_processes)
    start_worker = blocking_twin(AsyncWorqr.start_worker)
    start_work = blocking_twin(AsyncWorqr.start_work)
    request_work = blocking_twin(AsyncWorqr.request_work)
    stop_work = blocking_twin(AsyncWorqr.stop_work)
    dequeue = blocking_twin(AsyncWorqr.dequeue)
    stop_process = blocking_twin(AsyncWorqr.stop_process)
    finish_process = blocking_twin(AsyncWorqr.finish_process)
    fail_worker = blocking_twin(AsyncWorqr.fail_worker)
    cleanup_workers = blocking_twin(AsyncWorqr.cleanup_workers)

    def on(self, queue: str, listener: Listener) -> None:
        self._twin.on(queue, listener)

    def once(self, queue: str, listener: Listener) -> None:
        self._twin.once(queue, listener)

    def off(self, queue: str, listener: Listener) -> None:
        self._twin.off(queue, listener)

    def close(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        try:
            closing.result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._listeners.close()

    async def _close(self) -> None:
        try:
            await self._twin.close()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if not self._is_closed:
                call = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            else:
                coroutine.close()
                raise _closed()
        try:
            return call.result()
        except CancelledError:
            raise _closed() from None


class _OnThread(AsyncWorqr):
    """The client on the loop of another one, which has the listeners."""

    def __init__(self, listeners: ThreadListeners, url: str | Client, **options: Any) -> None:
        self._on_thread = listeners
        super().__init__(url, **options)

    def _make_listeners(self) -> ThreadListeners:
        return self._on_thread


def _closed() -> InvalidArgument:
    return InvalidArgument("This client was closed. Make a new one.")
