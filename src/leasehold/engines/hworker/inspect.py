"""The engine for those who look: counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from leasehold.core import limits
from leasehold.core.engine import Feature
from leasehold.core.job import JobView, Page, State, WorkerView
from leasehold.core.steps import Command, Steps
from leasehold.core.unsupported import unsupported
from leasehold.engines.hworker.config import FIND_MOST, FIND_PAGE, HworkerConfig
from leasehold.engines.hworker.keys import BROKEN, DEFAULT_QUEUE, FAILED, JOBS, PROGRESS
from leasehold.engines.hworker.records import read_view
from leasehold.engines.kit.base import Scripted
from leasehold.engines.kit.encoding import as_bytes
from leasehold.engines.kit.pages import check_page, read_cursor, write_cursor

NAME: Final = "hworker"


class HworkerInspector(Scripted):
    """Reading half of the engine."""

    pool: str
    config: HworkerConfig
    _config: str

    def queues(self) -> Steps[list[str]]:
        """`default`, if the pool has jobs or Leasehold has used it lately."""
        found = set((yield from super().queues()))
        for begin in (JOBS, PROGRESS, FAILED, BROKEN) if not found else ():
            if (yield Command(("EXISTS", f"{begin}{self.pool}"))):
                found.add(DEFAULT_QUEUE)
        return sorted(found)

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        row = yield from self._row(queue, id)
        return read_view(queue, row, self.config.alone_from) if row else None

    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = limits.PAGE_MAX,
        lane: str | None = None,
        after: str | None = None,
    ) -> Steps[Page]:
        if lane is not None:
            raise unsupported(NAME, Feature.LANES)
        check_page(offset, limit)
        cursor = read_cursor(after, state, lane)
        if state is State.COMPLETED:
            return Page((), 0)
        end, rows = yield from self._ask("page", queue, state.value, offset, limit, *cursor, self._config)
        total = (yield from self.queue(queue)).counts[state]
        jobs = tuple(read_view(queue, row, self.config.alone_from) for row in rows)
        return Page(jobs, total, write_cursor(end, state, lane))

    def workers(self) -> Steps[list[WorkerView]]:
        """The workers of Leasehold: those of the original have no names."""
        found = []
        for worker in (yield from self._announced()):
            active = 0
            for queue in worker.queues:
                active += yield Command(("ZCARD", f"{self.prefix(queue)}:held:{worker.id}"))
            found.append(replace(worker, active=active))
        return found

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
