"""One queue out of what is read of its partitions."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tenure.core.errors import InvalidArgument
from tenure.core.job import JobView, Page, QueueView, State
from tenure.core.partitions import split_place
from tenure.core.shape import QueueSettings
from tenure.core.values import replace

_CURSOR: Final = ":"
"""Stands between the partition and the cursor in it, in the cursor of a page."""


def together(name: str, by_partition: dict[int, QueueView], partitions: int) -> QueueView:
    views = by_partition.values()
    counts, totals = Counter[State](), Counter[str]()
    for view in views:
        counts.update(view.counts)
        totals.update(view.totals)
    newer = [view.newer_layout for view in views if view.newer_layout is not None]
    return QueueView(
        name,
        {state: counts[state] for state in State},
        dict(sorted(totals.items())),
        settings_of([view.settings for partition, view in by_partition.items() if partition < partitions]),
        parked_lanes=sum(view.parked_lanes for view in views),
        blocked_lanes=sum(view.blocked_lanes for view in views),
        suspects=sum(view.suspects for view in views),
        limited=sum(view.limited for view in views),
        newer_layout=max(newer, default=None),
        oldest_ms=min((view.oldest_ms for view in views if view.oldest_ms is not None), default=None),
        ready_ms=min((view.ready_ms for view in views if view.ready_ms is not None), default=None),
        partitions=partitions,
        outgoing=sum(view.outgoing for view in views),
        outgoing_ms=min((view.outgoing_ms for view in views if view.outgoing_ms is not None), default=None),
    )


def settings_of(settings: list[QueueSettings]) -> QueueSettings:
    """Each partition has its share of the maximum length. The queue is paused when all of them are."""
    most = sum(one.max_length for one in settings)
    return replace(settings[0], max_length=most, paused=all(one.paused for one in settings))


def of_queue(view: JobView | None) -> JobView | None:
    return view if view is None or not split_place(view.queue)[1] else replace(view, queue=split_place(view.queue)[0])


def page_of_queue(page: Page) -> Page:
    return replace(page, jobs=tuple(replace(job, queue=split_place(job.queue)[0]) for job in page.jobs))


def write_cursor(partition: int, cursor: str) -> str:
    return f"{partition}{_CURSOR}{cursor}"


def read_cursor(after: str | None, partitions: int) -> tuple[int, str | None]:
    """Read the cursor of a page: a partition, and the cursor in it. Raises `InvalidArgument`."""
    if after is None:
        return 0, None
    number, mark, cursor = after.partition(_CURSOR)
    if not mark or not number.isdigit() or int(number) >= partitions:
        raise InvalidArgument("`after` must be the whole cursor of a page of these jobs.")
    return int(number), cursor or None
