"""Options that select jobs by task, error and age, and the search for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

import click

from tenure.app.app import Tenure
from tenure.cli.reach import note_left_out, without
from tenure.cli.units import Age
from tenure.core import limits
from tenure.core.engine import Feature
from tenure.core.job import JobView, State
from tenure.core.shape import LaneState
from tenure.manage.search import LOOK_MAX, QUEUES_MAX, Selection

LOOK_NOTE: Final = (
    f"Only {LOOK_MAX:,} jobs of a queue were looked through: the newest, or the oldest with --older-than."
)

F = TypeVar("F", bound=Callable[..., Any])


def selecting(command: F) -> F:
    """Add the options to a command, which gets `selection`."""

    @click.option("--lane", metavar="NAME", help="Only jobs of this lane; `jobs` lists ready ones in its order.")
    @click.option("--task", metavar="NAME", help="Only jobs of this task.")
    @click.option("--error", metavar="TYPE", help="Only jobs with a last error of this type, as in ConnectionError.")
    @click.option(
        "--older-than", type=Age(), metavar="AGE",
        help="Only jobs that ended, or else were enqueued, longer ago than AGE: 90s, 15m, 2h, 7d.",
    )  # fmt: skip
    @click.option("--newer-than", type=Age(), metavar="AGE", help="The same, for jobs less long ago.")
    @wraps(command)
    def run(
        *args: Any,
        task: str | None,
        error: str | None,
        older_than: float | None,
        newer_than: float | None,
        lane: str | None,
        **others: Any,
    ) -> Any:
        return command(*args, selection=Selection(task, error, older_than, newer_than, lane), **others)

    return run  # type: ignore[return-value]


def queues_meant(app: Tenure, queue: str | None) -> Sequence[str]:
    """The queue, or if none was named all queues, at most `QUEUES_MAX`: a note states that there are more."""
    if queue is not None:
        return [queue]
    queues = sorted(app.inspect.queues())
    note_left_out(len(queues[QUEUES_MAX:]))
    return queues[:QUEUES_MAX]


def search(
    app: Tenure, queue: str, state: State, selection: Selection, look: int = LOOK_MAX, *, oldest: bool = False
) -> tuple[list[JobView], bool]:
    """Return the selected jobs in one state, and whether all jobs were looked through.

    Those that have ended come in the order of their ends, others in the order of their pages. `look`: how many jobs are
    read; of ended ones the newest, or with `oldest` those that ended first.
    """
    start = 0
    if oldest and state.ended:
        start = min(max(0, app.inspect.page(queue, state, 0, 1).total - look), limits.PAGE_OFFSET_MAX)
    has_lanes = state is State.READY and not without(app, Feature.LANES)
    views, is_whole = _read(app, queue, state, look, start, selection.lane if has_lanes else None)
    if has_lanes and selection.lane is None:
        # Without a lane, a page has only the next job of each lane, and none of a lane that may not start one now.
        heads = [view.shape.lane for view in views if view.shape.lane is not None]
        for lane in dict.fromkeys((*heads, *_stopped_lanes(app, queue))):
            more, has_all = _read(app, queue, state, look - len(views), 0, lane)
            views += more
            is_whole = is_whole and has_all
    now_ms = time.time() * limits.SECOND
    found = list({view.id: view for view in views if selection.has(view, now_ms)}.values())
    return found[::-1] if state.ended else found, is_whole and start == 0


def _read(app: Tenure, queue: str, state: State, look: int, start: int, lane: str | None) -> tuple[list[JobView], bool]:
    """Read up to `look` jobs from an offset on. Return them, and whether these are all."""
    views: list[JobView] = []
    after: str | None = None
    while len(views) < look:
        page = app.inspect.page(queue, state, start, min(limits.PAGE_MAX, look - len(views)), lane=lane, after=after)
        views += page.jobs
        start, after = 0, page.next
        if after is None:
            return views, True
    return views, False


def _stopped_lanes(app: Tenure, queue: str) -> Iterator[str]:
    for state in (LaneState.BUSY, LaneState.BLOCKED, LaneState.PARKED):
        cursor, left = 0, LOOK_MAX
        while left > 0:
            page = app.inspect.lanes(queue, state, cursor)
            yield from (lane.name for lane in page.lanes)
            cursor, left = page.cursor, left - limits.PAGE_MAX
            if not cursor:
                break
