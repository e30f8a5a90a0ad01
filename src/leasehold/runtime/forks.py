"""Ends copies of a worker: a handler that forks and does not end the child leaves one."""

from __future__ import annotations

import os
from typing import Final

from leasehold.core.forks import HomeProcess

CLONE_STATUS: Final = 70
"""The exit status of such a copy."""


class ForkGuard:
    """Remembers the process in which it was made. `end_clone` is called before every call to Redis and after every
    handler: a copy would use the worker's connections."""

    def __init__(self) -> None:
        self._home = HomeProcess()

    def end_clone(self) -> None:
        """End this process at once if it is a copy, without the exit handlers and buffers, which are the worker's."""
        if self._home.is_left:
            os._exit(CLONE_STATUS)
