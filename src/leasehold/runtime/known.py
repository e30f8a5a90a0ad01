"""What a worker can run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leasehold.core.job import Lease
from leasehold.core.task import BatchRule, TaskSpec
from leasehold.runtime.middleware import Layers


@dataclass(frozen=True, slots=True)
class Known:
    """What this worker can run: tasks by name, handlers of raw payloads by queue."""

    tasks: Mapping[str, TaskSpec]
    handlers: Mapping[str, TaskSpec]

    def route(self, lease: Lease) -> TaskSpec | None:
        record = lease.record
        return self.handlers.get(record.queue) if record.task is None else self.tasks.get(record.task)

    def batch_rules(self) -> dict[str, BatchRule]:
        """Of the queues whose raw payloads are handled in batches."""
        return {queue: spec.batch for queue, spec in self.handlers.items() if spec.batch is not None}

    def behind(self, layers: Layers) -> Known:
        """The same, with the middleware around them."""
        return Known(
            {name: layers.around(spec) for name, spec in self.tasks.items()},
            {queue: layers.around(spec) for queue, spec in self.handlers.items()},
        )

    def have_hooks(self) -> bool:
        return any(spec.on_failure is not None for spec in (*self.tasks.values(), *self.handlers.values()))
