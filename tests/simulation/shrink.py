"""Looks for a short history that fails as a long one does: parts of it are left out, by halves and then singly."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

TRIALS_MOST: Final = 200
SECONDS_MOST: Final = 60.0


def shrink(actions: Sequence[T], fails: Callable[[Sequence[T]], bool], trials: int = TRIALS_MOST) -> list[T]:
    """Return a part of `actions` with which `fails` is true. It is called `trials` times at most."""
    until = time.monotonic() + SECONDS_MOST
    left, size = list(actions), max(1, len(actions) // 2)
    while trials > 0 and time.monotonic() < until:
        start, is_shorter = 0, False
        while start < len(left) and trials > 0 and time.monotonic() < until:
            shorter = left[:start] + left[start + size :]
            trials -= 1
            if fails(shorter):
                left, is_shorter = shorter, True
            else:
                start += size
        if size == 1 and not is_shorter:
            break
        size = max(1, size // 2)
    return left
