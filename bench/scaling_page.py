"""Replays the traces of `bench.scaling`, and writes the table and the picture of docs/explanation/autoscaling.md.

python -m bench.scaling_page
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.scaling import HOUR, RULES, Replay, Rule, Trace, replay, traces

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "autoscaling.md"
PICTURE: Final = PAGE.with_suffix(".svg")
BEGIN: Final = "<!-- figures: written by `python -m bench.scaling_page` -->"
END: Final = "<!-- end of the figures -->"
WIDTH: Final = 860
HEIGHT: Final = 150
LEFT: Final = 50
POINTS: Final = 400
COLORS: Final = ("#1f6f54", "#5b7fa6", "#c0703a", "#9a9a9a")

Row = tuple[Trace, Sequence[tuple[Rule, Replay]]]


def rows() -> list[Row]:
    """Replay every trace with every rule."""
    found: list[Row] = []
    for trace in traces():
        rules = [make() for make in RULES]
        found.append((trace, [(rule, replay(trace, rule)) for rule in rules]))
    return found


def table(found: Sequence[Row]) -> str:
    lines = [
        "| trace | rule | seconds over target | longest wait, s | worker-hours | changes |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for trace, replays in found:
        for n, (rule, run) in enumerate(replays):
            name = f"{trace.name}: {trace.about}" if n == 0 else ""
            lines.append(
                f"| {name} | {rule.title} | {run.late:,} | {run.longest} | {run.hours:.1f} | {run.changes:,} |"
            )
    return "\n".join(lines)


def picture(found: Sequence[Row]) -> str:
    """Draw the number of workers over time, a panel for each trace."""
    height = 40 + len(found) * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for n, (rule, _) in enumerate(found[0][1]):
        at = LEFT + n * 200
        parts.append(f'<path d="M{at} 20h24" stroke="{COLORS[n]}" stroke-width="2.5"/>')
        parts.append(f'<text x="{at + 30}" y="24" font-size="13" fill="#333333">{rule.title}</text>')
    for n, (trace, replays) in enumerate(found):
        parts += _panel(trace, [run for _, run in replays], 40 + n * HEIGHT)
    return "\n".join([*parts, "</svg>", ""])


def _panel(trace: Trace, runs: Sequence[Replay], top: int) -> list[str]:
    most, seconds = max(max(run.workers) for run in runs), len(trace.arrivals)
    floor, room = top + HEIGHT - 25, HEIGHT - 50
    hours = f"{seconds // HOUR} hour{'s' if seconds > HOUR else ''}"
    parts = [
        f'<text x="{LEFT}" y="{top + 14}" font-size="13" font-weight="bold" fill="#333333">{trace.name}</text>',
        f'<path d="M{LEFT} {floor}H{WIDTH - 10}" stroke="#cccccc"/>',
        f'<text x="{LEFT - 6}" y="{floor - room + 4}" font-size="11" text-anchor="end" fill="#666666">{most}</text>',
        f'<text x="{LEFT - 6}" y="{floor + 4}" font-size="11" text-anchor="end" fill="#666666">0</text>',
        f'<text x="{WIDTH - 10}" y="{floor + 15}" font-size="11" text-anchor="end" fill="#666666">{hours}</text>',
    ]
    for n, run in reversed(list(enumerate(runs))):
        step = max(1, seconds // POINTS)
        highest = [max(run.workers[at : at + step]) for at in range(0, seconds, step)]
        wide = (WIDTH - 10 - LEFT) / len(highest)
        line = "".join(
            f"{'L' if i else 'M'}{LEFT + i * wide:.1f} {floor - room * value / most:.1f}"
            for i, value in enumerate(highest)
            if not 0 < i < len(highest) - 1 or not highest[i - 1] == value == highest[i + 1]
        )
        parts.append(f'<path d="{line}" fill="none" stroke="{COLORS[n]}" stroke-width="{2 if n == 0 else 1.2}"/>')
    return parts


def written(page: str, figures: str) -> str:
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the figures: expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}"


def main() -> None:
    found = rows()
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), table(found)), encoding="utf-8")
    PICTURE.write_text(picture(found), encoding="utf-8")


if __name__ == "__main__":
    main()
