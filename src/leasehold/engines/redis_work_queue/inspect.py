"""The engine for those who look: queues, counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from leasehold.core import limits
from leasehold.core.engine import Feature
from leasehold.core.job import JobView, Page, QueueView, State, WorkerView
from leasehold.core.steps import Command, Steps
from leasehold.core.unsupported import unsupported
from leasehold.engines.kit.base import Scripted
from leasehold.engines.kit.encoding import as_bytes, as_text, fields_of, number_of
from leasehold.engines.kit.pages import check_page, read_cursor, write_cursor
from leasehold.engines.redis_work_queue.config import RedisWorkQueueConfig
from leasehold.engines.redis_work_queue.records import read_view
from leasehold.engines.redis_work_queue.wire import NAME

_COUNTED: Final = (
    State.READY,
    State.SCHEDULED,
    State.ACTIVE,
    State.UNROUTABLE,
    State.FAILED,
    State.BROKEN,
    State.CANCELLED,
)
_TOTALS: Final = frozenset(
    {"completed", "failed", "broken", "cancelled", "crashed", "retried"}
    | {f"trimmed_{state}" for state in ("failed", "broken", "cancelled")}
)


class RedisWorkQueueInspector(Scripted):
    """Reading half of the engine."""

    config: RedisWorkQueueConfig
    named: dict[str, str]

    def queues(self) -> Steps[list[str]]:
        """Those that our producers and workers have used lately, and `default` if it has items. What other clients have
        beneath the prefix is not listed anywhere."""
        found = {*(yield from super().queues()), *self.named}
        default = self.prefix("default")
        if (yield Command(("EXISTS", f"{default}:queue", f"{default}:processing"))):
            found.add("default")
        return sorted(found)

    def queue(self, name: str) -> Steps[QueueView]:
        *numbers, meta, reserved = yield from self._ask("counts", name)
        totals = fields_of(meta)
        counts = dict.fromkeys(State, 0) | dict(zip(_COUNTED, numbers, strict=True))
        shown = {key: number_of(value) or 0 for key, value in sorted(totals.items()) if key in _TOTALS}
        newer = self._newer_layout(totals)
        return QueueView(name, counts, shown, reserved=as_text(reserved) or None, newer_layout=newer)

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
        """Our own: other clients do not say that they are there."""
        found = []
        for worker in (yield from self._announced()):
            active = 0
            for queue in worker.queues:
                active += yield Command(("ZCARD", f"{self.prefix(queue)}:held:{worker.id}"))
            found.append(replace(worker, active=active))
        return found
