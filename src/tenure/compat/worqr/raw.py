"""The engine with tasks as bare strings, and the operations that only the original's interface has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tenure.core import limits
from tenure.core.job import JobRecord, Lease, NewJob
from tenure.core.steps import Command, Steps
from tenure.engines.kit.chunks import Part
from tenure.engines.kit.encoding import as_text, cancelled
from tenure.engines.worqr import WorqrEngine
from tenure.engines.worqr.keys import channel
from tenure.engines.worqr.records import md5_of

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
        record = JobRecord(as_text(pid), queue, None, task, 0, malformed="read as it is")
        return Lease(worker, int(token), record, failures, crashes, alone_ms)

    def cancel_tasks(self, queue: str, task: bytes) -> Steps[int]:
        """End all equal tasks that wait in `cancelled`, ask the workers of those that run, and publish it."""
        how = (self._config, limits.MAX_BATCH, cancelled(""), task, md5_of(task))
        return (yield from self._in_rounds("cancel_task", queue, *how))

    def delete_queue(self, queue: str) -> Steps[int]:
        """Remove all tasks that wait, and publish it."""
        removed = yield from self._take_out(queue, b"")
        yield Command(("PUBLISH", channel(self.base, queue, "delete"), ""))
        return removed

    def start_work(self, queue: str) -> Steps[None]:
        """Ask for work once: some of it may have been published before this worker listened."""
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
        """The tasks that wait, in the order in which they are served."""
        found: list[bytes] = []
        while len(found) < TASKS_MOST:
            span = (-len(found) - PAGE, -len(found) - 1)
            page = yield Command(("LRANGE", self._key("queues", queue), *span))
            found += reversed(page)
            if len(page) < PAGE:
                break
        return found

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


def encoded(tasks: str | Sequence[str]) -> list[bytes]:
    """Tasks as Redis has them."""
    return [task.encode("utf-8", "surrogateescape") for task in ([tasks] if isinstance(tasks, str) else tasks)]
