"""Levels of a long run over time: whether one rises, their CSV and their picture."""

from __future__ import annotations

import csv
import itertools
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from tests.support.processes import children

HOUR_S: Final = 3600.0
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
POINTS_MOST: Final = 500
"""Of a line: the slope compares each with each."""
WIDTH, HEIGHT, LEFT, TEXT = 860, 90, 60, 24

Line: TypeAlias = Sequence[tuple[float, float]]
"""Pairs of seconds and a value."""


@dataclass(frozen=True, slots=True)
class Level:
    """`most`: how much it may rise in an hour. `noise`: a smaller rise over half of the run means nothing."""

    name: str
    unit: str
    most: float
    noise: float


LEVELS: Final = (
    Level("memory of Redis", "MB", most=0.5, noise=1.5),
    Level("keys", "keys", most=10, noise=150),
    Level("connections of Redis", "connections", most=1, noise=8),
    Level("memory of the parent", "MB", most=0.5, noise=4),
    Level("memory of its workers", "MB", most=2, noise=8),
    Level("descriptors of both", "descriptors", most=1, noise=8),
    Level("lateness of schedules", "ms", most=50, noise=1_000),
    Level("lateness of delayed jobs", "ms", most=50, noise=1_000),
)


def slope(line: Line) -> float:
    """Return how much the second half rises in an hour: the median of the slopes between any two of its points, so that
    single peaks do not count."""
    half = line[len(line) // 2 :]
    thin = half[:: 1 + len(half) // POINTS_MOST]
    slopes = [(b - a) / (t - s) for (s, a), (t, b) in itertools.combinations(thin, 2)]
    return statistics.median(slopes or [0.0]) * HOUR_S


def rises(level: Level, line: Line) -> bool:
    """A level that was never measured counts as one that rises."""
    rise, hours = slope(line), (line[-1][0] - line[len(line) // 2][0]) / HOUR_S if line else 0.0
    return not line or (rise > level.most and rise * hours > level.noise)


def verdict(level: Level, line: Line) -> str:
    """Say in words whether the level rises."""
    begin, end = (statistics.median(v for _, v in part or [(0.0, 0.0)]) for part in (line[: len(line) // 2], line[-9:]))
    return (
        f"{'RISES' if rises(level, line) else 'level'}  {level.name}: {begin:,.1f} in the first half, {end:,.1f} at "
        f"the end, {slope(line):+,.1f} {level.unit} an hour in the second half (allowed: {level.most:g} an hour, "
        f"or {level.noise:g} in all)"
    )


def family(parent: int) -> list[int]:
    """The processes below a parent."""
    return [pid for child in children(parent) for pid in (child, *family(child))]


def memory_mb(pids: Iterable[int]) -> float:
    """The resident memory of these processes."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE for pid in pids) / 1e6


def descriptors(pids: Iterable[int]) -> float:
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)


@dataclass(slots=True)
class Lines:
    """Asks the probes every `every_s`, and writes a row of the CSV. None: a probe has nothing to say."""

    path: Path
    probes: Mapping[str, Callable[[], float | None]]
    every_s: float
    rows: list[tuple[float, list[float | None]]] = field(default_factory=list)

    def sample(self, at_s: float) -> None:
        if self.rows and at_s < self.rows[-1][0] + self.every_s:
            return
        values = [probe() for probe in self.probes.values()]
        with self.path.open("a" if self.rows else "w", newline="") as file:
            writer = csv.writer(file)
            if not self.rows:
                writer.writerow(["seconds", *self.probes])
            writer.writerow([f"{at_s:.1f}", *("" if one is None else f"{one:.1f}" for one in values)])
        self.rows.append((at_s, values))

    def line(self, name: str) -> Line:
        n = list(self.probes).index(name)
        return [(at, value) for at, values in self.rows if (value := values[n]) is not None]

    def picture(self) -> str:
        """Draw a panel for each probe, as SVG."""
        height, deep, panels = HEIGHT * len(self.probes) + TEXT, HEIGHT - TEXT - 6, []
        last_s = max(self.rows[-1][0], 1.0) if self.rows else 1.0
        for n, name in enumerate(self.probes):
            line, top = self.line(name), n * HEIGHT + TEXT
            most = max((value for _, value in line), default=0.0) or 1.0
            right = (WIDTH - LEFT - 10) / last_s
            points = " ".join(f"{LEFT + at * right:.1f},{top + deep * (1 - value / most):.1f}" for at, value in line)
            panels += [
                f'<text x="{LEFT}" y="{top - 8}">{name}</text>',
                f'<text x="{LEFT - 6}" y="{top + 8}" text-anchor="end">{most:,.0f}</text>',
                f'<path d="M{LEFT} {top + deep}H{WIDTH - 10}" stroke="#cccccc"/>',
                f'<polyline points="{points}" fill="none" stroke="#1f6f54"/>',
            ]
        box = f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12"'
        text = f'<text x="{LEFT}" y="{height - 8}">0 to {last_s / HOUR_S:.2f} hours</text>'
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
        return "\n".join([svg, f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>', *panels, text, "</svg>", ""])
