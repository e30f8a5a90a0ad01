"""Lets objects begin again in the child processes of a fork."""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol


class Begins(Protocol):
    """What must not be shared with another process."""

    def begin(self) -> None:
        """Forget all."""
        ...


class _Forks:
    def __init__(self) -> None:
        self.known: weakref.WeakSet[Begins] = weakref.WeakSet()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        for one in self.known:
            one.begin()


FORKS: Final = _Forks()
"""`FORKS.known.add(one)`: `one.begin()` is called in each child, as long as it exists."""
