"""Where a handler runs: checked when the handler is registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from tenure.core import names
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.task import BatchRule, RunIn

MIN_JOB_MB: Final = 16
"""The smallest memory limit of a job process, in megabytes."""
MAX_JOB_MB: Final = 1_048_576
"""The largest memory limit of a job process, in megabytes."""

RunsIn: TypeAlias = Literal["loop", "thread", "process"]
"""What `run_in` accepts."""
_MEGABYTE: Final = 1024 * 1024


class Place(Struct, frozen=True):
    """Where a handler runs. `run_in` None: `LOOP` when it is async, else `THREAD`. `max_memory` is in bytes.

    Place.of("process", 500)
    """

    run_in: RunIn | None = None
    max_memory: int = 0

    @classmethod
    def of(cls, run_in: object, max_memory: object) -> Place:
        """Check the two options. `max_memory` is in megabytes here; None: no limit. Raises `InvalidArgument`."""
        if run_in is not None and run_in not in tuple(RunIn):
            expected = ", ".join(repr(one.value) for one in RunIn)
            raise invalid("run_in", f"one of {expected}", names.shown(run_in))
        place = None if run_in is None else RunIn(str(run_in))
        if max_memory is None:
            return cls(place)
        megabytes = names.count(max_memory, "max_memory", least=MIN_JOB_MB, most=MAX_JOB_MB)
        if place is not RunIn.PROCESS:
            raise invalid("run_in", '"process" with max_memory', repr(run_in), "Other jobs share a process.")
        return cls(place, megabytes * _MEGABYTE)

    def check(self, function: Callable[..., Any], what: str, batch: BatchRule | None = None) -> None:
        """Refuse a function that cannot run there: raise `InvalidArgument`."""
        name = getattr(function, "__qualname__", "the function")
        is_async = inspect.iscoroutinefunction(function)
        usual, other = (RunIn.LOOP, RunIn.THREAD) if is_async else (RunIn.THREAD, RunIn.LOOP)
        if self.run_in is other:
            kind = "an async function" if is_async else "not async"
            raise invalid(f"{what}: run_in", f"{usual.value!r} or 'process'", repr(other.value), f"{name} is {kind}.")
        if self.run_in is RunIn.PROCESS and batch is not None:
            raise InvalidArgument(f"{what}: {name} cannot have both batch and run_in='process'.")


USUAL: Final = Place()
