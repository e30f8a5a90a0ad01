"""Processes as the system shows them: whether one has ended or is stopped, and the groups of job processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from tenure.core import limits

POLL_MS: Final = 50
"""How often a keeper asks for its worker's process where the system has no pidfd."""
GROUP_POLL_MS: Final = 2
"""How often a keeper asks for the job processes that it has killed."""

PROC: Final = "/proc"


class Stat(Struct, frozen=True):
    """The state of a process, a letter, and when it began, in ticks since the machine did."""

    state: bytes
    began: int


async def until_ended(parent: int) -> None:
    """Wait until the parent of this process has ended."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    pidfd: int | None = None
    with contextlib.suppress(AttributeError, OSError):  # not on every system, and not when it has ended
        pidfd = os.pidfd_open(parent)
        loop.add_reader(pidfd, ended.set)
    try:
        # The kernel gives orphans another parent. Before that the number was the parent's, and so was the pidfd.
        while os.getppid() == parent and not ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_MS / limits.SECOND if pidfd is None else None):
                    await ended.wait()
    finally:
        if pidfd is not None:
            loop.remove_reader(pidfd)
            os.close(pidfd)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped or dead, where the system has /proc."""
    about = stat_of(pid)
    return about is not None and about.state in (b"T", b"t", b"Z", b"X")


def stat_of(pid: int) -> Stat | None:
    """What the system knows of a process (/proc); None: nothing."""
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as stat:
            # "pid (name) state ...": the name may hold anything, also brackets.
            fields = stat.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Stat(fields[0], int(fields[19]))


class ProcessGroup(Struct, frozen=True):
    """The number of a job process and its group, and when it began: later another process may get the number."""

    pid: int
    began: int

    @property
    def is_there(self) -> bool:
        """Whether its leader runs or is not reaped yet. Until then no other process has its number."""
        about = stat_of(self.pid)
        return about is not None and about.began == self.began

    @property
    def is_running(self) -> bool:
        about = stat_of(self.pid)
        return about is not None and about.began == self.began and about.state not in (b"Z", b"X")


def group_of(pid: int) -> ProcessGroup | None:
    """The group of a job process that is not reaped yet. None: this system has no /proc."""
    about = stat_of(pid)
    return None if about is None else ProcessGroup(pid, about.began)


def kill(groups: Iterable[ProcessGroup]) -> list[ProcessGroup]:
    """Kill these groups. Return those that were there."""
    found = [group for group in groups if group.is_there]
    for group in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group.pid, signal.SIGKILL)
    return found


async def end(groups: Iterable[ProcessGroup], seconds: float) -> None:
    """Kill these groups and wait until their leaders have ended, for `seconds` at most."""
    left = kill(groups)
    until = time.monotonic() + seconds
    while (left := [group for group in left if group.is_running]) and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(GROUP_POLL_MS / limits.SECOND)


def has_terminal() -> bool:
    """Whether stdin of this process is a terminal."""
    with contextlib.suppress(OSError, ValueError):
        return os.isatty(sys.stdin.fileno())
    return False
