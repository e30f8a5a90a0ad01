"""The slots of a parent's worker processes. Values and a little arithmetic."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from tenure.core import limits
from tenure.core.backoff import Pauses
from tenure.processes.child import WorkerProcess

RETIRING_MOST: Final = 2
"""Processes of one slot, besides the newest, that may still be finishing their last jobs."""
YOUNG_MS: Final = 10 * limits.SECOND
"""A worker process that dies sooner after its start died young: it is replaced after a pause that grows."""
PAUSE_MS: Final = 250
"""The first pause before a worker process that died young is replaced. It doubles."""
PAUSE_CAP_MS: Final = 10 * limits.SECOND


class Slot:
    """One worker process of a parent. Earlier ones of its slot may still be finishing their last jobs.

    >>> slot = Slot(0, lambda: 1.0)
    >>> [slot.pause_s(lived_s) for lived_s in (3600, 1, 1, 1, 3600)]
    [0.0, 0.0, 0.25, 0.5, 0.0]
    """

    def __init__(self, number: int, random: Callable[[], float] = random.random) -> None:
        self.number = number
        self.current: WorkerProcess | None = None
        self.successor: WorkerProcess | None = None
        """In a rolling restart: replaces `current` when it is ready."""
        self.retiring: set[WorkerProcess] = set()
        self.is_starting = False
        self.is_wanted = True
        self.is_done = False
        """In a burst: the process found no more jobs."""
        self._pause: asyncio.TimerHandle | None = None
        self._pauses = Pauses(PAUSE_MS / limits.SECOND, PAUSE_CAP_MS / limits.SECOND, random)
        self._died_young = False

    @property
    def is_empty(self) -> bool:
        """Whether a process should be started here."""
        is_taken = self.current is not None or self.successor is not None or self.is_starting
        is_open = self.is_wanted and not self.is_done and self._pause is None
        return is_open and not is_taken and len(self.retiring) <= RETIRING_MOST

    @property
    def running(self) -> int:
        """How many jobs its process runs. -1: it has no process."""
        return -1 if self.current is None else self.current.status.active

    def pause_s(self, lived_s: float) -> float:
        """Return how long to wait before a process is replaced that died after `lived_s` seconds."""
        before, self._died_young = self._died_young, lived_s * limits.SECOND < YOUNG_MS
        if before and self._died_young:
            return self._pauses.next_s()
        self._pauses.reset()
        return 0.0

    def pause(self, seconds: float, then: Callable[[], None]) -> None:
        """Stay empty for this time. Then call `then`."""

        def end() -> None:
            self._pause = None
            then()

        self._pause = asyncio.get_running_loop().call_later(seconds, end)

    def end_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
