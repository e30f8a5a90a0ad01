"""Options that select jobs by task, error and age, and the search for them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, TypeVar

import click

from leasehold.app.app import Leasehold
from leasehold.core import limits
from leasehold.core.job import JobView, State

LOOK_MOST: Final = 10_000
"""Jobs of one state of one queue that a search reads: of ended ones the newest, or with --older-than the oldest."""
LOOK_NOTE: Final = (
    f"Only {LOOK_MOST:,} jobs of a queue were looked through: the newest, or the oldest with --older-than."
)
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_AGE: Final = re.compile(r"(\d{1,6})([smhd])")

F = TypeVar("F", bound=Callable[..., Any])


class Age(click.ParamType):  # type: ignore[type-arg]  # generic only for type checkers
    """Seconds, minutes, hours or days, as in 90s, 15m, 2h or 7d. Its value is in seconds."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _AGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not an age. Expected a number and s, m, h or d, as in 15m or 7d.", param, ctx)
        return int(match[1]) * _UNITS[match[2]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs are meant; empty: all. Ages are in seconds."""

    task: str | None = None
    error: str | None = None
    older_than: int | None = None
    newer_than: int | None = None
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

    @click.option("--task", metavar="NAME", help="Only jobs of this task.")
    @click.option("--error", metavar="TYPE", help="Only jobs whose last error has this type, as in ConnectionError.")
    @click.option(
        "--older-than", type=Age(), metavar="AGE",
        help="Only jobs that ended, or else were enqueued, longer ago than AGE: 90s, 15m, 2h, 7d.",
    )  # fmt: skip
    @click.option("--newer-than", type=Age(), metavar="AGE", help="The same, for jobs less long ago.")
    @wraps(command)
    def run(
        *args: Any, task: str | None, error: str | None, older_than: int | None, newer_than: int | None, **others: Any
    ) -> Any:
        return command(*args, selection=Selection(task, error, older_than, newer_than), **others)

    return run  # type: ignore[return-value]


def queues_meant(app: Leasehold, queue: str | None) -> Sequence[str]:
    """The queue, or all queues if none was named."""
    return [queue] if queue is not None else sorted(app.inspect.queues())


def selected(app: Leasehold, queue: str, state: State, selection: Selection) -> tuple[list[JobView], bool]:
    """Return the selected jobs in one state, in the order of its pages, and whether all jobs were looked through."""
    now_ms = time.time() * limits.SECOND
    found: list[JobView] = []
    start = 0
    if selection.older_than is not None and state.ended:
        start = min(max(0, app.inspect.page(queue, state, 0, 1).total - LOOK_MOST), limits.PAGE_OFFSET_MAX)
    is_whole, looked, after = start == 0, 0, None
    while looked < LOOK_MOST:
        page = app.inspect.page(queue, state, start, after=after)
        found += (view for view in page.jobs if selection.has(view, now_ms))
        start, looked, after = 0, looked + len(page.jobs), page.next
        if after is None:
            return found, is_whole
    return found, False
