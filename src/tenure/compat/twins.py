"""Blocking versions of the methods of an asyncio class, so that each is written once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def blocking_twin(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """Make the blocking version of an async method, for another class.

    That class has `_twin`, the object on which the method is called, and `_wait`, which returns the coroutine's result.
    """

    @wraps(method)
    def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._wait(method(self._twin, *args, **kwargs))
        return result

    return twin
