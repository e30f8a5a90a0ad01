"""Where a handler runs, as it is asked for and checked when it is registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from leasehold.core import names
from leasehold.core.errors import InvalidArgument
from leasehold.core.task import BatchRule, RunIn

MIN_JOB_MB: Final = 16
"""The least memory that a job in a process of its own can be limited to."""
MAX_JOB_MB: Final = 1_048_576
"""The most memory that a job in a process of its own can be limited to."""

RunsIn: TypeAlias = Literal["loop", "thread", "process"]
"""What may be said for `RunIn`."""
_MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """Where a handler runs. `run_in` None: `LOOP` when it is async, else `THREAD`. `max_memory` is in bytes.

    Place.of("process", 500)
    """

    run_in: RunIn | None = None
    max_memory: int = 0

    @classmethod
    def of(cls, run_in: object, max_memory: object) -> Place:
        """`max_memory` is in megabytes here; None: no limit. Raises `InvalidArgument`."""
        if run_in is not None and run_in not in tuple(RunIn):
            expected = ", ".join(repr(one.value) for one in RunIn)
            raise InvalidArgument(f"run_in is {run_in!r}; expected one of {expected}.")
        place = None if run_in is None else RunIn(str(run_in))
        if max_memory is None:
            return cls(place)
        megabytes = names.count(max_memory, "max_memory", least=MIN_JOB_MB, most=MAX_JOB_MB)
        if place is not RunIn.PROCESS:
            raise InvalidArgument('max_memory is for run_in="process": of a shared process, no job can have a limit.')
        return cls(place, megabytes * _MEGABYTE)

    def check(self, function: Callable[..., Any], what: str, batch: BatchRule | None = None) -> None:
        """Refuse a function that cannot run there. Raises `InvalidArgument`."""
        name = getattr(function, "__qualname__", "the function")
        is_async = inspect.iscoroutinefunction(function)
        usual, other = (RunIn.LOOP, RunIn.THREAD) if is_async else (RunIn.THREAD, RunIn.LOOP)
        if self.run_in is other:
            kind = "an async function" if is_async else "no async function"
            raise InvalidArgument(
                f"{what}: {name} is {kind} and cannot have run_in={other.value!r}; expected {usual.value!r} or "
                "'process'."
            )
        if self.run_in is RunIn.PROCESS and batch is not None:
            raise InvalidArgument(f"{what}: {name} has batch, which cannot go with run_in='process'.")


USUAL: Final = Place()
