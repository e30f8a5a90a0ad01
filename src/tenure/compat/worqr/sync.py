"""The client for programs without an event loop: the one for asyncio, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Self, TypeVar

from tenure.compat.worqr.aio import AsyncWorqr, Process
from tenure.compat.worqr.listeners import Listener, ThreadListeners
from tenure.compat.worqr.raw import Task
from tenure.core.errors import InvalidArgument
from tenure.redis.clients import Client

T = TypeVar("T")


class Worqr:
    """The queues of worqr: see `AsyncWorqr`, whose methods it has. Listeners are called on a thread of their own, one
    after the other, and may use the client. Safe for threads."""

    def __init__(self, url: str | Client = "redis://localhost:6379/0", **options: Any) -> None:
        self._listeners = ThreadListeners()
        self._worqr = _OnThread(self._listeners, url, **options)
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
        return self._worqr.worker_id

    def enqueue(self, queue: str, tasks: Task | Sequence[Task], unique: bool = False) -> bool:
        return self._run(self._worqr.enqueue(queue, tasks, unique))

    def cancel_tasks(self, queue: str, task: Task) -> int:
        return self._run(self._worqr.cancel_tasks(queue, task))

    def delete_queue(self, queue: str) -> int:
        return self._run(self._worqr.delete_queue(queue))

    def peek_queue(self, queue: str) -> str | None:
        return self._run(self._worqr.peek_queue(queue))

    def count_queue(self, queue: str) -> int:
        return self._run(self._worqr.count_queue(queue))

    def get_tasks(self, queue: str) -> list[str]:
        return self._run(self._worqr.get_tasks(queue))

    def get_queues(self) -> list[str]:
        return self._run(self._worqr.get_queues())

    def get_workers(self) -> list[str]:
        return self._run(self._worqr.get_workers())

    def get_working_queues(self, worker: str | None = None) -> list[str]:
        return self._run(self._worqr.get_working_queues(worker))

    def get_matching_processes(self, task: Task) -> list[str]:
        return self._run(self._worqr.get_matching_processes(task))

    def start_worker(self) -> None:
        self._run(self._worqr.start_worker())

    def start_work(self, queue: str) -> None:
        self._run(self._worqr.start_work(queue))

    def request_work(self, queue: str) -> None:
        self._run(self._worqr.request_work(queue))

    def stop_work(self, queue: str) -> None:
        self._run(self._worqr.stop_work(queue))

    def dequeue(self, queue: str) -> Process | None:
        return self._run(self._worqr.dequeue(queue))

    def stop_process(self, process_id: str) -> bool:
        return self._run(self._worqr.stop_process(process_id))

    def finish_process(self, process_id: str, result: object = None) -> bool:
        return self._run(self._worqr.finish_process(process_id, result))

    def fail_worker(self, worker: str | None = None) -> int:
        return self._run(self._worqr.fail_worker(worker))

    def cleanup_workers(self) -> list[str]:
        return self._run(self._worqr.cleanup_workers())

    def on(self, queue: str, listener: Listener) -> None:
        self._worqr.on(queue, listener)

    def once(self, queue: str, listener: Listener) -> None:
        self._worqr.once(queue, listener)

    def off(self, queue: str, listener: Listener) -> None:
        self._worqr.off(queue, listener)

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
            await self._worqr.close()
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
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
