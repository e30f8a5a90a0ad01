"""Waiting for what a test expects to come about. Generous: it says that it did not come, and nothing of how fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LIMIT_S: Final = 150.0


def until(condition: Callable[[], object], seconds: float = LIMIT_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come about in {seconds:g} s"
        time.sleep(0.02)
