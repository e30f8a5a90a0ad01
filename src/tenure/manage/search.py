"""Finds jobs by queue, state, task, error, lane and age."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from tenure.client.inspect import LISTED, lanes_in, queue_names
from tenure.client.unique import public_view
from tenure.core import limits, names
from tenure.core.engine import Feature, FullEngine, Trait
from tenure.core.errors import UnsupportedFeature, invalid
from tenure.core.hints import a
from tenure.core.job import JobView, State
from tenure.core.steps import Steps
from tenure.core.unsupported import unsupported
from tenure.core.values import replace
from tenure.runtime.log import source_location

LOOK_MAX: Final = 10_000
"""Jobs of one state of one queue that a search reads."""
QUEUES_MAX: Final = 1_000
"""Queues that a search without a queue reads."""
AGE_MAX_MS: Final = 100 * 365 * limits.DAY
"""The largest age in a selection."""
ORDER: Final = (
    State.ACTIVE,
    State.READY,
    State.SCHEDULED,
    State.UNROUTABLE,
    State.FAILED,
    State.BROKEN,
    State.CANCELLED,
    State.COMPLETED,
)
"""The states in the order of a search: running, waiting, failed, done."""

_write_cursor = msgspec.msgpack.Encoder().encode
_read_cursor = msgspec.msgpack.Decoder(tuple[str, State, str | None]).decode


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs are meant; empty: all. Ages are in seconds."""

    task: str | None = None
    error: str | None = None
    older_than: float | None = None
    newer_than: float | None = None
    lane: str | None = None
    place: str | None = None

    @classmethod
    def of(
        cls,
        *,
        task: str | None = None,
        error: str | None = None,
        lane: str | None = None,
        older_than: float | timedelta | None = None,
        newer_than: float | timedelta | None = None,
        place: str | None = None,
    ) -> Selection:
        """Check the filters of a caller. Raises `InvalidArgument`."""
        return cls(
            _name(task, "task", "Pass its name, as in task=send.name."),
            _name(error, "error", "Pass the name of the class."),
            _age(older_than, "older_than"),
            _age(newer_than, "newer_than"),
            None if lane is None else names.lane_name(lane),
            place,
        )

    def __bool__(self) -> bool:
        return self != Selection()

    def has(self, view: JobView, now_ms: float) -> bool:
        """Whether a job is selected. Its age counts from its end, or if it has not ended from its enqueue."""
        if self.task not in (None, view.task) or self.lane not in (None, view.shape.lane):
            return False
        if self.error is not None and not _is_type(self.error, view):
            return False
        if self.place is not None and self.place != place_of(view):
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

    def check(self, engine: FullEngine, states: Sequence[State]) -> None:
        """Raises `UnsupportedFeature` for what the protocol does not keep of jobs in these states."""
        if self.lane is not None and Feature.LANES not in engine.features:
            raise unsupported(engine.name, Feature.LANES)
        has_age = self.older_than is not None or self.newer_than is not None
        waiting = [state.value for state in states if not state.ended]
        if has_age and waiting and Trait.ENQUEUE_TIME not in engine.traits:
            raise UnsupportedFeature(
                f"The protocol {engine.name!r} keeps no time of the enqueue, so {', '.join(waiting)} jobs have no age. "
                "Leave out the ages, or name another state."
            )


NO_SELECTION: Final = Selection()


