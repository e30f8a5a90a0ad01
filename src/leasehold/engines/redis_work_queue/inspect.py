"""The engine for those who look: queues, counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

from dataclasses import replace

from leasehold.core import limits
from leasehold.core.engine import Feature
from leasehold.core.job import JobView, Page, State, WorkerView
from leasehold.core.steps import Command, Steps
from leasehold.core.unsupported import unsupported
from leasehold.engines.kit.base import Scripted
from leasehold.engines.kit.encoding import as_bytes
from leasehold.engines.kit.pages import check_page, read_cursor, write_cursor
from leasehold.engines.redis_work_queue.config import RedisWorkQueueConfig
from leasehold.engines.redis_work_queue.records import read_view
from leasehold.engines.redis_work_queue.wire import NAME


class RedisWorkQueueInspector(Scripted):
    """Reading half of the engine."""

    config: RedisWorkQueueConfig
    named: dict[str, str]

    def queues(self) -> Steps[list[str]]:
        """The queues that Leasehold has used lately, and `default` if it has items. Other clients list none."""
        found = {*(yield from super().queues()), *self.named}
        default = self.prefix("default")
        if (yield Command(("EXISTS", f"{default}:queue", f"{default}:processing"))):
            found.add("default")
        return sorted(found)

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        raw_id = as_bytes(id)
        reply = yield from self._ask("show", queue, raw_id)
        return read_view(queue, raw_id, reply, self.config.alone_from) if reply else None

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
        end, rows = yield from self._ask("page", queue, state.value, offset, limit, *cursor)
        total = (yield from self.queue(queue)).counts[state]
        jobs = tuple(read_view(queue, row[0], row[1:], self.config.alone_from) for row in rows)
        return Page(jobs, total, write_cursor(end, state, lane))

    def workers(self) -> Steps[list[WorkerView]]:
        """The workers of Leasehold: other clients do not announce theirs."""
        found = []
        for worker in (yield from self._announced()):
            active = 0
            for queue in worker.queues:
                active += yield Command(("ZCARD", f"{self.prefix(queue)}:held:{worker.id}"))
            found.append(replace(worker, active=active))
        return found
