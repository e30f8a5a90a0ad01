"""The engine for those who look: queues, counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

import re
from typing import Any, Final

from tenure.core.job import JobRecord
from tenure.core.steps import Command, Steps
from tenure.engines.kit.encoding import as_bytes, as_text
from tenure.engines.kit.lists.queue import ListQueue
from tenure.engines.worqr.config import LIST_STEPS, SWEEP_PAGE, WORKERS_MOST, WorqrConfig
from tenure.engines.worqr.records import read_task

NAME: Final = "worqr"
_ENDS: Final = (b"failed", b"broken", b"cancelled")
_SHA1: Final = re.compile("[0-9a-f]{40}")


class WorqrInspector(ListQueue):
    """Reading half of the engine."""

    base: str
    config: WorqrConfig

    def queues(self) -> Steps[list[str]]:
        """The queues that Tenure has used lately, that a worker of an original serves, or in which tasks wait.

        The last are found in the first ten thousand keys of the database.
        """
        found = {*(yield from super().queues())}
        workers = yield Command(("SMEMBERS", f"{self.base}:workers"))
        for worker in workers[:WORKERS_MOST]:
            served = yield Command(("SMEMBERS", f"{self.base}:workingQueues:{as_text(worker)}"))
            found.update(map(as_text, served))
        head, cursor = f"{self.base}:queues:", 0
        for _ in range(LIST_STEPS):
            following, keys = yield Command(("SCAN", cursor, "MATCH", f"{head}*", "COUNT", SWEEP_PAGE))
            found.update(as_text(key)[len(head) :] for key in keys)
            cursor = int(following)
            if not cursor:
                break
        return sorted(filter(None, found))

    @staticmethod
    def _read(queue: str, id: bytes, data: bytes) -> JobRecord:
        return read_task(queue, as_text(id), data)

    def _row(self, queue: str, id: str) -> Steps[list[Any] | None]:
        """A row of lua/lib/view.lua: of a process or record, or of a task that waits, by the hash of its bytes.

        Among identical jobs it prefers one that has not ended.
        """
        name = as_bytes(id)
        row = yield from self._ask("show", queue, name)
        if (row and row[1] not in _ENDS) or not _SHA1.fullmatch(id):
            return row or None
        # Else a worker claimed the job between the two calls, or an original runs it, or it is unknown.
        found = (yield from self._find(queue, name)) or (yield from self._ask("running", queue, name))
        return found or row or None
