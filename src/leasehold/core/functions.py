"""What a callable is."""

from __future__ import annotations

import inspect


def is_async(function: object) -> bool:
    """Whether it is an async function, or an object that is called as one."""
    if inspect.iscoroutinefunction(function):
        return True
    return callable(function) and inspect.iscoroutinefunction(type(function).__call__)
