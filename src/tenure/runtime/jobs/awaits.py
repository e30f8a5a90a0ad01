"""The running jobs that wait for the results of other jobs: each keeps its slot meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tenure.runtime.log import Once, log_event

if TYPE_CHECKING:
    from tenure.runtime.jobs.held import Held

PAIRS_LOGGED: Final = 50
"""The most pairs of tasks that are logged."""


class Awaits:
    """Counts the jobs of one worker that wait for others. Safe for threads: each operation is one of a set."""

    def __init__(self) -> None:
        self._waiting: set[object] = set()
        self._told = Once(PAIRS_LOGGED)

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def wait(self, held: Held, task: str | None, id: str) -> Iterator[None]:
        """Count the job while it waits for the job `id`. Log the first wait of each pair of tasks."""
        record, key = held.lease.record, object()
        if self._told.is_new(f"{record.task} {task}"):
            about = {"queue": record.queue, "task": record.task, "id": record.id}
            log_event("result_awaited", **about, awaited_task=task, awaited_id=id)
        self._waiting.add(key)
        try:
            yield
        finally:
            self._waiting.discard(key)
