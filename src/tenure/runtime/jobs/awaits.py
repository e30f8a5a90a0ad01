"""The running jobs that wait for the results of other jobs: each keeps its slot while it waits."""

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
    """Counts the jobs of one worker that wait for others. Safe for threads: each operation on the set is one step."""

    def __init__(self) -> None:
        self._waiting: set[tuple[str, object]] = set()
        """The id of a waiting job, once for each result that it waits for."""
        self._told = Once(PAIRS_LOGGED)

    def __len__(self) -> int:
        return len({id for id, _ in tuple(self._waiting)})

    @contextmanager
    def wait(self, held: Held, task: str | None, id: str) -> Iterator[None]:
        """Count the job while it waits for the job `id`. Log the first wait of each pair of tasks."""
        record = held.lease.record
        key = (record.id, object())
        if self._told.is_new(f"{record.task} {task}"):
            about = {"queue": record.queue, "task": record.task, "id": record.id}
            log_event("result_awaited", **about, awaited_task=task, awaited_id=id)
        self._waiting.add(key)
        try:
            yield
        finally:
            self._waiting.discard(key)
