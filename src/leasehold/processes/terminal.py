"""Whether somebody sits in front of this process."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def has_terminal() -> bool:
    with suppress(OSError, ValueError):
        return os.isatty(sys.stdin.fileno())
    return False
