"""The client for asyncio."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from tenure.compat.worqr.listeners import Listener, Listeners, LoopListeners
from tenure.compat.worqr.raw import RawEngine, Task, config_of, encoded, is_list
from tenure.core import limits, names
from tenure.core.errors import InvalidArgument, TenureError, invalid
from tenure.core.job import Lease, NewJob
from tenure.core.outcome import Completed, Outcome, Released
from tenure.core.shape import DIGEST, PLAIN, Shape, UniqueRule
from tenure.core.steps import Steps
from tenure.core.values import replace
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.encoding import as_text
from tenure.redis.aio import AsyncDriver
from tenure.redis.clients import Client, target_of
from tenure.redis.pubsub import AsyncSubscription

T = TypeVar("T")
_UNIQUE: Final = Shape(unique=UniqueRule(DIGEST))
_LOOK_S: Final = 5.0
"""How often a worker looks for work of which no message arrived."""
CLOSE_S: Final = 5.0
"""How long `close` tries to return the tasks. Without Redis they return when the leases expire."""
_log: Final = logging.getLogger("tenure")


class Process(NamedTuple):
    """A task that this worker holds."""

    id: str
    task: str


class AsyncWorqr:
    """The queues of worqr, as a producer and as a worker.

    `url`: the URL of Redis, or a client of the redis package: its server, on connections of this client's own.
    `worker_timeout`: after how many seconds without a heartbeat originals fail this worker; below 0 the worker is
    permanent, and no client fails it within seven days. `worker_heartbeat_interval`: seconds between two heartbeats.
    A Tenure worker takes the tasks over after 2.6 s, or after two intervals and 0.8 s if that is longer.
    `worker_cleanup_interval`: how often this worker looks for dead workers. Raises `InvalidArgument`.
    """

    def __init__(
        self,
        url: str | Client = "redis://localhost:6379/0",
        *,
        prefix: str = "worqr",
        worker_id: str | None = None,
        worker_timeout: float = 3.0,
        worker_heartbeat_interval: float = 0.5,
        worker_cleanup_interval: float = 10.0,
    ) -> None:
        self.worker_id = worker_id or str(uuid.uuid4())
        config = config_of(worker_timeout, worker_heartbeat_interval)
        self._engine = RawEngine(prefix, config)
        self._ending = RawEngine(prefix, replace(config, failed_ttl_ms=0))
        """Ends tasks of this client without a record: the original keeps no history."""
        self._driver = AsyncDriver(url if isinstance(url, str) else target_of(url))
        self._cleanup_s = worker_cleanup_interval
        self._queues: set[str] = set()
        self._held: dict[str, Lease] = {}
        self._listeners = self._make_listeners()
        self._tasks: list[asyncio.Task[None]] = []
        self._subscribed: dict[str, tuple[AsyncExitStack, list[asyncio.Task[None]]]] = {}
        self._calls: set[asyncio.Task[Any]] = set()
        self._is_started = self._is_closed = False
        self._asked: set[str] = set()
        """The processes with a cancel request that the listeners got: messages and heartbeats repeat it."""
        self._unknown: set[str] = set()
        """What the last heartbeat found in the name of this worker that it does not know: perhaps a reply was lost."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # Queues.

    async def enqueue(self, queue: str, tasks: Task | Sequence[Task], unique: bool = False) -> bool:
        """Add one task or several. `unique`: only one task, unless it waits or runs already. False: it does.

        A task is text or a number, which becomes text. Up to 500 tasks are added in one transaction, fewer when some
        have more than 1.5 kB; more tasks in several. Raises `InvalidArgument` for other values, before it adds any.
        """
        if unique and is_list(tasks):
            raise InvalidArgument("unique must be False for a list of tasks. Enqueue each on its own.")
        shape = _UNIQUE if unique else PLAIN
        jobs = [NewJob(queue, "", task, shape=shape) for task in encoded(tasks)]
        return all(answer.created for answer in await self._run(self._engine.enqueue(jobs)))

    async def cancel_tasks(self, queue: str, task: Task) -> int:
        """Remove all equal tasks that wait; workers that run one get the event `cancel`. Return how many waited."""
        return await self._run(self._ending.cancel_tasks(queue, *encoded(task)))

    async def delete_queue(self, queue: str) -> int:
        """Remove all tasks that wait, and their markers."""
        return await self._run(self._engine.delete_queue(queue))

    async def peek_queue(self, queue: str) -> str | None:
        """The task that is served next."""
        task = await self._run(self._engine.peek(queue))
        return None if task is None else as_text(task)

    async def count_queue(self, queue: str) -> int:
        return await self._run(self._engine.count(queue))

    async def get_tasks(self, queue: str) -> list[str]:
        """Return the tasks that wait, in the order of the original: the newest first. The last one is served next."""
        return [as_text(task) for task in await self._run(self._engine.tasks(queue))]

    async def get_queues(self) -> list[str]:
        """The queues in which tasks wait."""
        return await self._run(self._engine.names("queues"))

    async def get_workers(self) -> list[str]:
        return await self._run(self._engine.members("workers"))

    async def get_working_queues(self, worker: str | None = None) -> list[str]:
        """The queues that a worker serves; by default this one."""
        return await self._run(self._engine.members("workingQueues", worker or self.worker_id))

    async def get_matching_processes(self, task: Task) -> list[str]:
        """The processes that run this task, of all workers."""
        return await self._run(self._engine.matching_processes(*encoded(task)))

    # Workers.

    async def start_worker(self) -> None:
        """Announce this worker, and keep it and what it holds alive from now on."""
        if not self._is_started:
            await self._announce()
            self._is_started = True
            self._tasks += [asyncio.create_task(self._beat()), asyncio.create_task(self._clean())]

    async def start_work(self, queue: str) -> None:
        """Serve a queue: its events arrive, also `work` for tasks that wait already."""
        if not self._is_started:
            raise InvalidArgument("start_work: call start_worker first.")
        if queue not in self._queues:
            # An earlier worker of this id may have left tasks.
            await self._run(self._ending.leave(self.worker_id, [queue]))
            self._queues.add(queue)
        await self._announce()
        if queue not in self._subscribed:
            async with AsyncExitStack() as opened:
                listening = [
                    (event, await opened.enter_async_context(self._driver.subscribe(channel)))
                    for channel, event in self._engine.channels(queue).items()
                ]
                tasks = [asyncio.create_task(self._listen(queue, event, messages)) for event, messages in listening]
                self._subscribed[queue] = opened.pop_all(), tasks
        await self.request_work(queue)

    async def request_work(self, queue: str) -> None:
        """Have all workers of the queue get the event `work` if tasks wait: some of them may have missed it."""
        await self._run(self._engine.request_work(queue))

    async def stop_work(self, queue: str) -> None:
        """Serve a queue no longer. The tasks of it that this worker holds return to its front."""
        self._queues.discard(queue)
        await self._unsubscribe(queue)
        held = [lease for lease in self._held.values() if lease.record.queue == queue]
        await self._settle(held, Released())
        await self._run(self._engine.stop_work(self.worker_id, queue))

    async def dequeue(self, queue: str) -> Process | None:
        """Take the next task of a queue; None: the queue is empty.

        Raises `InvalidArgument` for a queue that this worker does not serve, as the original rejects it.
        """
        if queue not in self._queues:
            rule = "one that this worker serves"
            raise invalid("queue", rule, names.shown(queue), "Call start_work first.")
        leased = await self._run(self._engine.lease(self.worker_id, [queue], 1))
        for lease in leased.leases:
            self._held[lease.record.id] = lease
            return Process(lease.record.id, as_text(lease.record.payload))
        return None

    async def stop_process(self, process_id: str) -> bool:
        """Return the task to the front of its queue. False: this worker does not hold it."""
        return await self._settle([self._held[process_id]], Released()) if process_id in self._held else False

    async def finish_process(self, process_id: str, result: object = None) -> bool:
        """Complete a task, and publish its result. False: this worker does not hold it any more."""
        body = b"" if result is None else json.dumps(result, allow_nan=False).encode()
        outcome = Completed(body)
        return await self._settle([self._held[process_id]], outcome) if process_id in self._held else False

    async def fail_worker(self, worker: str | None = None) -> int:
        """Return the tasks of a worker of Tenure, and remove the worker; by default this one. Return their number."""
        if worker is None or worker == self.worker_id:
            self._held.clear()
        return await self._run(self._engine.fail(worker or self.worker_id))

    async def cleanup_workers(self) -> list[str]:
        """Fail workers of Tenure without a timer, and return what dead originals left behind.

        While an original lives on a queue, its dead are left to it: the format does not name the owner of a process.
        """
        silent = await self._run(self._engine.silent_workers())
        for worker in silent:
            await self.fail_worker(worker)
        if self._queues:
            await self._run(self._engine.maintain(sorted(self._queues), []))
        return silent

    def on(self, queue: str, listener: Listener) -> None:
        """Call this for each event of a queue that this worker serves.

        - `work`: the message is the number of new tasks
        - `done`: JSON with `workerId`, `task` and perhaps `result`
        - `cancel`: the task to end
        - `delete`: empty
        - `lost`: the id of a process that another client took away. Stop its work.

        Listeners are called one after the other. They may use this client, and close it. An error is logged.
        """
        self._check_open()
        self._listeners.add(queue, listener)

    def once(self, queue: str, listener: Listener) -> None:
        """Call this for the next event of a queue only. See `on`."""
        self._check_open()
        self._listeners.add(queue, listener, once=True)

    def off(self, queue: str, listener: Listener) -> None:
        """Call this listener of a queue no longer. Nothing happens if it is not there."""
        self._listeners.remove(queue, listener)

    async def close(self) -> None:
        """Stop the worker: its tasks return, and it is removed. The object cannot be used again.

        Other calls under way raise `InvalidArgument`. When Redis does not answer, the tasks return as after the
        death of a worker.
        """
        if self._is_closed:
            return
        self._is_closed = True
        await _end([*self._tasks, *self._calls])
        await self._listeners.end()
        try:
            async with asyncio.timeout(CLOSE_S):
                for queue in list(self._subscribed):
                    await self._unsubscribe(queue)
                if self._is_started:
                    await self._driver.run(self._ending.leave(self.worker_id, sorted(self._queues)))
        except (TenureError, TimeoutError) as error:
            _log.warning("worker_not_removed worker=%s error=%s", self.worker_id, type(error).__name__)
        finally:
            await self._driver.close()

    # Background tasks.

    def _make_listeners(self) -> Listeners:
        return LoopListeners()

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidArgument("This client was closed. Make a new one.")

    async def _run(self, steps: Steps[T]) -> T:
        """Run steps, until the client is closed."""
        self._check_open()
        call = asyncio.create_task(self._driver.run(steps))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            return await call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_closed and not (task is not None and task.cancelling()):
                self._check_open()
            raise

    async def _settle(self, leases: Sequence[Lease], outcome: Outcome) -> bool:
        answers = await self._run(self._ending.settle([(lease, outcome) for lease in leases]))
        for lease in leases:
            self._held.pop(lease.record.id, None)
        return all(answers)

    async def _announce(self) -> None:
        queues = tuple(sorted(self._queues))
        view = WorkerView(self.worker_id, queues, socket.gethostname(), os.getpid(), 0, 0, limits.MAX_HELD)
        await self._run(self._engine.announce(view))

    async def _beat(self) -> None:
        while True:
            with suppress(TenureError):  # the next one may get through
                await self._announce()
                refs = [lease.ref for lease in self._held.values()]
                queues = sorted(self._queues | {ref.queue for ref in refs})
                reply = await self._run(self._engine.heartbeat(self.worker_id, queues, refs))
                unknown = [lease for lease in reply.orphaned if lease.record.id not in self._held]
                lost = [lease for lease in unknown if lease.record.id in self._unknown]
                self._unknown = {lease.record.id for lease in unknown}
                await self._run(self._ending.settle([(lease, Released()) for lease in lost]))
                for ref in reply.lost:
                    if self._held.pop(ref.id, None) is not None:
                        self._emit(ref.queue, "lost", ref.id)
                self._asked &= self._held.keys()
                for asked in reply.cancelled:
                    if asked.ref.id in self._held and asked.ref.id not in self._asked:
                        self._cancel(asked.ref.queue, self._held[asked.ref.id].record.payload)
            await asyncio.sleep(self._engine.timing.beat_ms / limits.SECOND)

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(self._cleanup_s)
            with suppress(TenureError):
                await self.cleanup_workers()

    async def _listen(self, queue: str, event: str, messages: AsyncSubscription) -> None:
        while True:
            message = await messages.get(_LOOK_S)
            if message is not None and event == "cancel":
                self._cancel(queue, message)
            elif message is not None:
                self._emit(queue, event, as_text(message))
            elif event == "work":
                with suppress(TenureError):  # a message may have been lost
                    count = await self.count_queue(queue)
                    if count:
                        self._emit(queue, event, str(count))

    def _cancel(self, queue: str, task: bytes) -> None:
        """Emit `cancel`, unless that was done for all processes of this task: a message or a heartbeat came before."""
        running = {
            id for id, lease in self._held.items() if (lease.record.queue, lease.record.payload) == (queue, task)
        }
        if not running or running - self._asked:
            self._asked |= running
            self._emit(queue, "cancel", as_text(task))

    async def _unsubscribe(self, queue: str) -> None:
        opened, tasks = self._subscribed.pop(queue, (AsyncExitStack(), []))
        await _end(tasks)
        await opened.aclose()

    def _emit(self, queue: str, event: str, message: str) -> None:
        self._listeners.emit(queue, event, message)


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
