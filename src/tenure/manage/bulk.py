"""Changes many jobs: finds them, changes them one by one or whole queues at once, and counts what it has done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from tenure.core.engine import FullEngine
from tenure.core.errors import RedisError, Unreachable
from tenure.core.job import JobView, State
from tenure.core.steps import Steps, Work
from tenure.manage.search import LOOK_MAX, Search, Selection, queues_meant

CHANGED_MAX: Final = 10_000
"""The most jobs that one call changes one by one, or lists."""
UNCHANGED_MAX: Final = 20
"""The most jobs of one call that are named with the reason why they are not changed."""
RATE_MAX: Final = 100_000
"""The largest number of jobs a second."""


@dataclass(frozen=True, slots=True)
class Request:
    """Which jobs to change, and how. `queue` None: all queues. `limit` None: `CHANGED_MAX`. `rate`: jobs a second."""

    states: tuple[State, ...]
    selection: Selection
    queue: str | None = None
    limit: int | None = None
    dry_run: bool = False
    rate: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to the jobs. `kinds`: the names of the numbers.

    `one` changes a job and returns the name of the number that counts it, or None if the job cannot be changed any
    more, for the reason `refusal`. `whole` changes all jobs of a queue at once and returns the numbers; None where only
    `one` is right.
    """

    kinds: tuple[str, ...]
    one: Callable[[JobView], Steps[str | None]]
    whole: Callable[[str], Steps[Mapping[str, int]]] | None = None
    refusal: str = "its state has changed"


@dataclass(frozen=True, slots=True)
class UnchangedJob:
    """A job that a bulk change found and could not change, and the `reason`."""

    queue: str
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class QueueChange:
    """The part of a bulk change in one queue.

    `found`: how many jobs it found. `jobs`: those that it changes one by one, or with a dry run would change. `done`:
    how many it has changed so far. `active`: how many jobs of the queue workers hold. `is_whole`: all jobs were read.
    """

    queue: str
    states: Mapping[State, int]
    jobs: tuple[JobView, ...] = ()
    active: int = 0
    is_whole: bool = True
    done: Counter[str] = field(default_factory=Counter)

    @property
    def found(self) -> int:
        return sum(self.states.values())


@dataclass(frozen=True, slots=True)
class BulkChange:
    """What a change of many jobs found, and what it has done so far.

    `refused`: queues that Redis refused to read. `left_out`: how many queues were not read, as they are too many.
    `at_once`: it changes whole queues at once, so that `jobs` is empty. `unchanged`: the first 20 jobs that it could
    not change.
    """

    kinds: tuple[str, ...]
    queues: tuple[QueueChange, ...]
    refused: Mapping[str, RedisError]
    left_out: int = 0
    at_once: bool = False
    unchanged: list[UnchangedJob] = field(default_factory=list)

    @property
    def jobs(self) -> tuple[JobView, ...]:
        """The jobs that it changes one by one, or with a dry run would change."""
        return tuple(view for one in self.queues for view in one.jobs)

    @property
    def states(self) -> Mapping[State, int]:
        """How many jobs it found in each state."""
        counts = Counter[State]()
        for one in self.queues:
            counts.update(one.states)
        return counts

    @property
    def found(self) -> int:
        """How many jobs it found, those beyond its limit included."""
        return sum(one.found for one in self.queues)

    @property
    def meant(self) -> int:
        """How many jobs it changes, or with a dry run would change."""
        return self.found if self.at_once else sum(len(one.jobs) for one in self.queues)

    @property
    def done(self) -> dict[str, int]:
        """How many jobs it has changed, as `{"retried": 3}`."""
        return {kind: sum(one.done[kind] for one in self.queues) for kind in self.kinds}

    @property
    def left(self) -> int:
        """How many jobs that it found are not changed."""
        return max(0, self.found - sum(self.done.values()))

    @property
    def is_cut(self) -> bool:
        """Whether a queue has more jobs than were read."""
        return not self.at_once and not all(one.is_whole for one in self.queues)


