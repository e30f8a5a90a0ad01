"""What the worker processes of one machine, or container, tell each other: by locks, which end with their process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Lock:
    """A lock on a file: shared by many processes, or held by one. Where there can be no such file all get it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self.held: int = fcntl.LOCK_UN

    def hold(self, kind: int) -> bool:
        """Get or keep it: `LOCK_SH` or `LOCK_EX`. False: another process has it, and what was held is given up."""
        if self.held == kind:
            return True
        try:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._file = os.open(self._path, flags, 0o600)
            fcntl.flock(self._file, kind | fcntl.LOCK_NB)
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


class Machine:
    """Lets one process at a time run a job while no other begins any: processes of one container die together.

    `wanted` is held by the process that runs a job alone or gets ready to; the others claim nothing meanwhile. `busy`
    is shared by those whose jobs began only lately.
    """

    def __init__(self, path: Path) -> None:
        self._wanted = Lock(path.with_suffix(".wanted"))
        self._busy = Lock(path.with_suffix(".busy"))

    def begin(self) -> bool:
        """Whether jobs may begin here, as no other process wants to run one alone. From now on this one is busy."""
        if self._wanted.held == fcntl.LOCK_EX:
            return True
        free = self._wanted.hold(fcntl.LOCK_SH)
        self._wanted.free()
        return free and self._busy.hold(fcntl.LOCK_SH)

    def settle(self) -> None:
        """No job here began lately."""
        self._busy.free()

    def want(self) -> bool:
        """Keep the others from beginning jobs. False: another process does so."""
        return self._wanted.hold(fcntl.LOCK_EX)

    def is_quiet(self) -> bool:
        """Whether in no other process a job began lately."""
        quiet = self._busy.hold(fcntl.LOCK_EX)
        self._busy.free()
        return quiet

    def release(self) -> None:
        """Let the others begin jobs again."""
        self._wanted.free()
