"""How a `tenure worker` process ended."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """Its exit status. `cli.errors.Exit` has these numbers for all commands, and the meaning of each."""

    DONE = 0
    FAILED = 1
    WRONG = 2
    HARD = 3
    RECYCLED = 4
