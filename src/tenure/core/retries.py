"""Which errors of a handler are retried."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from tenure.core.errors import invalid

Errors: TypeAlias = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
"""Classes of errors, or a function that returns whether an error is one of them."""


class RetryRule(Struct, frozen=True):
    """An error in `never` is not retried. Any other error is, if it is in `on` or `on` is None.

    RetryRule(on=(ConnectionError, TimeoutError))
    """

    on: Errors | None = None
    never: Errors | None = None

    def again(self, error: BaseException) -> bool:
        """Return whether to retry. Raises what the user's function raises."""
        if self.never is not None and _among(error, self.never):
            return False
        return self.on is None or _among(error, self.on)


def errors(value: object, field: str) -> Errors:
    """Check one error class, several, or a function. Raises `InvalidArgument`."""
    if isinstance(value, type):
        value = (value,)
    if isinstance(value, (tuple, list, set, frozenset)):
        for kind in value:
            if not isinstance(kind, type) or not issubclass(kind, BaseException):
                raise invalid(field, _ERRORS, f"one with {kind!r}")
        return tuple(value)
    if callable(value):
        return value
    raise invalid(field, _ERRORS, type(value).__name__)


_ERRORS = "classes of errors, as in (ConnectionError,), or a function that takes the error and returns True or False"


def _among(error: BaseException, kinds: Errors) -> bool:
    if isinstance(kinds, (tuple, type)):
        return isinstance(error, kinds)
    return bool(kinds(error))
