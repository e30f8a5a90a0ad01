"""Inspects callables."""

from __future__ import annotations

import inspect


def is_async(function: object) -> bool:
    """Return whether this is an async function, or an object with an async `__call__`."""
    if inspect.iscoroutinefunction(function):
        return True
    return callable(function) and inspect.iscoroutinefunction(type(function).__call__)
