"""A handler that forks and does not end the child leaves a copy of the whole worker. The copy must do nothing."""

from __future__ import annotations

import os
from typing import Final

CLONE_STATUS: Final = 70
"""The exit status of such a copy, if anybody asks."""


class ForkGuard:
    """Remembers which process is the worker's own.

    Asked before every call to Redis and after every handler: a copy would speak on the worker's connections.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()

    def end_clone(self) -> None:
        """End this process at once if it is a copy. Its exit handlers and buffers are the worker's: they do not run."""
        if os.getpid() != self._pid:
            os._exit(CLONE_STATUS)
