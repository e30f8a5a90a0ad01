"""The engine for those who look: queues, counts, jobs, workers. Nothing here changes a job."""

from __future__ import annotations

from typing import Any

from tenure.core.job import JobView
from tenure.core.steps import Command, Steps
from tenure.engines.kit.encoding import as_bytes
from tenure.engines.kit.inspect import LanelessInspector
from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig
from tenure.engines.redis_work_queue.records import read_view


class RedisWorkQueueInspector(LanelessInspector):
    """Reading half of the engine."""

    config: RedisWorkQueueConfig
    named: dict[str, str]

    def queues(self) -> Steps[list[str]]:
        """The queues that Tenure has used lately, and `default` if it has items. Other clients list none."""
        found = {*(yield from super().queues()), *self.named}
        default = self.prefix("default")
        if (yield Command(("EXISTS", f"{default}:queue", f"{default}:processing"))):
            found.add("default")
        return sorted(found)

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        raw_id = as_bytes(id)
        reply = yield from self._ask("show", queue, raw_id)
        return read_view(queue, raw_id, reply, self.config.alone_from) if reply else None

    def _view(self, queue: str, row: list[Any]) -> JobView:
        return read_view(queue, row[0], row[1:], self.config.alone_from)