def _name(value: object, field: str, advice: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise invalid(field, "a name", a(type(value).__name__), advice)
    return None if value is None else names.known_id(value, field)


def _age(value: float | timedelta | None, field: str) -> float | None:
    """Return an age in seconds."""
    if value is None:
        return None
    return names.duration_ms(value, field, least_ms=0, most_ms=AGE_MAX_MS) / limits.SECOND


def _is_type(name: str, view: JobView) -> bool:
    """Whether the last error has this type. The name may leave out the module."""
    return view.error is not None and name in (view.error.type, view.error.type.rpartition(".")[2])


def place_of(view: JobView) -> str | None:
    """Return where the last error of a job was raised, as `file:line in function`; None if that is not known."""
    return None if view.error is None else source_location(view.error.traceback)


@dataclass(frozen=True, slots=True)
class Found:
    """Jobs that a search found.

    `next`: the cursor with which the search continues; None at the end. `total`: how many jobs there are in all; None
    if not all were counted. `read`: how many jobs the search has read. `is_cut`: it has read as many as it may, and
    found fewer than asked for.
    """

    jobs: tuple[JobView, ...]
    next: str | None = None
    total: int | None = None
    read: int = 0
    is_cut: bool = False


def queues_meant(engine: FullEngine, queue: str | None) -> Steps[tuple[list[str], int]]:
    """Return the queue, or without one the first `QUEUES_MAX` by name, and how many others there are."""
    if queue is not None:
        return [queue], 0
    queues = sorted((yield from queue_names(engine)))
    return queues[:QUEUES_MAX], len(queues[QUEUES_MAX:])


class Search:
    """Searches the queues of one engine for selected jobs. Their ages are those at `now_ms`. `heads`: without payloads
    and results."""

    def __init__(self, engine: FullEngine, selection: Selection, now_ms: float, *, heads: bool = True) -> None:
        self._engine = engine
        self._selection = selection
        self._now_ms = now_ms
        self._heads = heads

    def walk(self, queue: str | None, states: Sequence[State], limit: int, after: str | None) -> Steps[Found]:
        """Return up to `limit` selected jobs, queue by queue and state by state, from a cursor on."""
        begin = None if after is None else _decoded(after, queue, states)
        queues = [queue] if queue is not None else sorted((yield from queue_names(self._engine)))
        places = [(name, state) for name in queues for state in states]
        if begin is not None:
            places = [place for place in places if _rank(*place) >= _rank(*begin[:2])]
        jobs: tuple[JobView, ...] = ()
        read = 0
        total: int | None = None
        for looks, (name, state) in enumerate(places):
            if len(jobs) == limit or read >= LOOK_MAX or looks == QUEUES_MAX:
                return Found(jobs, _encoded(name, state, None), None, read, is_cut=len(jobs) < limit)
            page = begin[2] if begin is not None and begin[:2] == (name, state) else None
            found = yield from self.look(name, state, limit - len(jobs), after=page, most=LOOK_MAX - read)
            jobs, read = jobs + found.jobs, read + found.read
            total = found.total if queue is not None and len(states) == 1 else None
            if found.next is not None:
                return Found(jobs, _encoded(name, state, found.next), total, read, found.is_cut)
        return Found(jobs, None, total, read)

    def in_all(self, queues: Sequence[str], state: State, limit: int) -> Steps[Found]:
        """Return up to `limit` selected jobs in one state of these queues, without a cursor."""
        parts: list[Found] = []
        for queue in queues:
            parts.append((yield from self.look(queue, state, limit)))
        totals = [part.total for part in parts if part.total is not None]
        total = sum(totals) if len(totals) == len(parts) else None
        jobs = tuple(view for part in parts for view in part.jobs)
        return Found(jobs[:limit], None, total, sum(part.read for part in parts), any(part.is_cut for part in parts))

    def matching(
        self, queue: str, state: State, most: int = LOOK_MAX, *, oldest: bool = False
    ) -> Steps[tuple[list[JobView], bool]]:
        """Return the selected jobs in one state, with all that wait in lanes, and whether all jobs were read.

        Those that have ended come in the order of their ends, others in the order of their pages. `most`: how many jobs
        are read; of ended ones the newest, or with `oldest` those that ended first.
        """
        start = 0
        if oldest and state.ended:
            total = (yield from self._engine.page(queue, state, 0, 1)).total
            start = min(max(0, total - most), limits.PAGE_OFFSET_MAX)
        found = yield from self.look(queue, state, most, start=start, most=most)
        views, left, is_whole = list(found.jobs), most - found.read, found.next is None and not start and most > 0
        if state is State.READY and Feature.LANES in self._engine.features and self._selection.lane is None:
            # A page has only the next job of each lane, and none of a lane that may not start one now.
            for lane in (yield from self._lanes(queue)):
                of_lane = Search(self._engine, replace(self._selection, lane=lane), self._now_ms, heads=self._heads)
                found = yield from of_lane.look(queue, state, left, most=left)
                is_whole = is_whole and found.next is None and left > 0
                views, left = [*views, *found.jobs], left - found.read
        each_once = list({view.id: view for view in views}.values())
        return each_once[::-1] if state.ended else each_once, is_whole

    def look(
        self,
        queue: str,
        state: State,
        limit: int,
        *,
        start: int = 0,
        offset: int = 0,
        after: str | None = None,
        most: int = LOOK_MAX,
    ) -> Steps[Found]:
        """Return up to `limit` selected jobs in one state, without the first `offset`; with the cursor of a page.

        It continues after a cursor, or begins at the job number `start`, and reads at most `most` jobs.
        """
        # Redis has a list of the ready jobs of a lane. For other states, this searches the jobs of all lanes.
        lane = self._selection.lane if state is State.READY else None
        wanted = self._selection if lane is None else replace(self._selection, lane=None)
        start, skip = (start, offset) if wanted else (start + offset, 0)
        begin, enough = after, skip + limit
        jobs: list[JobView] = []
        read = total = 0
        while len(jobs) < enough and read < (most if wanted else limits.PAGE_OFFSET_MAX):
            need = enough - len(jobs)
            size = min(limits.PAGE_MAX, most - read if wanted else need)
            page = yield from self._engine.page(queue, state, start, size, lane, after, self._heads)
            while len(hits := self._hits(page.jobs, wanted)) > need:
                # A cursor continues after the last job of its page. So read again, up to the last job that has room.
                page = yield from self._engine.page(queue, state, start, hits[need], lane, after, self._heads)
            jobs += (public_view(page.jobs[hit]) for hit in hits)
            read, total = read + len(page.jobs), page.total
            start, after = 0, page.next
            if after is None:
                break
        is_cut = after is not None and len(jobs) < enough
        whole = len(jobs) if begin is None and after is None else None
        return Found(tuple(jobs[skip:]), after, whole if wanted else total, read, is_cut)

    def _hits(self, views: Sequence[JobView], wanted: Selection) -> list[int]:
        """Return the positions of the selected jobs."""
        return [n for n, view in enumerate(views) if wanted.has(view, self._now_ms)]

    def _lanes(self, queue: str) -> Steps[list[str]]:
        """Return the names of the lanes in which jobs may wait, about `LOOK_MAX` of each state."""
        found: dict[str, None] = {}
        for state in LISTED:
            lanes = yield from lanes_in(self._engine, queue, state, LOOK_MAX)
            found |= dict.fromkeys(lane.name for lane in lanes)
        return list(found)


def _rank(queue: str, state: State) -> tuple[str, int]:
    return queue, ORDER.index(state)


def _encoded(queue: str, state: State, page: str | None) -> str:
    return urlsafe_b64encode(_write_cursor((queue, state, page))).decode()


def _decoded(after: str, queue: str | None, states: Sequence[State]) -> tuple[str, State, str | None]:
    """Return the queue and the state where a search continues, and the cursor of a page there."""
    try:
        place, state, page = _read_cursor(b64decode(after, b"-_", validate=True))
    except (TypeError, ValueError, msgspec.MsgspecError):
        raise invalid("after", "the whole cursor of a search", names.shown(after)) from None
    if place != (queue or place) or state not in states:
        other = f"the cursor of {state} jobs in {names.shown(place)}"
        raise invalid("after", "the cursor of a search with the same filters", other)
    return place, state, page
