"""What a parent process runs, and the places of its worker processes. Values and a little arithmetic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from leasehold.core import limits
from leasehold.processes.child import WorkerProcess
from leasehold.processes.health import HealthOutputs
from leasehold.processes.restarts import RestartPauses

CHILD_START_MS: Final = limits.MINUTE
"""A worker process that is not ready after this time is logged. A rolling restart continues without it."""
CHILD_HARD_MS: Final = 5 * limits.SECOND
"""How long a worker process has to end after its grace period. Then it is told to stop hard."""
CHILD_KILL_MS: Final = 3 * limits.SECOND
"""A worker process that still runs this long after it was told to stop hard is killed."""
CHILD_RETIRING_MOST: Final = 2
"""Processes of one slot, besides the newest, that may still be finishing their last jobs."""


@dataclass(frozen=True, slots=True)
class ParentConfig:
    """What to run. `command`: the command line of a worker process whose socket to its parent is this descriptor.

    `grace_s`: how long its running jobs may go on after a stop was asked for. `burst`: a process that ends well is not
    replaced. `watched`: a folder; when Python files below it change, all are replaced.
    """

    command: Callable[[int], Sequence[str]]
    processes: int = 1
    grace_s: float = limits.STOP_GRACE_MS / limits.SECOND
    burst: bool = False
    watched: str | None = None
    outlets: HealthOutputs = field(default_factory=HealthOutputs)


@dataclass(slots=True, eq=False)
class Slot:
    """Where one worker process is at work. Besides it there may be some that finish their last jobs."""

    number: int
    pauses: RestartPauses
    current: WorkerProcess | None = None
    successor: WorkerProcess | None = None
    """In a rolling restart: takes over when it is ready."""
    starting: bool = False
    pause: asyncio.TimerHandle | None = None
    done: bool = False
    """In a burst: nothing was left to do here."""
    retiring: set[WorkerProcess] = field(default_factory=set)

    @property
    def empty(self) -> bool:
        """Whether a process is to be started here and none is on its way."""
        full = self.current is not None or self.successor is not None or self.starting or self.pause is not None
        return not full and not self.done and len(self.retiring) <= CHILD_RETIRING_MOST

    def forget_pause(self) -> None:
        if self.pause is not None:
            self.pause.cancel()
            self.pause = None
