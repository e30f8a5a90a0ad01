"""Queues in several partitions for the inspector and the controller, which show and change each as one queue."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from leasehold.core import limits, names
from leasehold.core.errors import InvalidArgument, UnsupportedFeature, invalid
from leasehold.core.job import JobView, NewJob, Page, QueueView, State
from leasehold.core.partitions import PartitionMap, home_of, place_of, split_place
from leasehold.core.schedule import ScheduleSpec, Tick, Ticked
from leasehold.core.shape import CancelAnswer, CancelCount, LaneFailure, LanePage, LaneState, LaneView, QueueSettings
from leasehold.core.steps import Steps
from leasehold.engines.native.control import NativeController
from leasehold.engines.native.maps import PartitionMaps
from leasehold.engines.native.schedules import NativeScheduler

T = TypeVar("T")

_CURSOR: Final = ":"
"""Stands between the partition and the cursor in it, in the cursor of a page."""


class PartitionedInspector(NativeScheduler, NativeController):
    """The inspecting and acting half of the native engine, for queues with and without partitions."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.maps = PartitionMaps(self)

    @abstractmethod
    def partitions(self, queue: str) -> Steps[int]:
        """How many partitions a queue has. 1: it has none."""

    @abstractmethod
    def _post(self, place: str) -> Steps[None]:
        """Name a partition that has jobs to one of the workers that wait."""

    def _places(self, queue: str) -> Steps[list[str]]:
        """The partitions of a queue; of one partition that one."""
        if split_place(queue)[1]:
            return [queue]
        return [place_of(queue, partition) for partition in range((yield from self.partitions(queue)))]

    def _where(self, queue: str, id: str) -> Steps[list[str]]:
        """Where a job may be: first where its id alone would put it."""
        places = yield from self._places(queue)
        if len(places) > 1:
            home = home_of(id, len(places))
            places[0], places[home] = places[home], places[0]
        return places

    def _home_of_lane(self, queue: str, lane: str) -> Steps[str]:
        return place_of(queue, home_of(f"lane {lane}", (yield from self.partitions(queue))))

    def _first(self, places: list[str], ask: Callable[[str], Steps[T]], nothing: T) -> Steps[T]:
        """The first answer that is not `nothing`."""
        for place in places:
            answer = yield from ask(place)
            if answer != nothing:
                return answer
        return nothing

    # -------------------------------------------------------------------------------------------------------- looking

    def queue(self, name: str) -> Steps[QueueView]:
        places = yield from self._places(name)
        if len(places) == 1:
            return (yield from self._one_queue(name))
        views: list[QueueView] = []
        for place in places:
            view = yield from self._one_queue(place)
            if view.counts[State.READY]:
                first = yield from super().page(place, State.READY, limit=1)
                view = replace(view, oldest_ms=first.jobs[0].enqueued_ms if first.jobs else None)
            views.append(view)
        return _together(name, views)

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        places = yield from self._where(queue, id)
        look = super().job
        return _of_queue((yield from self._first(places, lambda place: look(place, id), None)))

    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = limits.PAGE_MAX,
        lane: str | None = None,
        after: str | None = None,
    ) -> Steps[Page]:
        places = yield from self._places(queue)
        if len(places) == 1:
            return (yield from super().page(queue, state, offset, limit, lane, after))
        if lane is not None:
            home = yield from self._home_of_lane(queue, lane)
            return _page_of_queue((yield from super().page(home, state, offset, limit, lane, after)))
        number, cursor = _read_cursor(after, len(places))
        total = (yield from self.queue(queue)).counts[state]
        while True:
            skip = min(offset, limits.PAGE_OFFSET_MAX)
            page = yield from super().page(places[number], state, skip, limit, None, cursor)
            if page.jobs or page.next is not None:
                break
            offset, cursor, number = max(0, offset - page.total), None, number + 1
            if number == len(places):
                return Page((), total)
        following = (number, page.next) if page.next is not None else (number + 1, "")
        end = None if following[0] == len(places) else f"{following[0]}{_CURSOR}{following[1] or ''}"
        return replace(_page_of_queue(page), total=total, next=end)

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        return (yield from self._one_lane((yield from self._home_of_lane(queue, lane)), lane))

    def lanes(self, queue: str, state: LaneState, cursor: int = 0, limit: int = limits.PAGE_MAX) -> Steps[LanePage]:
        places = yield from self._places(queue)
        inner, number = divmod(cursor, len(places))
        page = yield from super().lanes(places[number], state, inner, limit)
        if page.cursor:
            return replace(page, cursor=page.cursor * len(places) + number)
        return replace(page, cursor=(number + 1) % len(places))

    def _holders(self, queue: str) -> Steps[dict[str, int]]:
        held: Counter[str] = Counter()
        for place in (yield from self._places(queue)):
            held.update((yield from super()._holders(place)))
        return held

    # --------------------------------------------------------------------------------------------------------- acting

    def retry(self, queue: str, id: str, payload: bytes | None = None) -> Steps[bool]:
        return (yield from self.maps.following(queue, lambda map: self._retry_by(map, queue, id, payload)))

    def _retry_by(self, map: PartitionMap, queue: str, id: str, payload: bytes | None) -> Steps[bool]:
        for place in (yield from self._where(queue, id)):
            if (yield from self._retry(place, id, payload, map.version)):
                if map.places > 1:
                    yield from self._post(place)
                return True
        return False

    def discard(self, queue: str, id: str) -> Steps[bool]:
        places = yield from self._where(queue, id)
        discard = super().discard
        return (yield from self._first(places, lambda place: discard(place, id), False))

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[CancelAnswer]:
        places = yield from self._where(queue, id)
        cancel = super().cancel
        return (yield from self._first(places, lambda place: cancel(place, id, reason), CancelAnswer.NOTHING))

    def cancel_all(self, queue: str, lane: str | None = None, reason: str = "") -> Steps[CancelCount]:
        places = yield from self._places(queue)
        if lane is not None:
            places = [(yield from self._home_of_lane(queue, lane))]
        cancelled = requested = 0
        for place in places:
            count = yield from super().cancel_all(place, lane, reason)
            cancelled, requested = cancelled + count.cancelled, requested + count.requested
        return CancelCount(cancelled, requested)

    def purge(self, queue: str, state: State) -> Steps[int]:
        removed = 0
        for place in (yield from self._places(queue)):
            removed += yield from super().purge(place, state)
        return removed

    def configure(
        self,
        queue: str,
        *,
        max_length: int | None = None,
        lane_failure: LaneFailure | None = None,
        paused: bool | None = None,
    ) -> Steps[QueueSettings]:
        places = yield from self._places(queue)
        if max_length is not None:
            names.count(max_length, "max_length", most=limits.MAX_QUEUE_LENGTH)
            if 0 < max_length < len(places):
                rule = f"0, or at least {len(places)}, the number of the queue's partitions"
                raise invalid("max_length", rule, str(max_length))
        settings: list[QueueSettings] = []
        for number, place in enumerate(places):
            share = None if max_length is None else (max_length + len(places) - 1 - number) // len(places)
            configure = super().configure(place, max_length=share, lane_failure=lane_failure, paused=paused)
            settings.append((yield from configure))
            if paused is False and len(places) > 1:
                yield from self._post(place)
        return _settings(settings)

    def park_lane(self, queue: str, lane: str) -> Steps[bool]:
        return (yield from super().park_lane((yield from self._home_of_lane(queue, lane)), lane))

    def resume_lane(self, queue: str, lane: str) -> Steps[bool]:
        home = yield from self._home_of_lane(queue, lane)
        resumed = yield from super().resume_lane(home, lane)
        if resumed and (yield from self.partitions(queue)) > 1:
            yield from self._post(home)
        return resumed

    def advance(self, queue: str, ms: int) -> Steps[None]:
        for place in (yield from self._places(queue)):
            yield from super().advance(place, ms)

    def tick(self, queue: str, tick: Tick) -> Steps[Ticked]:
        return (yield from self._posting(queue, super().tick(queue, tick)))

    def trigger(self, queue: str, name: str, job: NewJob) -> Steps[Ticked]:
        return (yield from self._posting(queue, super().trigger(queue, name, job)))

    def _posting(self, queue: str, steps: Steps[T]) -> Steps[T]:
        """Schedules and the jobs of their ticks are in the first partition."""
        answer = yield from steps
        if (yield from self.partitions(queue)) > 1:
            yield from self._post(queue)
        return answer

    def put_schedule(
        self, spec: ScheduleSpec, digest: str, expected: str, planned_ms: int, fire_ms: int
    ) -> Steps[bool]:
        def put(map: PartitionMap) -> Steps[bool]:
            if map.is_parted and (spec.shape.lane is not None or spec.shape.unique is not None):
                raise UnsupportedFeature(
                    f"Queue {spec.queue!r} has partitions: the jobs of a schedule there have no lane and no unique key."
                )
            return self._put_schedule(spec, digest, expected, planned_ms, fire_ms, map.version)

        return (yield from self.maps.following(spec.queue, put))


