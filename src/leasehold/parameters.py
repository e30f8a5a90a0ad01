"""What a raw handler takes, as its function says it: one job, or a list of them."""

from __future__ import annotations

import inspect
import types
import typing
from collections import abc
from collections.abc import Callable
from typing import Any, Final

from leasehold.core.errors import InvalidArgument

_LISTS: Final = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable, abc.Iterator)
_UNIONS: Final = (typing.Union, types.UnionType)


def takes_one(function: Callable[..., Any], what: str) -> None:
    """Refuse a raw handler that cannot be called with just the job, or with just the list of them."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise InvalidArgument(
            f"{what}: {function.__qualname__} must take one argument, the job (with batch=, the list of jobs)."
        ) from None


def takes_what_comes(function: Callable[..., Any], batched: bool, what: str) -> None:
    """Refuse a raw handler whose annotation says one job where a list comes, or a list where one job comes.

    An annotation that says neither, or cannot be resolved, is none of our business.
    """
    parameter = next(iter(inspect.signature(function).parameters.values()))
    if parameter.annotation is inspect.Parameter.empty:
        return
    said = f"{what}: {function.__qualname__}({parameter.name}: {inspect.formatannotation(parameter.annotation)})"
    kinds = _kinds(_resolved(function, parameter.name))
    if batched and kinds == {"one"}:
        raise InvalidArgument(
            f"{said} takes one job, but with batch= it is given a list of them; expected list[Job], or no batch=."
        )
    if not batched and kinds == {"many"}:
        raise InvalidArgument(
            f"{said} takes many jobs, but without batch= it is given one; expected Job, or batch= with the size of a "
            "batch, as in batch=50."
        )


def _resolved(function: Callable[..., Any], name: str) -> Any:
    from leasehold.runtime.context import Job

    # A Job that is imported for type checkers only is resolved all the same; one of the module's own counts more.
    scope = {"Job": Job} | getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(function, scope).get(name)
    except Exception:  # whatever the annotations are, we only wanted to help
        return None


def _kinds(annotation: Any) -> set[str]:
    """What an annotation says that it takes: one, many, other."""
    from leasehold.runtime.context import Job

    origin = typing.get_origin(annotation) or annotation
    if origin in _UNIONS:
        return set().union(*(_kinds(arm) for arm in typing.get_args(annotation) if arm is not type(None)))
    if isinstance(origin, type) and issubclass(origin, Job):
        return {"one"}
    return {"many" if origin in _LISTS else "other"}
