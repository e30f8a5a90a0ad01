"""Which errors of a handler are worth another try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from leasehold.core.errors import InvalidArgument

Errors: TypeAlias = type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]
"""Classes of errors, or a function that says of an error whether it is one of them."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """An error that is one of `never` is not tried again; any other is, if it is one of `on` or that is not said.

    RetryRule(on=(ConnectionError, TimeoutError))
    """

    on: Errors | None = None
    never: Errors | None = None

    def again(self, error: BaseException) -> bool:
        """Whether to try again. Raises what a function of the user's raises."""
        if self.never is not None and _among(error, self.never):
            return False
        return self.on is None or _among(error, self.on)


def errors(value: object, field: str) -> Errors:
    """What was given as a class, some classes or a function, checked. Raises `InvalidArgument`."""
    if isinstance(value, type):
        value = (value,)
    if isinstance(value, (tuple, list, set, frozenset)):
        for kind in value:
            if not isinstance(kind, type) or not issubclass(kind, BaseException):
                raise InvalidArgument(f"{field} has {kind!r}; expected classes of errors, as in (ConnectionError,).")
        return tuple(value)
    if callable(value):
        return value
    raise InvalidArgument(
        f"{field} is a {type(value).__name__}; expected classes of errors, as in (ConnectionError,), or a function "
        "that takes the error and says True or False."
    )


def _among(error: BaseException, kinds: Errors) -> bool:
    if isinstance(kinds, (tuple, type)):
        return isinstance(error, kinds)
    return bool(kinds(error))
