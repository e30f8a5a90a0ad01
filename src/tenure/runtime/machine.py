"""Locks between the worker processes of one machine or container. A lock ends with its worker, or with its process.

`flock` locks an open file and not a process, so two workers in one process do not share a lock.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet

AHEAD_MOST_S: Final = 1_200.0
"""A time further ahead than this was written before the clock was set back, and is ignored."""
TRIES: Final = 50
"""Attempts at a lock that other processes hold only for a moment, to test it."""

_locks: WeakSet[Lock] = WeakSet()


def _close_all() -> None:
    for lock in list(_locks):
        lock.close()


# Otherwise a child that a handler forks would keep the locks after its worker has died.
os.register_at_fork(after_in_child=_close_all)


def private_directory(path: Path) -> bool:
    """Make a directory that only this user can enter. False: another user has made it, or others can enter it.

    Raises `OSError` if it cannot be made.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077


class Lock:
    """A lock on a file, shared or exclusive, and a time that all processes read. Where the file cannot be made, each
    process gets the lock."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._file: int | None = None
        self.held: int = fcntl.LOCK_UN
        _locks.add(self)

    def hold(self, kind: int) -> bool:
        """Get or keep the lock: `LOCK_SH` or `LOCK_EX`. False: another process has it; this one loses its own."""
        if self.held == kind:
            return True
        try:
            fcntl.flock(self._open(), kind | fcntl.LOCK_NB)
        except BlockingIOError:
            self.held = fcntl.LOCK_UN
            return False
        except OSError:
            return True
        self.held = kind
        return True

    def free(self) -> None:
        if self.held != fcntl.LOCK_UN and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self.held = fcntl.LOCK_UN

    @property
    def is_set(self) -> bool:
        """Whether the time is in the future."""
        try:
            return 0 < os.fstat(self._open()).st_mtime - self._clock() < AHEAD_MOST_S
        except OSError:
            return False

    def set(self, seconds: float) -> None:
        """Write the time, `seconds` from now, as the file's modification time."""
        at = self._clock() + seconds
        try:
            os.utime(self._open(), (at, at))
        except OSError:
            return

    def close(self) -> None:
        """Lose the lock, as the end of the process does."""
        file, self._file, self.held = self._file, None, fcntl.LOCK_UN
        if file is not None:
            with suppress(OSError):  # a handler has closed all files
                os.close(file)

    def _open(self) -> int:
        if self._file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        return self._file


class Machine:
    """Lets one process at a time run a job while no other starts any: processes of one container die together.

    `wanted` is held by the process that runs a job alone or gets ready to; until its time the others claim nothing.
    `busy` is shared by the processes in which a job started lately; until its time no job may run alone.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._wanted = Lock(path.with_suffix(".wanted"), clock)
        self._busy = Lock(path.with_suffix(".busy"), clock)

    def begin(self) -> bool:
        """Whether jobs may start here, because no other process wants to run one alone. If so, this one is busy."""
        if self._wanted.held == fcntl.LOCK_EX:
            return True
        if self._wanted.is_set:
            is_free = self._wanted.hold(fcntl.LOCK_SH)
            self._wanted.free()
            if not is_free:
                return False
        return self._busy.hold(fcntl.LOCK_SH)

    def settle(self) -> None:
        """Note that no job started here lately."""
        self._busy.free()

    def want(self, seconds: float) -> bool:
        """Keep the others from starting jobs, for at most `seconds`. False: another process does, or it is the turn of
        other jobs."""
        if self._busy.is_set or not any(self._wanted.hold(fcntl.LOCK_EX) for _ in range(TRIES)):
            return False
        self._wanted.set(seconds)
        return True

    def is_quiet(self) -> bool:
        """Whether no job started lately in other processes."""
        quiet = any(self._busy.hold(fcntl.LOCK_EX) for _ in range(TRIES))
        self._busy.free()
        return quiet

    def release(self, turn_s: float = 0.0) -> None:
        """Let the others start jobs again. For `turn_s` it is their turn: no process runs a job alone."""
        if self._wanted.held == fcntl.LOCK_EX:
            if turn_s:
                self._busy.set(turn_s)
            self._wanted.set(0)
            self._wanted.free()

    def end_turn(self) -> None:
        """End the turn of other jobs: there are none."""
        self._busy.set(0)

    def close(self) -> None:
        """Free the locks: the worker has ended, and its process may not."""
        self._wanted.close()
        self._busy.close()
