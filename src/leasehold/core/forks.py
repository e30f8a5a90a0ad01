"""Distinguishes a process from its copies: a fork copies connections, sessions and locks that belong to the parent."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass


@dataclass(slots=True)
class _Forks:
    """How many forks lie between the first process and this one."""

    depth: int = 0

    def forked(self) -> None:
        self.depth += 1


@functools.cache
def _forks_of_process() -> _Forks:
    """Count the forks from now on. Reading the number costs a third of `os.getpid`."""
    forks = _Forks()
    os.register_at_fork(after_in_child=forks.forked)
    return forks


class HomeProcess:
    """The process in which it was made.

    >>> home = HomeProcess()
    >>> home.is_left  # True in a child that was forked after that
    False
    """

    __slots__ = ("_depth", "_forks")

    def __init__(self) -> None:
        self._forks = _forks_of_process()
        self._depth = self._forks.depth

    @property
    def is_left(self) -> bool:
        """Whether this is a copy of that process."""
        return self._forks.depth != self._depth

    def move(self) -> None:
        """Make this process the home."""
        self._depth = self._forks.depth
