"""Queues, their settings and workers, as tables."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tenure.cli.output.tables import Table
from tenure.cli.output.text import ago, took
from tenure.client.why import is_living
from tenure.core import limits
from tenure.core.errors import RedisError, Unreachable
from tenure.core.job import QueueView, State
from tenure.core.latency import Latency, Percentiles
from tenure.core.minutes import QUARTER_MS, MinuteCounts, Minutes, QuarterLatency
from tenure.core.shape import LaneFailure
from tenure.core.values import replace
from tenure.core.worker_view import WorkerView
from tenure.manage.overview import Overview

_SHARED: Final = ("parked_lanes", "blocked_lanes", "suspects", "limited", "newer_layout")
"""The fields of a queue that are shown when they have a value."""
OUTGOING_MS: Final = 5_000
"""Maintenance hands over within this time what a worker did not."""


def overview_tables(seen: Overview) -> list[Table]:
    """Show queues, how long their jobs waited and ran, and workers."""
    now_ms = time.time() * limits.SECOND
    return [
        queue_table(seen.queues, now_ms, seen.refused, seen.without_worker, seen.all_awaiting),
        *latency_tables(seen.latency),
        worker_table(seen.workers, now_ms),
    ]


def queue_table(
    queues: Sequence[QueueView],
    now_ms: float,
    refused: Mapping[str, RedisError] | None = None,
    without_worker: Collection[str] = (),
    all_awaiting: Collection[str] = (),
) -> Table:
    """Count the jobs of each queue by state, with the age of the one that is next, and notes on what is unusual.

    `refused`: the queues that cannot be shown. `without_worker`, `all_awaiting`: as in `Overview`.
    """
    states = [state.value for state in State]
    rows = tuple(
        {
            "queue": view.name,
            **{state: str(view.counts.get(State(state), 0)) for state in states},
            "oldest": "" if view.oldest_ms is None else ago(now_ms - view.oldest_ms),
            "notes": _notes(view, now_ms, view.name in without_worker, view.name in all_awaiting),
        }
        for view in queues
    )
    unknown = dict.fromkeys(states, "?") | {"oldest": ""}
    rows += tuple(
        {"queue": name, **unknown, "notes": "unreachable" if isinstance(error, Unreachable) else "refused"}
        for name, error in (refused or {}).items()
    )
    table = Table("Queues", rows, [*states, "oldest"], "No queues: nothing was enqueued lately.", lists=["notes"])
    # `ready` stays, so that an empty queue shows that it is empty.
    spare = tuple(name for name in table.only("0") if name != State.READY.value)
    return replace(table, spare=(spare,)).without_empty("notes", "oldest")


def latency_tables(latency: Mapping[str, Latency]) -> list[Table]:
    """How long jobs waited and ran, or no table."""
    rows = tuple(
        {"queue": name, **_shares("wait", one.wait), **_shares("run", one.run)} for name, one in latency.items()
    )
    right = [name for row in rows[:1] for name in row if name != "queue"]
    spare = (("wait_p99", "run_p99"), ("wait_jobs", "run_jobs"))
    return [Table("Last five to ten minutes", rows, right, spare=spare)] if rows else []


def _shares(what: str, one: Percentiles | None) -> dict[str, str]:
    if one is None:
        return dict.fromkeys((f"{what}_jobs", f"{what}_p50", f"{what}_p95", f"{what}_p99"), "")
    texts = {f"p{n}": took(seconds) for n, seconds in ((50, one.p50), (95, one.p95), (99, one.p99))}
    return {f"{what}_{name}": text for name, text in {"jobs": f"{one.count:,}", **texts}.items()}


def minutes_tables(found: Minutes, now_ms: float) -> list[Table]:
    """Show the last 24 hours of a queue by the quarter of an hour, and the last hour by the minute."""
    latency = {one.at_ms: one for one in found.latency}
    quarters: dict[int, list[MinuteCounts]] = {at_ms: [] for at_ms in latency}
    for one in found.counts:
        quarters.setdefault(one.at_ms - one.at_ms % QUARTER_MS, []).append(one)
    by_quarter = tuple(
        {"quarter": _clock(at_ms), **_ends(quarters[at_ms]), **_percentiles(latency.get(at_ms))}
        for at_ms in sorted(quarters)
    )
    last_hour = (one for one in found.counts if one.at_ms > now_ms - limits.HOUR)
    by_minute = tuple({"minute": _clock(one.at_ms), **_ends([one])} for one in last_hour)
    empty = "No job ended in the last 24 hours."
    tables = [Table("Quarters of an hour", by_quarter, by_quarter[0] if by_quarter else (), empty)]
    return tables + ([Table("Minutes of the last hour", by_minute, by_minute[0])] if by_minute else [])


def _ends(counts: Sequence[MinuteCounts]) -> dict[str, str]:
    names = ("completed", "failed", "retried", "cancelled")
    return {name: f"{sum(getattr(one, name) for one in counts):,}" for name in names}


def _percentiles(one: QuarterLatency | None) -> dict[str, str]:
    cells = _shares("wait", one.wait if one else None) | _shares("run", one.run if one else None)
    return {name: text for name, text in cells.items() if name.endswith(("_p50", "_p95"))}


def _clock(at_ms: int) -> str:
    return time.strftime("%H:%M", time.localtime(at_ms / limits.SECOND))


def settings_table(view: QueueView, *, with_lanes: bool = False) -> Table:
    """Show the settings of one queue; `with_lanes`: also its parked and blocked lanes."""
    settings = view.settings
    row = {
        "paused": "yes" if settings.paused else "no",
        "max_length": str(settings.max_length or "none"),
        "lane_failure": settings.lane_failure.value,
    }
    if change := view.repartition:
        row["partitions"] = f"{change.before}->{change.number}"
        row |= {} if change.left is None else {"to_move": f"{change.left:,}"}
    elif view.partitions > 1:
        row["partitions"] = str(view.partitions)
    if view.unreachable:
        row["unreachable"] = ",".join(map(str, view.unreachable))
    if with_lanes:
        row |= {"parked_lanes": str(view.parked_lanes), "blocked_lanes": str(view.blocked_lanes)}
        if view.suspects:
            row["suspects"] = str(view.suspects)
        if view.limited:
            row["limited"] = str(view.limited)
        if view.newer_layout:
            row["newer_layout"] = str(view.newer_layout)
    return Table("Settings", (row,), {"max_length", "partitions", "to_move", *_SHARED})


def worker_table(workers: Sequence[WorkerView], now_ms: float) -> Table:
    """Show workers. `held` is counted in Redis now; with prefetched jobs it may exceed `slots`."""
    rows = tuple(
        {
            "worker": view.id,
            "host": view.host,
            "pid": str(view.pid),
            "held": str(view.active),
            "slots": str(view.concurrency),
            "announced": f"{ago(now_ms - view.seen_ms)} ago",
            "up": ago(now_ms - view.started_ms),
            "queues": ",".join(view.queues),
            "state": _state(view, now_ms),
        }
        for view in workers
    )
    # The name of a worker begins with its host and its pid.
    spare = (("host", "pid"), ("up",), ("announced",))
    right = ("pid", "held", "slots", "announced", "up")
    return Table("Workers", rows, right, "No workers.", spare, ["queues"]).without_empty("state")


def _state(view: WorkerView, now_ms: float) -> str:
    words = {"quiet": view.quiet, "alone": view.alone, "silent": not is_living(view, now_ms)}
    words[f"awaiting={view.awaiting}"] = view.awaiting > 0
    return ",".join(word for word, is_so in words.items() if is_so)


def _notes(view: QueueView, now_ms: float, is_unserved: bool, is_awaiting: bool) -> str:
    """Format the notes without spaces: one word in a pipe."""
    settings = view.settings
    values = {name: getattr(view, name) for name in _SHARED} | {"max_length": settings.max_length}
    if view.partitions > 1:
        values["partitions"] = view.partitions
    if view.outgoing_ms is not None and now_ms - view.outgoing_ms > OUTGOING_MS:
        values["outgoing"] = view.outgoing
    values["unreachable"] = "+".join(map(str, view.unreachable))
    if settings.lane_failure is not LaneFailure.SKIP:
        values["lane_failure"] = settings.lane_failure
    words = [*["paused"] * settings.paused, *["no_worker"] * is_unserved, *["all_awaiting"] * is_awaiting]
    return ",".join([*words, *(f"{name}={value}" for name, value in values.items() if value)])
