"""Processes as the system shows them: whether a parent lives, whether one is stopped, groups of job processes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from leasehold.core import limits

HAND_BACK_MS: Final = 10 * limits.SECOND
"""How long the keeper of a dead worker tries to release its jobs while Redis refuses or does not reply. After that
the leases expire."""
WAITER_MS: Final = HAND_BACK_MS + 4 * limits.SECOND
"""How long others wait for such a keeper: it may have been busy before."""
PARENT_LOOK_MS: Final = 50
"""How often a keeper checks whether its worker's process has become another program."""

PROC: Final = "/proc"
OVER: Final = "--worker-is-over"
"""On the command line of what a worker's process becomes when it has ended: no thread of the worker lives any more."""


@dataclass(frozen=True, slots=True)
class Stat:
    """The state of a process, a letter, and when it began, in ticks since the machine did."""

    state: bytes
    began: int


class Parent:
    """The worker's process. A child that it forked may hold the other end of the pipe open after its death."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd: int | None = None
        # Not on every system, and not when it has died already.
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(pid)

    @property
    def signs(self) -> list[int]:
        """What `select` finds readable as soon as the process has died, where the system can say so."""
        return [] if self._pidfd is None else [self._pidfd]

    @property
    def dead(self) -> bool:
        """Asked of the kernel, which gives orphans another parent. The pid alone may be another process by now."""
        return os.getppid() != self.pid or bool(self.signs and select.select(self.signs, [], [], 0)[0])

    @property
    def over(self) -> bool:
        """Whether it is dead, or another program by now."""
        return self.dead or is_over(self.pid)

    def wait(self, seconds: float) -> bool:
        """Wait until it is over, for so long at most. Whether it is."""
        until = time.monotonic() + seconds
        while not self.over and (left := until - time.monotonic()) > 0:
            select.select(self.signs, [], [], min(left, PARENT_LOOK_MS / limits.SECOND))
        return self.over


def is_over(pid: int) -> bool:
    """Whether a worker's process has become the program that waits for its keeper, where the system tells (/proc)."""
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as words:
            return OVER.encode() in words.read().split(b"\0")
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped or dead, where the system tells (/proc)."""
    about = stat_of(pid)
    return about is not None and about.state in (b"T", b"t", b"Z", b"X")


def stat_of(pid: int) -> Stat | None:
    """What the system tells of a process (/proc); None: nothing."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as stat:
            # "pid (name) state ...": the name may hold anything, also brackets.
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Stat(fields[0], int(fields[19]))


_LOOK_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The number of a job process, which is that of its group, and when it began: later the number may be another's."""

    pid: int
    began: int

    @property
    def there(self) -> bool:
        """Whether its leader is, be it dead: then its number is no other's."""
        about = stat_of(self.pid)
        return about is not None and about.began == self.began

    @property
    def runs(self) -> bool:
        about = stat_of(self.pid)
        return about is not None and about.began == self.began and about.state not in (b"Z", b"X")


def group_of(pid: int) -> ProcessGroup | None:
    """The group of a job process that is not reaped yet. None: this system does not tell of processes."""
    about = stat_of(pid)
    return None if about is None else ProcessGroup(pid, about.began)


def end(groups: Iterable[ProcessGroup], seconds: float) -> None:
    """Kill these groups, as far as they are there, and wait until their leaders run no more, for so long at most."""
    left = []
    for group in groups:
        if group.there:
            left.append(group)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group.pid, signal.SIGKILL)
    until = time.monotonic() + seconds
    while (left := [group for group in left if group.runs]) and time.monotonic() < until:
        time.sleep(_LOOK_S)
