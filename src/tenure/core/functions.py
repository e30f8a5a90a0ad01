"""Inspects callables, and lets `inspect` see the function in one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tenure.core.errors import InvalidArgument


def is_async(function: object) -> bool:
    """Return whether this is an async function, or an object with an async `__call__`."""
    if inspect.iscoroutinefunction(function):
        return True
    return callable(function) and inspect.iscoroutinefunction(type(function).__call__)


def resemble(target: object, function: Callable[..., Any]) -> None:
    """Let `inspect` see a function in a callable object, as its `iscoroutinefunction` and `signature` do."""
    for name in ("__doc__", "__code__", "__defaults__", "__kwdefaults__"):
        setattr(target, name, getattr(function, name, None))


def without_warning(value: object) -> str:
    """Return the name of the type of a refused value. Close a coroutine, so that Python does not warn of it too: an
    async task was called by mistake."""
    if inspect.iscoroutine(value):
        value.close()
    return type(value).__name__


@contextmanager
def placing(function: Callable[..., Any]) -> Iterator[None]:
    """Let an error about a function's annotations end with its place: the traceback has none if a router included it,
    or if the annotations are resolved at the first use."""
    try:
        yield
    except InvalidArgument as error:
        code = inspect.unwrap(function).__code__
        place = f"{code.co_filename}:{code.co_firstlineno} in {function.__module__}.{function.__qualname__}"
        raise InvalidArgument(f"{error} See {place}.") from error.__cause__