OnProgress: TypeAlias = Callable[[BulkChange], None]


def run_change(
    engine: FullEngine,
    request: Request,
    what: Change,
    now_ms: float,
    progress: OnProgress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Steps[BulkChange]:
    """Find the jobs of a request and change them. `progress` is called before the first change and after each.

    All jobs are found before the first change, so that a job that fails again at once is not retried twice.
    """
    request.selection.check(engine, request.states)
    queues, left_out = yield from queues_meant(engine, request.queue)
    at_once = what.whole is not None and not request.dry_run and request.limit is None and request.rate is None
    parts, refused = yield from _found(engine, request, queues, now_ms, is_listed=not at_once)
    change = BulkChange(what.kinds, parts, refused, left_out, at_once)
    if request.dry_run:
        return change
    report = progress or (lambda change: None)
    report(change)
    pace = _Pace(request.rate, clock)
    for part in parts:
        if at_once and what.whole is not None and (part.found or not part.is_whole):
            part.done.update((yield from what.whole(part.queue)))
            report(change)
        for view in () if at_once else part.jobs:
            yield from pace.next()
            # Since it was found, it may have been retried, or started: then another state would be changed.
            now = yield from engine.job(view.queue, view.id)
            is_same = now is not None and now.state is view.state
            kind = (yield from what.one(view)) if is_same else None
            part.done.update([kind] if kind else [])
            if kind is None and len(change.unchanged) < UNCHANGED_MAX:
                gone = "its record is gone" if now is None else f"it is {now.state} now"
                change.unchanged.append(UnchangedJob(view.queue, view.id, what.refusal if is_same else gone))
            report(change)
    return change


def _found(
    engine: FullEngine, request: Request, queues: Sequence[str], now_ms: float, *, is_listed: bool
) -> Steps[tuple[tuple[QueueChange, ...], dict[str, RedisError]]]:
    """Find the jobs in each queue, and the queues that Redis refuses to read."""
    search, left = Search(engine, request.selection, now_ms), request.limit or CHANGED_MAX
    parts: list[QueueChange] = []
    refused: dict[str, RedisError] = {}
    for queue in queues:
        try:
            part = yield from _in_queue(engine, search, request, queue, left, is_listed)
        except Unreachable:
            raise
        except RedisError as error:  # as when another program has a key of this queue
            if request.queue is not None:
                raise
            refused[queue] = error
            continue
        left -= len(part.jobs)
        parts.append(part)
    return tuple(parts), refused


def _in_queue(
    engine: FullEngine, search: Search, request: Request, queue: str, limit: int, is_listed: bool
) -> Steps[QueueChange]:
    """Count the jobs of a queue and list up to `limit`, of ended ones those that ended first."""
    selection, jobs, is_whole = request.selection, list[JobView](), True
    counts = (yield from engine.queue(queue)).counts
    for state in request.states if is_listed or selection else ():
        # Without a selection, a job after the limit is counted, and not read.
        look, oldest = (LOOK_MAX, selection.older_than is not None) if selection else (limit - len(jobs), True)
        views, has_all = yield from search.matching(queue, state, look, oldest=oldest)
        jobs += views
        is_whole = is_whole and (has_all or not selection)
    known = Counter(view.state for view in jobs) if selection else Counter(counts)
    states = {state: known[state] for state in request.states}
    listed = tuple(jobs[:limit]) if is_listed else ()
    return QueueChange(queue, states, listed, counts.get(State.ACTIVE, 0), is_whole)


class _Pace:
    """Waits so that at most `rate` jobs are changed in a second; None: never."""

    def __init__(self, rate: int | None, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._began = clock()
        self._count = 0

    def next(self) -> Steps[None]:
        if self._rate is not None:
            pause_s = self._began + self._count / self._rate - self._clock()
            self._count += 1
            if pause_s > 0:
                yield Work(partial(time.sleep, pause_s))
