"""The engine for those who look: counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

from typing import Any, Final

from tenure.core.job import JobRecord
from tenure.core.steps import Command, Steps
from tenure.engines.hworker.config import HworkerConfig
from tenure.engines.hworker.keys import BROKEN, DEFAULT_QUEUE, FAILED, JOBS, PROGRESS
from tenure.engines.hworker.records import read_job
from tenure.engines.kit.encoding import as_bytes
from tenure.engines.kit.lists.queue import ListQueue

NAME: Final = "hworker"


class HworkerInspector(ListQueue):
    """Reading half of the engine."""

    pool: str
    config: HworkerConfig

    def queues(self) -> Steps[list[str]]:
        """`default`, if the pool has jobs or Tenure has used it lately."""
        found = set((yield from super().queues()))
        for begin in (JOBS, PROGRESS, FAILED, BROKEN) if not found else ():
            if (yield Command(("EXISTS", f"{begin}{self.pool}"))):
                found.add(DEFAULT_QUEUE)
        return sorted(found)

    @staticmethod
    def _read(queue: str, id: bytes, data: bytes) -> JobRecord:
        return read_job(queue, id, data)

    def _row(self, queue: str, id: str) -> Steps[list[Any] | None]:
        """A row of lua/lib/view.lua: of a record, or of a job that waits."""
        name = as_bytes(id)
        row = (yield from self._ask("show", queue, name)) or (yield from self._find(queue, name))
        # A worker claimed the job between the two calls, or it is unknown.
        return row or (yield from self._ask("show", queue, name)) or None
