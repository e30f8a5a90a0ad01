"""Shows a queue in several partitions as one queue."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from msgspec import structs

from tenure.core import limits
from tenure.core.errors import NotDurable, Unreachable, WrongState, is_silent
from tenure.core.job import NEXT_LOOKED, JobView, Page, QueueView, Repartition, State, with_next
from tenure.core.partitions import place_of, split_place
from tenure.core.shape import (
    LanePage,
    LaneState,
    LaneView,
    QueueSettings,
)
from tenure.core.steps import Steps
from tenure.core.values import replace
from tenure.core.why import JobFacts
from tenure.core.worker_view import WorkerView
from tenure.engines.native.engine import NativeEngine
from tenure.engines.native.partitions.changes import PartitionChanges
from tenure.engines.native.partitions.maps import PartitionMaps
from tenure.engines.native.partitions.views import (
    of_queue,
    page_of_queue,
    read_cursor,
    together,
    write_cursor,
)

T = TypeVar("T")


class PartitionedInspector:
    """The inspecting half of the engine. `native`: has each place of a queue."""

    def __init__(self, native: NativeEngine) -> None:
        self.native = native
        self.maps = PartitionMaps(native)
        self.changes = PartitionChanges(native, self.maps, self.settings_of, self.post)

    def partition_count(self, queue: str) -> Steps[int]:
        """How many partitions of a queue may have jobs. 1: it has none."""
        return (yield from self.maps.of(queue)).places

    @abstractmethod
    def post(self, place: str) -> Steps[None]:
        """Name a partition that has jobs to one of the workers that wait."""

    def _places(self, queue: str) -> Steps[list[str]]:
        """The partitions of a queue, those that jobs leave by a change first; of one partition that one."""
        if split_place(queue)[1]:
            return [queue]
        return [place_of(queue, partition) for partition in (yield from self.maps.of(queue)).order]

    def _where(self, queue: str, id: str) -> Steps[list[str]]:
        """Where a job may be: first where its id alone would put it."""
        places = yield from self._places(queue)
        if len(places) > 1:
            homes = [place_of(queue, home) for home in (yield from self.maps.of(queue)).homes(id)]
            places = [*homes, *(place for place in places if place not in homes)]
        return places

    def _homes_of_lane(self, queue: str, lane: str) -> Steps[list[str]]:
        """Where the jobs of a lane may be: during a change in its old partition, and else in its new one."""
        return [place_of(queue, home) for home in (yield from self.maps.of(queue)).homes(f"lane {lane}")]

    def _home_of_lane(self, queue: str, lane: str) -> Steps[str]:
        *olds, home = yield from self._homes_of_lane(queue, lane)
        for old in olds:
            if (yield from self.native.lane(old, lane)).state is not LaneState.IDLE:
                return old
            yield from self._finish_moves_of(queue, old)
        return home

    def _first(
        self, queue: str, id: str, ask: Callable[[str], Steps[T]], nothing: T, *, refuses_old_maps: bool = False
    ) -> Steps[T]:
        """The first answer about a job that is not `nothing`. `refuses_old_maps`: the script that is asked does."""
        lacking: NotDurable | None = None
        for _ in range(2):
            for place in (yield from self._where(queue, id)):
                answer = yield from ask(place)
                if answer != nothing:
                    return answer
            if split_place(queue)[1]:
                break
            # It may be in a partition that this process does not know, or on its way to one.
            known = yield from self.maps.of(queue)
            newest = known if refuses_old_maps and not known.version else (yield from self.maps.ask(queue))
            try:
                yield from self.changes.finish_moves(queue)
            except NotDurable as error:
                lacking = error
            if newest == known and not newest.before:
                break
        if lacking is not None:  # it may be one of those that cannot arrive yet
            raise lacking
        return nothing

    def queue(self, name: str) -> Steps[QueueView]:
        return (yield from self._all_of_queue(name, skips_lost=True))

    def settings_of(self, queue: str) -> Steps[QueueSettings]:
        return (yield from self._all_of_queue(queue)).settings

    def _all_of_queue(self, name: str, *, skips_lost: bool = False) -> Steps[QueueView]:
        """All partitions as one queue. `skips_lost`: without those on lost nodes, if the settings can be read."""
        map = yield from self.maps.of(split_place(name)[0])
        if map.version:
            map = yield from self.maps.ask(split_place(name)[0])
        if map.places == 1 or split_place(name)[1]:
            return (yield from self.native.queue(name))
        views: dict[int, QueueView] = {}
        lost: dict[int, Unreachable] = {}
        for partition in range(map.places):
            try:
                views[partition] = yield from self._one_partition(place_of(name, partition))
            except Unreachable as error:
                if not skips_lost or is_silent(error):
                    raise
                lost[partition] = error
        if min(views, default=map.number) >= map.number:
            raise lost[0]
        view = replace(together(name, views, map.number), unreachable=tuple(lost))
        if not map.before:
            return view
        change = Repartition(map.before, map.number, None) if lost else (yield from self.changes.view(name, map))
        return replace(view, repartition=change)

    def _one_partition(self, place: str) -> Steps[QueueView]:
        view = yield from self.native.queue(place)
        if not view.counts[State.READY]:
            return view
        return with_next(view, (yield from self.native.page(place, State.READY, limit=NEXT_LOOKED, heads=True)))

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        return of_queue((yield from self._first(queue, id, lambda place: self.native.job(place, id), None)))

    def result(self, queue: str, id: str) -> Steps[JobView | None]:
        return of_queue((yield from self._first(queue, id, lambda place: self.native.result(place, id), None)))

    def facts(self, queue: str, id: str) -> Steps[JobFacts | None]:
        found = yield from self._first(queue, id, lambda place: self.native.facts(place, id), None)
        return found and structs.replace(found, view=of_queue(found.view))

    def sample(self, queue: str, cursor: str, limit: int) -> Steps[tuple[list[str], str]]:
        places = yield from self._places(queue)
        inner, number = divmod(int(cursor), len(places))
        ids, following = yield from self.native.sample(places[number], str(inner), limit)
        if following != "0":
            return ids, str(int(following) * len(places) + number)
        return ids, str((number + 1) % len(places))

    def page(
        self,
        queue: str,
        state: State,
        offset: int = 0,
        limit: int = limits.PAGE_MAX,
        lane: str | None = None,
        after: str | None = None,
        heads: bool = False,
    ) -> Steps[Page]:
        places = yield from self._places(queue)
        if len(places) == 1:
            return (yield from self.native.page(queue, state, offset, limit, lane, after, heads))
        if lane is not None:
            home = yield from self._home_of_lane(queue, lane)
            return page_of_queue((yield from self.native.page(home, state, offset, limit, lane, after, heads)))
        number, cursor = read_cursor(after, len(places))
        total = (yield from self._all_of_queue(queue)).counts[state]
        while True:
            skip = min(offset, limits.PAGE_OFFSET_MAX)
            page = yield from self.native.page(places[number], state, skip, limit, None, cursor, heads)
            if page.jobs or page.next is not None:
                break
            offset, cursor, number = max(0, offset - page.total), None, number + 1
            if number == len(places):
                return Page((), total)
        following = (number, page.next) if page.next is not None else (number + 1, "")
        end = None if following[0] == len(places) else write_cursor(*following)
        return replace(page_of_queue(page), total=total, next=end)

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        idle: list[LaneView] = []
        for _ in range(2):
            known = yield from self.maps.of(queue)
            for home in (yield from self._homes_of_lane(queue, lane)):
                view = yield from self.native.lane(home, lane)
                if view.state is not LaneState.IDLE:
                    return view
                idle.append(view)
                yield from self._finish_moves_of(queue, home)
            if (yield from self.maps.ask(queue)).version == known.version:
                break
        return idle[-1]

    def lane_page(self, queue: str, state: LaneState, cursor: int = 0, limit: int = limits.PAGE_MAX) -> Steps[LanePage]:
        places = yield from self._places(queue)
        inner, number = divmod(cursor, len(places))
        page = yield from self.native.lane_page(places[number], state, inner, limit)
        if page.cursor:
            return replace(page, cursor=page.cursor * len(places) + number)
        return replace(page, cursor=(number + 1) % len(places))

    def workers(self) -> Steps[list[WorkerView]]:
        return self.native.workers(self._holders)

    def _holders(self, queue: str) -> Steps[dict[str, int]]:
        held: Counter[str] = Counter()
        try:
            places = yield from self._places(queue)
        except WrongState:  # the view of the queue names it
            return held
        for place in places:
            held.update((yield from self.native.holders(place)))
        return held

    def _finish_moves_of(self, queue: str, place: str) -> Steps[None]:
        """Let the jobs that leave a partition arrive in those that the caller looks at next."""
        if split_place(place)[1] in (yield from self.maps.of(queue)).sources:
            yield from self.changes.finish_moves(queue)
