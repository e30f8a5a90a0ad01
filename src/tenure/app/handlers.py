"""Raw handlers: the functions for a queue's payloads, and the checks of their parameters."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections import abc
from collections.abc import Callable
from typing import Any, Final

from tenure.app.policy import Policy
from tenure.core import limits, names
from tenure.core.encoding.conversion import Conversion
from tenure.core.encoding.signature import Results
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.functions import resemble
from tenure.core.task import BatchRule, TaskSpec

MAX_BATCH_SIZE: Final = 500
MAX_LINGER_MS: Final = limits.MINUTE


class RawHandler:
    """The handler of a queue's raw payloads, made by `@app.handler`. Calling it calls the function."""

    def __init__(self, function: Callable[..., Any], policy: Policy, conversion: Conversion) -> None:
        self._function = function
        self._results = Results(f"the handler of queue {policy.queue!r}", conversion=conversion)
        self.policy = policy
        self.queue = policy.queue
        self.__name__ = getattr(function, "__name__", "handler")
        self.__wrapped__ = function
        resemble(self, function)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def spec(self) -> TaskSpec:
        """The handler as the runtime sees it."""
        return self.policy.spec(None, self._function, self._results)

    def __repr__(self) -> str:
        return f"<RawHandler {self.__name__} of queue {self.queue!r}>"


def checked_function(function: Callable[..., Any], what: str) -> None:
    """Refuse anything that a worker cannot run as a handler."""
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise invalid(f"{what}: the handler", "a function or an async function", type(function).__name__)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise invalid(f"{what}: the handler", "a function that returns", f"the generator {function.__qualname__}")


def redefines(before: Callable[..., Any], function: Callable[..., Any]) -> bool:
    """Return whether a cell of a notebook, or a line of the interactive shell, that defines a function is run again."""
    same = before.__module__ == function.__module__ == "__main__" and before.__qualname__ == function.__qualname__
    return same and not hasattr(sys.modules["__main__"], "__file__")


def refuse_job(function: Callable[..., Any]) -> None:
    """Refuse a task with a parameter for the job, which only raw handlers have."""
    for name in inspect.signature(function).parameters:
        # Looking closer imports the runtime, which a producer else does not need.
        written = getattr(function, "__annotations__", {}).get(name)
        if "Job" in str(written) and "one" in _kinds(function, name):
            raise InvalidArgument(
                f"@app.task: {function.__qualname__}({name}) must be an argument of a call, got a Job. Leave it out, "
                "and call tenure.current_job() in the task."
            )


_LISTS: Final = (list, tuple, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable, abc.Iterator)


def check_parameter(function: Callable[..., Any], batched: bool) -> None:
    """Refuse a raw handler that cannot be called with only the job, or (`batched`) only the list of jobs.

    So is one with a job as annotation where it gets a list, or a list where it gets a job. Any other annotation, or
    one that cannot be resolved, is accepted.
    """
    signature = inspect.signature(function)
    try:
        signature.bind(None)
    except TypeError:
        raise InvalidArgument(
            f"@app.handler: {function.__qualname__} must take one argument, the job (or the list of jobs, with batch=)."
        ) from None
    parameter = next(iter(signature.parameters.values()))
    field = f"@app.handler: {function.__qualname__}({parameter.name})"
    kinds = _kinds(function, parameter.name)
    if batched and kinds == {"one"}:
        raise invalid(field, "list[Job] with batch=", inspect.formatannotation(parameter.annotation))
    if not batched and kinds == {"many"}:
        annotation = inspect.formatannotation(parameter.annotation)
        raise invalid(field, "a Job without batch=", annotation, "Set the size of a batch, as in batch=50.")


def _kinds(function: Callable[..., Any], parameter: str) -> set[str]:
    """Return what the parameter's annotation accepts: one, many, other."""
    from tenure.runtime.jobs.job import Job

    # This also resolves a Job that is imported only for type checkers. The module's own name takes precedence.
    scope = {"Job": Job} | getattr(inspect.unwrap(function), "__globals__", {})
    try:
        annotation = typing.get_type_hints(function, scope).get(parameter)
    except Exception:  # annotations may raise any error, and this check is optional
        return set()
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    kinds = set()
    for arm in typing.get_args(annotation) if is_union else (annotation,):
        kind = typing.get_origin(arm) or arm
        if isinstance(kind, type) and issubclass(kind, Job):
            kinds.add("one")
        elif kind is not types.NoneType:
            kinds.add("many" if kind in _LISTS else "other")
    return kinds


def batch_rule(batch: object, linger: object, one_lane: object) -> BatchRule | None:
    """Check the options of a batch handler. None: it takes one job at a time. Raises `InvalidArgument`."""
    in_one_lane = names.flag(one_lane, "one_lane")
    if batch is None:
        if linger is not None or in_one_lane:
            field = "one_lane" if linger is None else "linger"
            raise InvalidArgument(f"{field} needs batch=, the size of a batch, as in batch=50.")
        return None
    size = names.count(batch, "batch", least=1, most=MAX_BATCH_SIZE)
    linger_ms = 0 if linger is None else names.duration_ms(linger, "linger", least_ms=0, most_ms=MAX_LINGER_MS)
    return BatchRule(size, linger_ms, in_one_lane)
