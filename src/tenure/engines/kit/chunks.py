"""Calls for many jobs: what each job adds to a call, how calls are cut, and the errors of calls to several queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final, Generic

from msgspec import Struct

from tenure.core import limits
from tenure.core.errors import TenureError, is_silent
from tenure.core.shape import PLAIN, Shape
from tenure.core.steps import Arg, Steps, T

JOB_BYTES: Final = 1536
"""Bytes for which a job counts as one more job of a batch."""


class Part(Struct, frozen=True, gc=False):
    """What one job contributes to a call for many.

    position: where its answer belongs. size: about how many bytes. weight: as how many jobs it counts, of those that
    take the least time. group: parts that follow each other with the same group are in one call; empty: no group.
    """

    position: int
    args: tuple[Arg, ...]
    size: int
    weight: int = 1
    group: str = ""


def chunks(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Cut into calls that do not keep Redis for long. One job may be more than that; then it is alone."""
    chunk: list[Part] = []
    load = 0
    for part in parts:
        weight = part.weight + part.size // JOB_BYTES
        if chunk and load + weight > limits.MAX_BATCH and not (part.group and part.group == chunk[-1].group):
            yield chunk
            chunk, load = [], 0
        chunk.append(part)
        load += weight
    if chunk:
        yield chunk


class Ahead(Generic[T]):
    """An iterator whose next item can be made before it is needed: by `look`, any number of times."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._next: list[T] = []

    def look(self) -> None:
        """Make the next item, if that has not been done."""
        if not self._next:
            self._next += islice(self._items, 1)

    def take(self) -> T | None:
        """Return the next item; None: there is none."""
        self.look()
        return self._next.pop() if self._next else None


def args_of(chunk: list[Part]) -> Iterator[Arg]:
    """The arguments of a call for these jobs."""
    return chain.from_iterable([part.args for part in chunk])


def weight_of(shape: Shape) -> int:
    """What a shape adds to the weight of a job, by the commands that Redis runs for it. Only `PLAIN` adds nothing."""
    if shape is PLAIN:  # most are
        return 0
    return (
        4 * (shape.lane is not None)
        + 4 * (shape.unique is not None)
        + 2 * (shape.priority != 0)
        + 6 * len(shape.limits)
        + 4 * (shape.share is not None)
        + (shape.expires is not None)
        + (shape.on_failed != "")
        + (shape.flow != "")
        + shape.persistent
    )


class Failures:
    """One queue that Redis refuses to touch must not keep a worker from its others: the error is raised at the end."""

    def __init__(self) -> None:
        self._first: TenureError | None = None

    def guard(self, steps: Steps[T]) -> Steps[T | None]:
        """The answer, or None when Redis refused. When it cannot be reached, the other queues cannot either."""
        try:
            return (yield from steps)
        except TenureError as error:
            if is_silent(error):
                raise
            self._first = self._first or error
            return None

    def end(self) -> None:
        """Raise the first error that there was."""
        if self._first is not None:
            raise self._first


def known(ms: int) -> int | None:
    """Scripts answer -1 for an unknown time."""
    return None if ms < 0 else ms


def sooner(one: int | None, other: int | None) -> int | None:
    """The smaller of two times; None: nothing is known."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
