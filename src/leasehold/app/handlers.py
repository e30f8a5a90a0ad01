"""Raw handlers: registered functions for the payloads of a queue, and the checks of what they take."""

from __future__ import annotations

import inspect
import types
import typing
from collections import abc
from collections.abc import Callable
from typing import Any, Final

from leasehold.app.policy import Policy
from leasehold.core import limits, names
from leasehold.core.errors import InvalidArgument
from leasehold.core.place import USUAL, Place
from leasehold.core.signature import Results
from leasehold.core.task import BatchRule, TaskSpec

MAX_BATCH_SIZE: Final = 500
"""Jobs that a batch handler may ask for."""
MAX_LINGER_MS: Final = limits.MINUTE
"""How long a batch handler may wait for its batch to fill."""


class RawHandler:
    """The function for a queue's raw payloads, made by `@app.handler`. Calling it just calls the function."""

    def __init__(
        self, function: Callable[..., Any], policy: Policy, batch: BatchRule | None = None, place: Place = USUAL
    ) -> None:
        self._function = function
        self._place = place
        self._batch = batch
        self._results = Results(f"the handler of queue {policy.queue!r}")
        self.policy = policy
        self.queue = policy.queue
        self.__name__ = getattr(function, "__name__", "handler")
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def spec(self) -> TaskSpec:
        """What a worker needs to know."""
        rules = self.policy.settled()
        return TaskSpec(
            name=None,
            queue=self.queue,
            function=self._function,
            is_async=inspect.iscoroutinefunction(self._function),
            encode_result=self._results.encode,
            decode=None,
            timeout_ms=rules.timeout_ms,
            retries=rules.retries,
            backoff=rules.backoff,
            result_ttl_ms=rules.result_ttl_ms,
            batch=self._batch,
            retry_rule=rules.retry_rule,
            on_failure=rules.on_failure,
            run_in=self._place.run_in,
            max_memory=self._place.max_memory,
        )

    def __repr__(self) -> str:
        return f"<RawHandler {self.__name__} of queue {self.queue!r}>"


def checked_function(function: Callable[..., Any], what: str) -> None:
    """Refuse what a worker could not run as a handler."""
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise InvalidArgument(f"{what}: got a {type(function).__name__}; expected a function or an async function.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidArgument(f"{what}: {function.__qualname__} yields; expected a function that returns its result.")


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
    from leasehold.runtime.jobs.job import Job

    # A Job that is imported for type checkers only is resolved all the same; one of the module's own counts more.
    scope = {"Job": Job} | getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(function, scope).get(name)
    except Exception:  # whatever the annotations are, we only wanted to help
        return None


def _kinds(annotation: Any) -> set[str]:
    """What an annotation says that it takes: one, many, other."""
    from leasehold.runtime.jobs.job import Job

    origin = typing.get_origin(annotation) or annotation
    if origin in _UNIONS:
        return set().union(*(_kinds(arm) for arm in typing.get_args(annotation) if arm is not type(None)))
    if isinstance(origin, type) and issubclass(origin, Job):
        return {"one"}
    return {"many" if origin in _LISTS else "other"}


def batch_rule(batch: object, linger: object, one_lane: object) -> BatchRule | None:
    """Check the options of a batch handler. None: it takes one job. Raises `InvalidArgument`."""
    if not isinstance(one_lane, bool):
        raise InvalidArgument(f"one_lane is a {type(one_lane).__name__}; expected True or False.")
    if batch is None:
        if linger is not None or one_lane:
            field = "one_lane" if linger is None else "linger"
            raise InvalidArgument(f"{field} is given without batch; expected the size of a batch, as in batch=50.")
        return None
    size = names.count(batch, "batch", least=1, most=MAX_BATCH_SIZE)
    linger_ms = 0 if linger is None else names.duration_ms(linger, "linger", least_ms=0, most_ms=MAX_LINGER_MS)
    return BatchRule(size, linger_ms, one_lane)
