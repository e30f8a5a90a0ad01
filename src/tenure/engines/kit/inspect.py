"""What the inspectors of formats with other clients share: pages of jobs, and the workers of Tenure."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.job import JobView, Page, State
from tenure.core.steps import Arg, Command, Steps
from tenure.core.unsupported import unsupported
from tenure.core.values import replace
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.base import Scripted
from tenure.engines.kit.pages import check_page, read_cursor, write_cursor


class WorkersInspector(Scripted):
    """Counts what each worker holds in a key for each queue and worker, `held:<worker>`."""

    size_of_held: ClassVar[str] = "ZCARD"
    """The command that counts such a key."""

    def workers(self) -> Steps[list[WorkerView]]:
        """The workers of Tenure: other clients do not announce theirs."""
        found = []
        for worker in (yield from self.announced()):
            active = 0
            for queue in worker.queues:
                active += yield Command((self.size_of_held, f"{self.prefix(queue)}:held:{worker.id}"))
            found.append(replace(worker, active=active))
        return found


class LanelessInspector(WorkersInspector):
    """Pages of a format that has no lanes and keeps no completed jobs, by its script `page`."""

    name: ClassVar[str]

    @abstractmethod
    def _view(self, queue: str, row: list[Any]) -> JobView:
        """A job in the reply of the script."""

    def _page_args(self) -> tuple[Arg, ...]:
        """More arguments of the script."""
        return ()

    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = limits.PAGE_MAX,
        lane: str | None = None,
        after: str | None = None,
        heads: bool = False,
    ) -> Steps[Page]:
        if lane is not None:
            raise unsupported(self.name, Feature.LANES)
        check_page(offset, limit)
        cursor = read_cursor(after, state, lane)
        if state is State.COMPLETED:
            return Page((), 0)
        end, rows = yield from self._ask("page", queue, state.value, offset, limit, *cursor, *self._page_args())
        total = (yield from self.queue(queue)).counts[state]
        return Page(tuple(self._view(queue, row) for row in rows), total, write_cursor(end, state, lane))
