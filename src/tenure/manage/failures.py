"""Failed and broken jobs, grouped by queue, task, type of error and place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.core.engine import FullEngine
from tenure.core.job import JobView, State
from tenure.core.steps import Steps
from tenure.manage.search import Search, place_of

GROUPED_MAX: Final = 2_000
"""Jobs that are grouped, the newest of each state of a queue."""
FAILED: Final = (State.FAILED, State.BROKEN)


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failed or broken jobs with the same error.

    `error`: its type, None if it is unknown. `place`: where it was raised, as `file:line in function`; None if
    unknown. `first_ms` and `last_ms`: when the first and the last of them ended. `example`: the id of the last one, and
    `message` its error's.
    """

    queue: str
    state: State
    task: str | None
    error: str | None
    place: str | None
    count: int
    first_ms: int | None
    last_ms: int | None
    example: str
    message: str


@dataclass(frozen=True, slots=True)
class ErrorGroups:
    """Groups of failed jobs, the largest first. `jobs`: how many were looked at. `is_whole`: these are all."""

    groups: tuple[ErrorGroup, ...]
    jobs: int
    is_whole: bool


def grouped(engine: FullEngine, search: Search, queues: Sequence[str]) -> Steps[ErrorGroups]:
    """Group the failed and the broken jobs of these queues, at most `GROUPED_MAX`."""
    found: list[JobView] = []
    is_whole = True
    for queue in queues:
        counts = (yield from engine.queue(queue)).counts
        for state in FAILED:
            most = GROUPED_MAX - len(found)
            if counts.get(state) and most:
                page = yield from search.look(queue, state, most, most=most)
                found += page.jobs
                is_whole = is_whole and page.next is None
            elif counts.get(state):
                is_whole = False
    groups: dict[tuple[object, ...], list[JobView]] = {}
    for view in found:
        kind = view.error and view.error.type
        groups.setdefault((view.queue, view.state, view.task, kind, place_of(view)), []).append(view)
    each = sorted((_group(views) for views in groups.values()), key=lambda one: -one.count)
    return ErrorGroups(tuple(each), len(found), is_whole)


def _group(views: Sequence[JobView]) -> ErrorGroup:
    last, error = views[0], views[0].error
    ends = [view.ended_ms for view in views if view.ended_ms is not None]
    return ErrorGroup(
        last.queue,
        last.state,
        last.task,
        error.type if error else None,
        place_of(last),
        len(views),
        min(ends, default=None),
        max(ends, default=None),
        last.id,
        error.message if error else "",
    )
