"""Ends copies of a worker: a handler that forks and does not end the child leaves one."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Final

CLONE_STATUS: Final = 70
"""The exit status of such a copy."""


@dataclass(slots=True)
class Forks:
    """How many forks lie between the first process and this one."""

    depth: int = 0

    def forked(self) -> None:
        self.depth += 1


@functools.cache
def forks_of_process() -> Forks:
    """Count the forks from now on. Reading the number costs a tenth of `os.getpid`."""
    forks = Forks()
    os.register_at_fork(after_in_child=forks.forked)
    return forks


class ForkGuard:
    """Remembers the process in which it was made. `end_clone` is called before every call to Redis and after every
    handler: a copy would use the worker's connections."""

    def __init__(self) -> None:
        self._forks = forks_of_process()
        self._depth = self._forks.depth

    def end_clone(self) -> None:
        """End this process at once if it is a copy, without the exit handlers and buffers, which are the worker's."""
        if self._forks.depth != self._depth:
            os._exit(CLONE_STATUS)