def _together(name: str, views: list[QueueView]) -> QueueView:
    counts, totals = Counter[State](), Counter[str]()
    for view in views:
        counts.update(view.counts)
        totals.update(view.totals)
    newer = [view.newer_layout for view in views if view.newer_layout is not None]
    return QueueView(
        name,
        {state: counts[state] for state in State},
        dict(sorted(totals.items())),
        _settings([view.settings for view in views]),
        parked_lanes=sum(view.parked_lanes for view in views),
        blocked_lanes=sum(view.blocked_lanes for view in views),
        suspects=sum(view.suspects for view in views),
        limited=sum(view.limited for view in views),
        reserved=next((view.reserved for view in views if view.reserved), None),
        newer_layout=max(newer, default=None),
        oldest_ms=min((view.oldest_ms for view in views if view.oldest_ms is not None), default=None),
        partitions=len(views),
    )


def _settings(settings: list[QueueSettings]) -> QueueSettings:
    """Each partition has its share of the maximum length. The queue is paused when all of them are."""
    most = sum(one.max_length for one in settings)
    return replace(settings[0], max_length=most, paused=all(one.paused for one in settings))


def _of_queue(view: JobView | None) -> JobView | None:
    return view if view is None or not split_place(view.queue)[1] else replace(view, queue=split_place(view.queue)[0])


def _page_of_queue(page: Page) -> Page:
    return replace(page, jobs=tuple(replace(job, queue=split_place(job.queue)[0]) for job in page.jobs))


def _read_cursor(after: str | None, partitions: int) -> tuple[int, str | None]:
    if after is None:
        return 0, None
    number, mark, cursor = after.partition(_CURSOR)
    if not mark or not number.isdigit() or int(number) >= partitions:
        raise InvalidArgument("`after` must be the whole cursor of a page of these jobs.")
    return int(number), cursor or None
