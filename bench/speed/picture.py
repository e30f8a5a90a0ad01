"""What the picture shows of a run: for some measures, how good each queue is beside Tenure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.roster import LOOPS, OURS
from bench.speed.measures import BY_NAME
from bench.speed.results import Run
from bench.speed.tables import rows

SHOWN: Final = ("drain_io", "drain_async", "drain_sync", "enqueue_one", "latency_p50", "start")


@dataclass(frozen=True)
class Point:
    """`group`: ours, loop or peer. `ratio`: how many times as good as Tenure."""

    title: str
    group: str
    ratio: float


@dataclass(frozen=True)
class Panel:
    title: str
    points: tuple[Point, ...]


def panels(run: Run) -> list[Panel]:
    return [panel for name in SHOWN if (panel := _panel(run, name)).points]


def _panel(run: Run, name: str) -> Panel:
    found = [Point(row.peer.title, _group(row.peer.name), 1 / row.ours) for row in rows(run, BY_NAME[name]) if row.ours]
    return Panel(BY_NAME[name].title, tuple(found))


def _group(name: str) -> str:
    return "ours" if name in OURS else "loop" if name in LOOPS else "peer"
