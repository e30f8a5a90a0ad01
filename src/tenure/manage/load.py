"""Reads what an autoscaler needs of some queues: the jobs that may run, how many at one time, and their run times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tenure.client.inspect import lanes_in, queue_names
from tenure.client.why import is_living
from tenure.core import limits, names
from tenure.core.engine import FullEngine
from tenure.core.errors import invalid
from tenure.core.job import QueueView, State
from tenure.core.latency import mean_run
from tenure.core.rates import LimitPort, LimitRule
from tenure.core.shape import LaneState, LaneView
from tenure.core.steps import Steps
from tenure.core.values import replace
from tenure.protocols.registry import entry_of
from tenure.scale import Narrow, QueueLoad, Sample

QUEUES_MOST: Final = 100
"""The most queues of one sample."""
LANES_LOOKED: Final = 1_000
"""Lanes of each state that are read. Jobs of further lanes count as jobs without a lane."""
LIMITS_LOOKED: Final = 20
"""Limits of a queue of which the stored numbers are read. For others the numbers in the code count."""
DUE_LOOKED: Final = 1_000
"""Scheduled jobs of a queue that are counted when they are due soon."""
_ENDS: Final = ("completed", "failed", "broken", "cancelled")
_UNLIMITED: Final = 1_000_000_000


class _Group(NamedTuple):
    """Jobs under the same limits: of one lane, or without a lane."""

    narrow: Narrow
    rules: tuple[LimitRule, ...] = ()
    lane: str | None = None


def load_queues(engine: FullEngine, queues: Sequence[str]) -> list[str]:
    """Return the names of these queues. Raises `InvalidArgument`, also for one that is named twice."""
    names.count(len(queues), "queues: their number", least=1, most=QUEUES_MOST)
    checked = [names.queue_name(queue) for queue in queues]
    for queue in checked:
        engine.prefix(queue)  # the format may have other rules
        if checked.count(queue) > 1:
            raise invalid("queues", "different ones, since one policy sizes the workers of a queue", repr(queue))
    return checked


def load_of(engine: FullEngine, queues: Sequence[str], due_ms: int, now_ms: float, at_s: float) -> Steps[Sample]:
    """Read the load of some queues. `due_ms`: how soon due jobs count. `at_s`: the time by a monotonic clock."""
    known = yield from queue_names(engine)
    workers = [one for one in (yield from engine.announced()) if is_living(one, now_ms)]
    loads = []
    for name in queues:
        run_s = mean_run(one.times[name] for one in workers if name in one.times)
        load = yield from _queue_load(engine, name, due_ms, now_ms, run_s, name in known)
        loads.append(replace(load, batch=max((one.batches.get(name, 1) for one in workers), default=1)))
    serving = [one for one in workers if any(name in one.queues for name in queues)]
    slots = None if entry_of(engine).has_foreign_clients else sum(one.concurrency for one in serving)
    return Sample(at_s, tuple(loads), len(serving), slots)


def _queue_load(
    engine: FullEngine, name: str, due_ms: int, now_ms: float, run_s: float | None, is_known: bool
) -> Steps[QueueLoad]:
    view = yield from engine.queue(name)
    counts, held = view.counts, view.counts[State.ACTIVE]
    come = counts[State.READY] + held + sum(view.totals.get(end, 0) for end in _ENDS)
    waiting, due = 0, 0
    narrow: list[Narrow] = []
    if engine.schedules is not None:
        schedules = yield from engine.schedules.due_schedules(name, 0)
        now_ms = schedules.now_ms
        due = int(schedules.next_ms is not None and schedules.next_ms <= due_ms)
    ages = (yield from _ages(engine, view, now_ms)) if held else ()
    if view.settings.paused or view.newer_layout is not None:
        due = 0
    else:
        due += (yield from _due(engine, view, now_ms + due_ms)) if counts[State.SCHEDULED] else 0
        if counts[State.READY]:
            waiting, narrow = yield from _runnable(engine, view, run_s or 1.0)
    is_known = is_known or any(counts.values())
    return QueueLoad(name, waiting, tuple(narrow), held, due, come, 0.0, run_s, ages, is_known)


def _ages(engine: FullEngine, view: QueueView, now_ms: float) -> Steps[tuple[float, ...]]:
    """Return for how many seconds up to 100 held jobs have run."""
    page = yield from engine.page(view.name, State.ACTIVE, heads=True)
    starts = [job.started_ms for job in page.jobs if job.started_ms is not None]
    return tuple(max(0.0, now_ms - start) / limits.SECOND for start in starts)


def _runnable(engine: FullEngine, view: QueueView, run_s: float) -> Steps[tuple[int, list[Narrow]]]:
    """Return how many ready jobs may all run at one time, and the others that may run."""
    waiting, groups = view.counts[State.READY] - view.suspects, list[_Group]()
    if engine.lanes is not None:
        open_lanes, closed = yield from _lanes(engine, view)
        waiting -= sum(lane.waiting for lane in (*open_lanes, *closed))
        groups = [
            _Group(Narrow(lane.waiting, lane.busy, lane.limit), lane=lane.name) for lane in open_lanes if lane.waiting
        ]
    waiting = max(0, waiting)
    if (waiting or groups) and engine.limits is not None:
        waiting, groups = yield from _limited(engine, engine.limits, view, waiting, groups, run_s)
    # A worker runs suspects alone, or a few of them: more workers do not help.
    suspects = [Narrow(view.suspects, 0, 1)] if view.suspects else []
    return waiting, suspects + [group.narrow for group in groups]


def _lanes(engine: FullEngine, view: QueueView) -> Steps[tuple[list[LaneView], list[LaneView]]]:
    """Return lanes with jobs that may run, and lanes that stand still."""
    found: dict[LaneState, list[LaneView]] = {}
    for state, there_are in (
        (LaneState.READY, True),
        (LaneState.BUSY, view.counts[State.ACTIVE] > 0),
        (LaneState.BLOCKED, view.blocked_lanes > 0),
        (LaneState.PARKED, view.parked_lanes > 0),
    ):
        found[state] = (yield from lanes_in(engine, view.name, state, LANES_LOOKED)) if there_are else []
    return found[LaneState.READY] + found[LaneState.BUSY], found[LaneState.BLOCKED] + found[LaneState.PARKED]


def _limited(
    engine: FullEngine, port: LimitPort, view: QueueView, waiting: int, lanes: list[_Group], run_s: float
) -> Steps[tuple[int, list[_Group]]]:
    """Apply the limits of the jobs that come first. Returns the jobs that are under no limit, and the others."""
    page = yield from engine.page(view.name, State.READY, limit=limits.PAGE_MAX, heads=True)
    shapes = [job.shape for job in page.jobs]
    if not any(shape.limits for shape in shapes):
        return waiting, lanes
    first = {shape.lane: shape.limits for shape in shapes if shape.lane is not None}
    seen = list(first.values()) or [()]
    # Lanes that are not on the page have the limits of those on it in turn.
    groups = [one._replace(rules=first.get(one.lane or "", seen[n % len(seen)])) for n, one in enumerate(lanes)]
    are_open = {one.lane for one in lanes}
    rest = [shape.limits for shape in shapes if shape.lane not in are_open and (shape.limits or shape.lane is None)]
    rest = (rest or seen) if waiting else []  # without a job on the page, the rest is in lanes beyond `LANES_LOOKED`
    active = view.counts[State.ACTIVE]
    groups += [
        _Group(Narrow(round(waiting * count / len(rest)), active, _UNLIMITED), rules)
        for rules, count in Counter(rest).items()
        if rules
    ]
    places: dict[str, tuple[int, int]] = {}
    for rule in dict.fromkeys(rule for one in groups for rule in one.rules):
        if rule.name not in places:
            places[rule.name] = yield from _places(port, rule, run_s, len(places) < LIMITS_LOOKED)
    waiting -= sum(one.narrow.waiting for one in groups[len(lanes) :])
    return waiting, _sharing([_bounded(one, places) for one in groups], places)


def _bounded(group: _Group, places: Mapping[str, tuple[int, int]]) -> _Group:
    """Return a group that has no more places than each of its limits."""
    narrow = group.narrow
    held = min(narrow.held, *(places[rule.name][0] // rule.cost for rule in group.rules), _UNLIMITED)
    most = min(narrow.most, *(places[rule.name][1] // rule.cost for rule in group.rules), _UNLIMITED)
    return group._replace(narrow=Narrow(narrow.waiting, narrow.held if group.lane else held, most))


def _sharing(groups: list[_Group], places: Mapping[str, tuple[int, int]]) -> list[_Group]:
    """Join the groups under one limit that has fewer places than they have together."""
    counts = Counter(rule.name for one in groups for rule in one.rules)
    for name in (name for name, count in counts.items() if count > 1):
        inside: list[_Group] = []
        outside: list[_Group] = []
        for one in groups:
            (inside if any(rule.name == name for rule in one.rules) else outside).append(one)
        cost = min((rule.cost for one in inside for rule in one.rules if rule.name == name), default=1)
        active, most = (number // cost for number in places[name])
        if len(inside) > 1 and sum(one.narrow.most for one in inside) > most:
            waiting, held = (sum(getattr(one.narrow, what) for one in inside) for what in ("waiting", "held"))
            common = tuple(rule for rule in inside[0].rules if all(rule in one.rules for one in inside))
            groups = [*outside, _Group(Narrow(waiting, min(active, held), most), common)]
    return groups


def _places(port: LimitPort, rule: LimitRule, run_s: float, looks: bool) -> Steps[tuple[int, int]]:
    """Return how many places of a limit are taken, and how many it has at one time."""
    concurrency, interval_us, active = rule.concurrency, rule.interval_us, 0
    if looks:
        stored = yield from port.limit(rule.name)
        active = stored.active
        if stored.rests_ms is not None:
            return active, active
        concurrency = concurrency if stored.concurrency is None else stored.concurrency
        interval_us = interval_us if stored.interval_us is None else stored.interval_us
    rate = _UNLIMITED if not interval_us else max(rule.cost, round(run_s * 1_000_000 / interval_us))
    return active, min(_UNLIMITED if concurrency is None else concurrency, rate)


def _due(engine: FullEngine, view: QueueView, until_ms: float) -> Steps[int]:
    """Count scheduled jobs that are due by this time."""
    found = 0
    after: str | None = None
    for _ in range(0, DUE_LOOKED, limits.PAGE_MAX):
        page = yield from engine.page(view.name, State.SCHEDULED, after=after, heads=True)
        soon = [job for job in page.jobs if job.due_ms is not None and job.due_ms <= until_ms]
        found += len(soon)
        after = page.next
        # Each partition has an order of its own.
        if after is None or (view.partitions == 1 and len(soon) < len(page.jobs)):
            break
    return found
