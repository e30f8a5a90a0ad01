"""The engine for those who look: counts, jobs, lanes, workers. Nothing here changes a job."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tenure.core import limits
from tenure.core.job import JobView, Page, QueueView, State
from tenure.core.shape import LanePage, LaneState, LaneView, QueueSettings
from tenure.core.steps import Command, Steps
from tenure.core.values import replace
from tenure.engines.kit.encoding import as_bytes, as_text, number_of
from tenure.engines.kit.inspect import WorkersInspector
from tenure.engines.kit.pages import check_page, read_cursor, write_cursor
from tenure.engines.queue_farm.config import QueueFarmConfig
from tenure.engines.queue_farm.keys import DEFAULT_QUEUE
from tenure.engines.queue_farm.records import read_view


class Activity(Struct, frozen=True):
    """Lanes with jobs. `lanes`: all that clients know of; `ready`: those that could run now; `held`: by Tenure
    workers; `foreign`: by original ones."""

    lanes: int
    ready: int
    held: int
    foreign: int


class QueueFarmInspector(WorkersInspector):
    """Reading half of the engine."""

    config: QueueFarmConfig
    namespace: str
    size_of_held = "HLEN"

    def queues(self) -> Steps[list[str]]:
        """`default`, if it has jobs or Tenure has used it lately. Original clients list none."""
        found = set((yield from super().queues()))
        if (yield Command(("EXISTS", f"{self.namespace}:active"))):
            found.add(DEFAULT_QUEUE)
        return sorted(found)

    def queue(self, name: str) -> Steps[QueueView]:
        view = yield from super().queue(name)
        parked = yield Command(("HLEN", f"{self.prefix(name)}:parked"))
        paused = yield Command(("HEXISTS", f"{self.prefix(name)}:meta", "paused"))
        return replace(view, parked_lanes=parked, settings=QueueSettings(paused=paused == 1))

    def activity(self, queue: str = DEFAULT_QUEUE) -> Steps[Activity]:
        """How many lanes have jobs."""
        return Activity(*(yield from self._ask("activity", queue)))

    def job(self, queue: str, id: str) -> Steps[JobView | None]:
        row = yield from self._ask("show", queue, as_bytes(id))
        return read_view(queue, row, self.config) if row else None

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
        check_page(offset, limit)
        cursor = read_cursor(after, state, lane)
        reply = yield from self._ask("page", queue, state.value, as_bytes(lane or ""), offset, limit, *cursor)
        total, end, rows = reply
        return Page(tuple(read_view(queue, row, self.config) for row in rows), total, write_cursor(end, state, lane))

    def lane(self, queue: str, lane: str) -> Steps[LaneView]:
        return _lane([as_bytes(lane), *(yield from self._ask("lane", queue, as_bytes(lane)))])

    def lane_page(self, queue: str, state: LaneState, cursor: int = 0, limit: int = limits.PAGE_MAX) -> Steps[LanePage]:
        following, rows = yield from self._ask("lanes", queue, state.value, cursor, limit)
        return LanePage(tuple(_lane(row) for row in rows), following)


def _lane(row: list[Any]) -> LaneView:
    name, waiting, active, parked = row
    if parked:
        state = LaneState.PARKED
    elif active:
        state = LaneState.BUSY
    else:
        state = LaneState.READY if waiting else LaneState.IDLE
    return LaneView(as_text(name), state, waiting, active, parked_ms=number_of(parked))
