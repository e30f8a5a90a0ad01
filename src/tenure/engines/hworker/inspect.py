"""The engine for those who look: counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

from typing import Any, Final

from tenure.core.job import JobView
from tenure.core.steps import Arg, Command, Steps
from tenure.engines.hworker.config import FIND_MOST, FIND_PAGE, HworkerConfig
from tenure.engines.hworker.keys import BROKEN, DEFAULT_QUEUE, FAILED, JOBS, PROGRESS
from tenure.engines.hworker.records import read_view
from tenure.engines.kit.encoding import as_bytes
from tenure.engines.kit.inspect import LanelessInspector

NAME: Final = "hworker"


class HworkerInspector(LanelessInspector):
    """Reading half of the engine."""

    pool: str
    config: HworkerConfig
    _config: str

    def queues(self) -> Steps[list[str]]:
        """`default`, if the pool has jobs or Tenure has used it lately."""
        found = set((yield from super().queues()))
        for begin in (JOBS, PROGRESS, FAILED, BROKEN) if not found else ():
            if (yield Command(("EXISTS", f"{begin}{self.pool}"))):
                found.add(DEFAULT_QUEUE)
        return sorted(found)

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        row = yield from self._row(queue, id)
        return self._view(queue, row) if row else None

    def _row(self, queue: str, id: str) -> Steps[list[Any] | None]:
        """A row of lua/lib/view.lua: of a record, or of a job that waits."""
        name = as_bytes(id)
        row = yield from self._ask("show", queue, name)
        start = 0
        while not row and 0 <= start < FIND_MOST:
            found = yield from self._ask("find", queue, name, start, FIND_PAGE)
            if isinstance(found, list):
                return found
            start = found
        # It was claimed meanwhile, if it is not unknown.
        return row or (yield from self._ask("show", queue, name)) or None

    def _view(self, queue: str, row: list[Any]) -> JobView:
        return read_view(queue, row, self.config.alone_from)

    def _page_args(self) -> tuple[Arg, ...]:
        return (self._config,)
