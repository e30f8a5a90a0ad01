"""The engine with tasks as bare strings, and the operations that only the original's interface has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeGuard

from tenure.core import limits, names
from tenure.core.engine import LEASE_MS, Timing
from tenure.core.errors import invalid
from tenure.core.job import JobRecord, Lease, NewJob
from tenure.core.steps import Command, Steps
from tenure.engines.kit.chunks import Part
from tenure.engines.kit.encoding import as_text, cancelled
from tenure.engines.worqr import WorqrEngine
from tenure.engines.worqr.config import PRESENCE_MS, WorqrConfig
from tenure.engines.worqr.keys import channel
from tenure.engines.worqr.records import md5_of

Task: TypeAlias = str | int | float
EXPONENT_FROM: Final = 1e21
"""Node writes numbers from here on with an exponent."""
MIN_INTERVAL_S: Final = 0.1
"""The least time between two heartbeats."""
PAGE: Final = 1_000
"""Entries that one call reads."""
TASKS_MOST: Final = 1_000_000
"""Tasks that `get_tasks` reads; processes and keys that a search looks at."""


class RawEngine(WorqrEngine):
    """Enqueues and claims tasks as they are: it writes no envelope, and reads none."""

    @staticmethod
    def _new_part(position: int, job: NewJob) -> Part:
        return Part(position, (md5_of(job.payload) if job.shape.unique else "", job.payload), len(job.payload))

    def _lease(self, worker: str, queue: str, row: list[Any], alone_ms: int) -> Lease:
        pid, task, token, failures, crashes = row
        record = JobRecord(as_text(pid), queue, task, 0, malformed="read as it is")
        return Lease(worker, int(token), record, failures, crashes, alone_ms)

    def cancel_tasks(self, queue: str, task: bytes) -> Steps[int]:
        """End all equal tasks that wait, ask the workers of those that run, and publish it."""
        how = (self._config, limits.MAX_BATCH, cancelled(""), task, md5_of(task))
        return (yield from self._in_rounds("cancel_task", queue, *how))

    def delete_queue(self, queue: str) -> Steps[int]:
        """Remove all tasks that wait, and publish it."""
        removed = yield from self._take_out(queue, b"")
        yield Command(("PUBLISH", channel(self.base, queue, "delete"), ""))
        return removed

    def request_work(self, queue: str) -> Steps[None]:
        """Publish how many tasks wait, if there are any."""
        count = yield Command(("LLEN", self._key("queues", queue)))
        if count:
            yield Command(("PUBLISH", channel(self.base, queue, "work"), count))

    def stop_work(self, worker: str, queue: str) -> Steps[None]:
        yield Command(("SREM", self._key("workingQueues", worker), queue))

    def fail(self, worker: str) -> Steps[int]:
        """Return the tasks of a worker of Tenure, and remove the worker."""
        queues = yield from self.members("workingQueues", worker)
        return (yield from self.leave(worker, queues))

    def silent_workers(self) -> Steps[list[str]]:
        """Expiring workers of Tenure without a timer.

        A dead original is left to those that live: only they return its tasks, and only while it is listed. Without
        them, `maintain` returns the tasks.
        """
        silent = []
        for worker in (yield from self.members("expiringWorkers")):
            is_ours = yield Command(("ZSCORE", self._key("tenure", "wire"), worker))
            if is_ours and not (yield Command(("EXISTS", self._key("workerTimers", worker)))):
                silent.append(worker)
        return silent

    def members(self, *words: str) -> Steps[list[str]]:
        found = yield Command(("SMEMBERS", self._key(*words)))
        return sorted(map(as_text, found))

    def tasks(self, queue: str) -> Steps[list[bytes]]:
        """The tasks that wait, the newest first. Read from the other end, which new tasks do not move."""
        found: list[bytes] = []
        while len(found) < TASKS_MOST:
            span = (-len(found) - PAGE, -len(found) - 1)
            page = yield Command(("LRANGE", self._key("queues", queue), *span))
            found += reversed(page)
            if len(page) < PAGE:
                break
        return found[::-1]

    def names(self, kind: str) -> Steps[list[str]]:
        """What the keys of a kind are named, found with SCAN."""
        found: set[str] = set()
        cursor = 0
        for _ in range(TASKS_MOST):
            following, keys = yield Command(("SCAN", cursor, "MATCH", self._key(kind, "*"), "COUNT", PAGE))
            found.update(as_text(key)[len(self._key(kind, "")) :] for key in keys)
            cursor = int(following)
            if not cursor:
                break
        return sorted(found)

    def matching_processes(self, task: bytes) -> Steps[list[str]]:
        matching = []
        for queue in (yield from self.names("workingProcesses")):
            for process in (yield from self.members("workingProcesses", queue)):
                if (yield Command(("LINDEX", self._key("processes", process), 0))) == task:
                    matching.append(process)
        return matching

    def peek(self, queue: str) -> Steps[bytes | None]:
        task: bytes | None = yield Command(("LINDEX", self._key("queues", queue), -1))
        return task

    def count(self, queue: str) -> Steps[int]:
        count: int = yield Command(("LLEN", self._key("queues", queue)))
        return count

    def channels(self, queue: str) -> dict[str, str]:
        """The channels of a queue, and the events that they carry."""
        return {channel(self.base, queue, event): event for event in ("work", "done", "cancel", "delete")}

    def _key(self, *words: str) -> str:
        return ":".join((self.base, *words))


def config_of(timeout_s: float, interval_s: float) -> WorqrConfig:
    """Return the numbers of a worker with a timer of `timeout_s`, below 0 for a permanent one.

    Raises `InvalidArgument`.
    """
    most = limits.MAX_LEASE_MS / limits.SECOND
    if not timeout_s < 0 and not 1 <= timeout_s <= limits.DAY / limits.SECOND:
        rule = "1 to 86,400 seconds, or below 0 for a permanent worker"
        raise invalid("worker_timeout", rule, names.shown(timeout_s))
    longest = (most if timeout_s < 0 else timeout_s) / 2
    if not MIN_INTERVAL_S <= interval_s <= longest:
        rule = f"{MIN_INTERVAL_S} to {longest:g} seconds, half of worker_timeout"
        raise invalid("worker_heartbeat_interval", rule, names.shown(interval_s))
    beat_ms = round(interval_s * limits.SECOND)
    lease_ms = limits.MAX_LEASE_MS if timeout_s < 0 else max(LEASE_MS, 2 * beat_ms)
    timer_ms = limits.MAX_LEASE_MS if timeout_s < 0 else round(timeout_s * limits.SECOND)
    return WorqrConfig(timing=Timing(beat_ms=beat_ms, lease_ms=lease_ms, presence_ms=PRESENCE_MS), timer_ms=timer_ms)


def encoded(tasks: Task | Sequence[Task]) -> list[bytes]:
    """Return tasks as Redis has them. Raises `InvalidArgument` for what is neither text nor a number."""
    return [_encoded(task) for task in tasks] if is_list(tasks) else [_encoded(tasks)]


def is_list(tasks: object) -> TypeGuard[Iterable[object]]:
    return isinstance(tasks, Iterable) and not isinstance(tasks, str | bytes | bytearray | memoryview | Mapping)


def _encoded(task: object) -> bytes:
    if isinstance(task, str):
        try:
            return task.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise invalid("task", names.UNICODE, "other text") from None
    if isinstance(task, int) and not isinstance(task, bool):
        return str(task).encode()
    if isinstance(task, float) and math.isfinite(task):
        # Node writes 5.0 as 5.
        return str(int(task) if task.is_integer() and abs(task) < EXPONENT_FROM else task).encode()
    # The value may be a secret, so the message has its type only.
    advice = "Decode it to text." if isinstance(task, bytes | bytearray | memoryview) else "Encode it as text."
    raise invalid("task", "text or a finite number", f"a value of type {type(task).__name__}", advice)
