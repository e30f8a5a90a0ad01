"""A run as tables: every figure as a ratio to the bare loop and to the fastest peer of the same run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.roster import LOOPS, OURS
from bench.speed.measures import MEASURES, Measure
from bench.speed.results import Described, Run

NONE: Final = "-"


@dataclass(frozen=True)
class Row:
    """One peer's figure of one measure. `bare` and `best`: as ratios, None where there is nothing to compare with.
    `ours`: how many times as good Tenure is."""

    peer: Described
    median: float | None
    lowest: float
    highest: float
    bare: float | None
    best: float | None
    ours: float | None
    reason: str


def peers_of(run: Run) -> list[Described]:
    """Those that Tenure is compared with: neither loops nor ours."""
    return [peer for peer in run.peers if peer.name not in (*LOOPS, *OURS)]


def best_peer(run: Run, measure: Measure) -> Described | None:
    """The peer with the best median."""
    found = [(value, peer) for peer in peers_of(run) if (value := run.median(peer.name, measure.name)) is not None]
    if not found:
        return None
    choose = max if measure.better == "more" else min
    return choose(found, key=lambda pair: pair[0])[1]


def ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def bare_of(run: Run, measure: Measure) -> str:
    """The loop that a figure is compared with: many at once with the one that does that, all else with the other."""
    return "batch" if run.median("bare", measure.name) is None else "bare"


def rows(run: Run, measure: Measure) -> list[Row]:
    """The best first; those without a figure last."""
    bare = run.median(bare_of(run, measure), measure.name)
    champion = best_peer(run, measure)
    best = run.median(champion.name, measure.name) if champion else None
    tenure = run.median("tenure", measure.name)
    found = []
    for peer in run.peers:
        value, values = run.median(peer.name, measure.name), run.values(peer.name, measure.name)
        reason = "" if values else run.reason(peer.name, measure.name)
        spread = (min(values), max(values)) if values else (0.0, 0.0)
        ours = ratio(tenure, value) if measure.better == "more" else ratio(value, tenure)
        found.append(Row(peer, value, *spread, ratio(value, bare), ratio(value, best), ours, reason))
    sign = -1 if measure.better == "more" else 1
    return sorted(found, key=lambda row: (row.median is None, sign * (row.median or 0)))


def better_peers(run: Run) -> str:
    """The figures in which another queue is better than Tenure, and by how much."""
    lines = ["| figure | best queue | Tenure | ratio |", "|---|---|---:|---:|"]
    for measure in measured(run):
        best, ours = best_peer(run, measure), run.median("tenure", measure.name)
        value = run.median(best.name, measure.name) if best else None
        if best is None or ours is None or value is None or not ours:
            continue
        worse = value / ours if measure.better == "more" else ratio(ours, value)
        if worse is None or worse > 1:
            shown = [f"{number(one, measure.digits)} {measure.unit}".strip() for one in (value, ours)]
            lines.append(f"| {measure.title} | {best.title}: {shown[0]} | {shown[1]} | {times(worse)} |")
    return "\n".join(lines)


def table(run: Run, measure: Measure) -> str:
    bare = {"bare": "1 a call", "batch": "100 a call"}[bare_of(run, measure)]
    unit = f" ({measure.unit})" if measure.unit else ""
    head = (
        f"| | to the bare loop, {bare} | to the best peer | median{unit} | lowest to highest |",
        "|---|---:|---:|---:|---:|",
    )
    return "\n".join((*head, *(line(row, measure) for row in rows(run, measure))))


def user_table(run: Run, measure: Measure) -> str:
    """A row for each queue with a figure, with one ratio: how many times as good Tenure is."""
    unit = f" ({measure.unit})" if measure.unit else ""
    lines = [f"| | Tenure is, times as good | median{unit} | lowest to highest |", "|---|---:|---:|---:|"]
    reasons: dict[str, list[str]] = {}
    for row in rows(run, measure):
        if row.median is None:
            reasons.setdefault(row.reason, []).append(row.peer.title)
            continue
        lines.append(f"| {_title(row)} | {times(row.ours)} | {_values(row, measure)} |")
    absent = "; ".join(f"{', '.join(titles)} ({reason})" for reason, titles in reasons.items())
    return "\n".join([*lines, *(["", f"Without a figure: {absent}."] if absent else [])])


def line(row: Row, measure: Measure) -> str:
    if row.median is None:
        return f"| {_title(row)} | {NONE} | {NONE} | {NONE} | {row.reason} |"
    return f"| {_title(row)} | {times(row.bare)} | {times(row.best)} | {_values(row, measure)} |"


def _title(row: Row) -> str:
    return f"**{row.peer.title}**" if row.peer.name in OURS else row.peer.title


def _values(row: Row, measure: Measure) -> str:
    """The cells of the median and of the spread."""
    lowest, highest, median = (number(one, measure.digits) for one in (row.lowest, row.highest, row.median or 0))
    return f"{median} | {lowest} to {highest}"


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def times(value: float | None) -> str:
    """A ratio with as many digits as it deserves."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def measured(run: Run) -> list[Measure]:
    """The measures that anybody has a figure of."""
    return [measure for measure in MEASURES if any(one.measure == measure.name for one in run.samples)]


def summary(run: Run) -> str:
    """All tables, for the screen."""
    return "\n\n".join(f"{measure.title}\n{table(run, measure)}" for measure in measured(run))


def settings(run: Run) -> str:
    """Who was measured, in which version, with which settings."""
    lines: list[str] = ["| queue | versions | settings | also tried |", "|---|---|---|---|"]
    lines += [f"| {peer.title} | {versions(peer)} | {peer.fast} | {peer.swept or NONE} |" for peer in run.peers]
    return "\n".join(lines)


def versions(peer: Described) -> str:
    return ", ".join(f"{name} {number}" for name, number in peer.versions.items())


def absent(run: Run, names: Sequence[str]) -> dict[str, str]:
    """Peers of which there is nothing at all, and why."""
    known = {peer.name for peer in run.peers}
    return {name: run.reason(name, MEASURES[0].name) for name in names if name not in known}
