"""The process that a keeper keeps leases for: whether it lives, and whether it is stopped."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import Final

from leasehold.core import limits

NO_PIDFD_MS: Final = 50
"""Where the system has no pidfd: how often it is looked whether the process lives, when its pipe has ended."""


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

    def wait(self, seconds: float) -> bool:
        """Wait for its death, for so long at most. Whether it is dead."""
        until = time.monotonic() + seconds
        while not self.dead and (left := until - time.monotonic()) > 0:
            select.select(self.signs, [], [], left if self.signs else min(left, NO_PIDFD_MS / limits.SECOND))
        return self.dead


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped or dead, where the system tells (/proc)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            fields = stat.read()
    except OSError:
        return False
    # "pid (name) state ...": the name may hold anything, also brackets.
    return fields[fields.rindex(b")") + 2 : fields.rindex(b")") + 3] in (b"T", b"t", b"Z", b"X")
