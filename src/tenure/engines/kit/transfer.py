"""Moves all that a queue has to the same wire format on another server: what an engine does for each side.

A page of jobs moves in three calls, as in `engines.kit.moving`, but with its history: rows that only the engine reads.

1. `export` takes jobs out of the source and keeps them there, under the name of the move. They run nowhere.
2. `import_rows` adds them at the destination, once for each name.
3. `end_export` forgets them at the source, or returns them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tenure.core.shape import Shape
from tenure.core.steps import Steps

CLOSED_BY: Final = "@migrate"
"""`LaneView.parked_by` of a lane that is closed until the jobs before it have arrived. No job has such an id."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Jobs on their way, and their ids. `to`: the destination that the move began with; `age_ms`: how long ago.
    `limited`: the ids of those that have limits or a share, with their shapes. `is_cut`: there may be
    more, even if this page is empty: the call has looked at as many entries as it may."""

    name: str
    to: str
    age_ms: int
    rows: tuple[bytes, ...]
    ids: tuple[str, ...]
    limited: Mapping[str, Shape] = field(default_factory=dict)
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left at the source. `empty`: of the lanes that were asked for, those with nothing left, and how they are
    parked (empty: they are not). `followed`: lanes of jobs that wait for another job with their unique key to end.
    `moving`: jobs of a move that has not ended."""

    empty: Mapping[str, str]
    followed: tuple[str, ...]
    moving: int


class Transferable(Protocol):
    """An engine whose queues can move to another server."""

    def export(self, queue: str, to: str) -> Steps[Rows]:
        """Take waiting jobs and records of ends out of the queue; or those of an earlier move."""
        ...

    def end_export(self, queue: str, name: str, arrived: bool) -> Steps[None]:
        """End a move: forget its jobs, or return them to their places. Nothing happens when it has ended."""
        ...

    def import_rows(self, queue: str, rows: Rows) -> Steps[list[str]]:
        """Add the jobs of a move in front of those that wait, and close their lanes. Answers the ids that other jobs
        have. Raises `QueueFull` when there is no room for all, or when the move was given up, and `UnsupportedFeature`
        for limits that jobs cannot have there; then none is added."""
        ...

    def given_up(self, queue: str, name: str) -> Steps[bool]:
        """Give up a move: from now on nothing is added under its name. False: its jobs were added before."""
        ...

    def close_lanes(self, queue: str, lanes: Sequence[str]) -> Steps[None]: ...

    def open_lanes(self, queue: str, lanes: Mapping[str, str]) -> Steps[None]:
        """Open closed lanes, or leave them parked as they were at the source."""
        ...

    def remains(self, queue: str, lanes: Sequence[str]) -> Steps[Remains]: ...
