"""The managers: push jobs, and delete those that wait."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from tenure.app.app import Tenure
from tenure.client.connections import Connections
from tenure.compat.queue_farm.emitter import DELETE, PUSH, Emitter
from tenure.core.engine import FullEngine
from tenure.core.errors import PayloadInvalid, invalid
from tenure.core.job import JobRecord, Lease, Leased, Token
from tenure.core.outcome import Completed, Outcome
from tenure.core.steps import Steps
from tenure.engines.queue_farm import QueueFarmEngine
from tenure.engines.queue_farm.config import QueueFarmConfig
from tenure.engines.queue_farm.keys import DEFAULT_QUEUE
from tenure.engines.queue_farm.wire import FarmDropped, new_part
from tenure.protocols.queue_farm import QUEUE_FARM
from tenure.protocols.spec import ProtocolSettings
from tenure.redis.clients import Client, url_of
from tenure.settings import Settings

C = TypeVar("C", bound=Callable[..., Any])
MAX_ATTEMPTS: Final = 3
TIMEOUT_S: Final = 30.0


class FarmEngine(QueueFarmEngine):
    """The engine. `dropped` is called for each job that a claim ended, `completed` for the jobs of each run that Redis
    has recorded as completed, `claimed` for each claim that brought jobs."""

    dropped: Callable[[FarmDropped], None] | None = None
    completed: Callable[[list[JobRecord]], None] | None = None
    claimed: Callable[[], None] | None = None

    _new_part = staticmethod(partial(new_part, as_original=True))

    def lease(self, *args: Any, **options: Any) -> Steps[Leased]:
        leased = yield from super().lease(*args, **options)
        for job in leased.dropped:
            if self.dropped is not None and isinstance(job, FarmDropped):
                self.dropped(job)
        if leased.leases and self.claimed is not None:
            self.claimed()
        return leased

    def settle(self, settlements: Sequence[tuple[Lease, Outcome]]) -> Steps[list[bool]]:
        answers = yield from super().settle(settlements)
        runs: dict[tuple[str | None, Token], list[JobRecord]] = {}
        for (lease, outcome), was_held in zip(settlements, answers, strict=True):
            if was_held and isinstance(outcome, Completed):
                runs.setdefault((lease.record.shape.lane, lease.token), []).append(lease.record)
        for jobs in runs.values():
            if self.completed is not None:
                self.completed(jobs)
        return answers


class _Farm:
    """The protocol, with an engine that exists."""

    def __init__(self, engine: FarmEngine) -> None:
        self._engine = engine
        self.text = f"{QUEUE_FARM}:{engine.namespace}"

    def engine(self, settings: ProtocolSettings) -> FullEngine:
        return self._engine


class ManagerBase:
    """What managers and workers share: the namespace, its app, and the callbacks."""

    def __init__(
        self,
        redis: str | Client | None = None,
        *,
        namespace: str = QUEUE_FARM,
        delete_jobs: bool = True,
        timeout: float = TIMEOUT_S,
        max_attempts: int = MAX_ATTEMPTS,
        id: str | None = None,
    ) -> None:
        self.id = f"{socket.gethostname()}:{secrets.randbelow(10_000):04}" if id is None else id
        self.namespace = namespace
        self._engine = FarmEngine(namespace, QueueFarmConfig(delete_jobs=delete_jobs), self.id)
        farm = _Farm(self._engine)
        url = redis if redis is None or isinstance(redis, str) else url_of(redis)
        settings = Settings.load(url=url, protocol=farm.text)
        self._connections = Connections(settings)
        self._app = Tenure(url, protocol=farm, runner=self._connections)
        self._queue = self._app.queue(DEFAULT_QUEUE)
        self._options = _checked({"timeout": timeout, "max_attempts": max_attempts})
        self._emitter = Emitter(self._is_async)

    _is_async = False

    def on(self, event: str, callback: C) -> C:
        """Call a function, or a coroutine function, at each event of this name. Returns the function.

        Raises `InvalidArgument` for an unknown event.
        """
        self._emitter.add(event, callback)
        return callback

    def once(self, event: str, callback: C) -> C:
        """Call a function at the next event of this name only. Returns the function. Raises `InvalidArgument`."""
        self._emitter.add(event, callback, once=True)
        return callback

    def off(self, event: str, callback: Callable[..., Any]) -> None:
        """Call this function no more: its latest registration is removed. Nothing happens if it has none."""
        self._emitter.remove(event, callback)

    def _job(self, queue: str, job: object, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        chosen = self._options | _checked(options)
        return _encoded(job), {
            "lane": queue,
            "timeout": chosen["timeout"],
            "retries": chosen["max_attempts"] - 1,
        }


class Manager(ManagerBase):
    """Pushes jobs into the queues of a namespace, and deletes them.

        manager = Manager("redis://localhost", max_attempts=5)
        id = manager.push("user:42", {"send": "welcome"})

    `redis`: a URL, or a client of the redis package; the manager makes connections of its own to its server; by
    default the URL of the settings. `timeout` (in seconds) and `max_attempts` apply to jobs that are
    pushed without their own. `delete_jobs`: as the original's `deleteJobs`. `id`: the name that jobs carry as their
    `managerId`; host and four digits by default. Raises `InvalidArgument`.
    """

    def push(self, queue: str, job: Any, **options: Any) -> str:
        """Push a job at the end of a queue, and return its id. Emits `push`.

        `options`: `max_attempts`, and `timeout` in seconds. Raises `PayloadInvalid` for data that JSON does not have,
        `InvalidArgument`, and the errors of Redis; Redis then has no such job, unless the error is `Unreachable`.
        """
        payload, asked = self._job(queue, job, options)
        id = self._queue.enqueue(payload, **asked).id
        self._emitter.emit_blocking(PUSH, queue, id, job, options)
        return id

    def delete(self, queue: str, job_id: str) -> bool:
        """Delete a job that waits. Returns False if it does not wait: a job that runs is left alone. Emits `delete`."""
        deleted = self._connections.run(self._engine.delete(queue, job_id))
        self._emitter.emit_blocking(DELETE, queue, job_id, deleted)
        return deleted

    def close(self) -> None:
        """Close the connections. The next call connects again."""
        self._app.close()


class AsyncManager(ManagerBase):
    """`Manager` for asyncio, with the same methods. Callbacks may be coroutine functions.

    manager = AsyncManager("redis://localhost")
    id = await manager.push("user:42", {"send": "welcome"})
    """

    _is_async = True

    async def push(self, queue: str, job: Any, **options: Any) -> str:
        payload, asked = self._job(queue, job, options)
        id = (await self._queue.aenqueue(payload, **asked)).id
        await self._emitter.emit(PUSH, queue, id, job, options)
        return id

    async def delete(self, queue: str, job_id: str) -> bool:
        deleted = await self._connections.arun(self._engine.delete(queue, job_id))
        await self._emitter.emit(DELETE, queue, job_id, deleted)
        return deleted

    async def close(self) -> None:
        await self._app.aclose()


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's limits apply to the values; here, what only this interface has."""
    for name, value in options.items():
        if name not in ("timeout", "max_attempts"):
            raise invalid("options", "timeout and max_attempts", name)
        if name == "max_attempts" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise invalid(name, "an int of at least 1", repr(value)[:50])
    return dict(options)


def _encoded(job: object) -> str:
    try:
        return json.dumps(job, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadInvalid(f"The job cannot be written as JSON: {type(error).__name__}.") from None
