"""What a parent process runs, and the slots of its worker processes. Values and a little arithmetic."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tenure.core import limits
from tenure.core.backoff import Pauses
from tenure.processes.child import WorkerProcess
from tenure.processes.health import HealthOutputs

RETIRING_MOST: Final = 2
"""Processes of one slot, besides the newest, that may still be finishing their last jobs."""
YOUNG_MS: Final = 10 * limits.SECOND
"""A worker process that dies sooner after its start died young: it is replaced after a pause that grows."""
PAUSE_MS: Final = 250
"""The first pause before a worker process that died young is replaced. It doubles."""
PAUSE_CAP_MS: Final = 10 * limits.SECOND


@dataclass(frozen=True, slots=True)
class ParentConfig:
    """What to run.

    command    the command line of a worker process whose socket to its parent is this descriptor
    grace_s    how long running jobs may continue after a stop request
    burst      do not replace a process that ends with status 0
    watched    a folder: when Python files below it change, all processes are replaced
    metrics    host and port of the metrics; None: not served
    steer      is given a function that sets how many processes run, at most `processes`; it begins with none
    hard_s     how long a worker process may take to end after its grace period. Then comes a hard stop
    kill_s     how long it may take to end after a hard stop. Then the parent kills it
    """

    command: Callable[[int], Sequence[str]]
    processes: int = 1
    grace_s: float = limits.STOP_GRACE_MS / limits.SECOND
    burst: bool = False
    watched: str | None = None
    outlets: HealthOutputs = field(default_factory=HealthOutputs)
    metrics: tuple[str, int] | None = None
    steer: Callable[[Callable[[int], None]], Coroutine[Any, Any, None]] | None = None
    hard_s: float = 5.0
    kill_s: float = 3.0


class Slot:
    """One worker process of a parent. Beside it, earlier ones may be finishing their last jobs.

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
