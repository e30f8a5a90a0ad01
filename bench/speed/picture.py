"""What the picture shows of a run: for some measures, each queue as a ratio to the best peer, more being better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.roster import LOOPS, OURS
from bench.speed.measures import BY_NAME
from bench.speed.results import Run
from bench.speed.tables import rows

SHOWN: Final = ("drain_async", "drain_sync", "enqueue_many", "enqueue_one", "latency_p50", "memory_job")


@dataclass(frozen=True)
class Bar:
    """`group`: ours, loop or peer. `ratio`: how many times as good as the best peer."""

    title: str
    group: str
    ratio: float


@dataclass(frozen=True)
class Panel:
    title: str
    bars: tuple[Bar, ...]


def bars(run: Run) -> list[Panel]:
    return [panel for name in SHOWN if (panel := _panel(run, name)).bars]


def _panel(run: Run, name: str) -> Panel:
    measure = BY_NAME[name]
    found = [
        Bar(row.peer.title, _group(row.peer.name), row.best if measure.better == "more" else 1 / row.best)
        for row in rows(run, measure)
        if row.best
    ]
    return Panel(measure.title, tuple(found))


def _group(name: str) -> str:
    return "ours" if name in OURS else "loop" if name in LOOPS else "peer"
