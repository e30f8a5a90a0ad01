"""Options that select jobs by task, error and age, and the search for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar

import click

from tenure.app.app import Tenure
from tenure.cli.errors import note
from tenure.cli.reach import QUEUES_LOOKED, without
from tenure.cli.units import Age
from tenure.core import limits
from tenure.core.engine import Feature, Trait
from tenure.core.errors import UnsupportedFeature
from tenure.core.job import JobView, State
from tenure.core.shape import LaneState
from tenure.core.unsupported import unsupported

LOOK_MOST: Final = 10_000
"""Jobs of one state of one queue that a search reads: of ended ones the newest, or with --older-than the oldest."""
LOOK_NOTE: Final = (
    f"Only {LOOK_MOST:,} jobs of a queue were looked through: the newest, or the oldest with --older-than."
)

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs are meant; empty: all. Ages are in seconds."""

    task: str | None = None
    error: str | None = None
    older_than: float | None = None
    newer_than: float | None = None
    lane: str | None = None

    def __bool__(self) -> bool:
        return self != Selection()

    def has(self, view: JobView, now_ms: float) -> bool:
        """Whether a job is selected. Its age counts from its end, or if it has not ended from its enqueue."""
        if self.task not in (None, view.task) or self.lane not in (None, view.shape.lane):
            return False
        if self.error is not None and not _is_type(self.error, view):
            return False
        if self.older_than is None and self.newer_than is None:
            return True
        since = view.ended_ms or view.enqueued_ms
        if since is None:
            return False
        age_s = (now_ms - since) / limits.SECOND
        return (self.older_than is None or age_s >= self.older_than) and (
            self.newer_than is None or age_s <= self.newer_than
        )


NO_SELECTION: Final = Selection()


def _is_type(name: str, view: JobView) -> bool:
    """Whether the last error has this type. The name may leave out the module."""
    return view.error is not None and name in (view.error.type, view.error.type.rpartition(".")[2])


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


def check_selection(app: Tenure, states: Sequence[State], selection: Selection) -> None:
    """Raise `UnsupportedFeature` for what the protocol does not keep of jobs in these states."""
    if selection.lane is not None and without(app, Feature.LANES):
        raise unsupported(app.engine.name, Feature.LANES)
    has_age = selection.older_than is not None or selection.newer_than is not None
    waiting = [state.value for state in states if not state.ended]
    if has_age and waiting and Trait.ENQUEUE_TIME not in app.engine.traits:
        raise UnsupportedFeature(
            f"The protocol {app.engine.name!r} keeps no time of the enqueue, so {', '.join(waiting)} jobs have no age. "
            "Leave out --older-than and --newer-than, or name another --state."
        )


def queues_meant(app: Tenure, queue: str | None) -> Sequence[str]:
    """The queue, or if none was named all queues, at most `QUEUES_LOOKED`: a note states that there are more."""
    if queue is not None:
        return [queue]
    queues = sorted(app.inspect.queues())
    if len(queues) > QUEUES_LOOKED:
        note(f"Only {QUEUES_LOOKED:,} of {len(queues):,} queues were looked through. Name a queue for the others.")
    return queues[:QUEUES_LOOKED]


def search(
    app: Tenure, queue: str, state: State, selection: Selection, look: int = LOOK_MOST, *, oldest: bool = False
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
        cursor, left = 0, LOOK_MOST
        while left > 0:
            page = app.inspect.lanes(queue, state, cursor)
            yield from (lane.name for lane in page.lanes)
            cursor, left = page.cursor, left - limits.PAGE_MAX
            if not cursor:
                break
