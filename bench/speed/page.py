"""The pages, written from what was kept: everything between their marks, and the picture."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.environments import environment_for, known_pins
from bench.roster import ALL
from bench.speed import sections
from bench.speed.goals import Kept, table, verdicts
from bench.speed.lines import lines
from bench.speed.measures import BY_NAME
from bench.speed.picture import SHOWN, panels
from bench.speed.results import FOLDER, Run, described, load
from bench.speed.rounds import PARTS, told
from bench.speed.tables import absent, better_peers, measured, settings, user_table
from bench.speed.tables import table as measure_table

PAGE: Final = Path(__file__).parents[2] / "docs" / "explanation" / "performance.md"
"""For users."""
GOALS: Final = Path(__file__).parents[1] / "GOALS.md"
"""For those who work on Tenure."""
FIGURES: Final = GOALS.with_name("FIGURES.md")
"""All that was measured beside other queues."""
SCALE: Final = PAGE.with_name("scale.md")
"""For users who think of a cluster."""
ON_PAGE: Final = ("options",)
ON_GOALS: Final = ("flat",)
ON_SCALE: Final = ("cluster",)
"""Sections of the pages; all others are on FIGURES."""
PICTURE: Final = PAGE.with_suffix(".png")
DRAW: Final = Path(__file__).parent / "draw.py"
BEGIN: Final = "<!-- figures: written by `make bench` -->"
END: Final = "<!-- end of the figures -->"
DRAW_S: Final = 120.0


def kept(folder: Path = FOLDER) -> Kept:
    return Kept(load("performance", Run, folder), **{name: sections.kept(name, folder) for name in sections.NAMES})


def write(cache: Path) -> None:
    """Replace what stands between the marks, and draw the picture. Nothing is measured."""
    found = kept()
    for page, text in texts(found).items():
        page.write_text(written(page.read_text(encoding="utf-8"), text), encoding="utf-8")
    if found.run is not None:
        draw(found.run, cache)
    told(f"written: {PICTURE.name}, {', '.join(page.name for page in texts(found))}")


def texts(found: Kept) -> dict[Path, str]:
    """What stands between the marks of each page."""
    return {PAGE: for_users(found), FIGURES: figures(found), GOALS: goals(found), SCALE: scale(found)}


def draw(run: Run, cache: Path) -> None:
    """In an environment of its own: nothing else here needs what draws."""
    python = environment_for("plot", known_pins()["plot"], cache)
    given = msgspec.json.encode(panels(run))
    subprocess.run([str(python), str(DRAW), str(PICTURE)], input=given, check=True, timeout=DRAW_S)


def written(page: str, figures: str) -> str:
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the figures: expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}"


def for_users(found: Kept) -> str:
    """The page of a user: five lines, a picture and at most eight tables."""
    parts = lines(found) and ["\n".join(lines(found))]
    if (run := found.run) is not None:
        shown = [measure for measure in measured(run) if measure.name in SHOWN]
        parts += [f"![Each queue as a ratio to Tenure, for {len(shown)} figures]({PICTURE.name})"]
        for measure in shown:
            parts += [f"## {measure.title}", measure.about, user_table(run, measure)]
        parts += ["## Where another queue is better", better_peers(run), _when(run)]
    return "\n\n".join([*parts, *_sections(found, ON_PAGE)])


def figures(found: Kept) -> str:
    parts = [] if found.run is None else _compared(found.run)
    here = [name for name in sections.NAMES if name not in (*ON_PAGE, *ON_GOALS, *ON_SCALE)]
    return "\n\n".join([*parts, *_sections(found, here)])


def goals(found: Kept) -> str:
    return "\n\n".join(["## Goals", table(verdicts(found)), *_sections(found, ON_GOALS)])


def scale(found: Kept) -> str:
    return "\n\n".join(_sections(found, ON_SCALE))


def _sections(found: Kept, names: Sequence[str]) -> list[str]:
    parts = []
    for section in sections.SECTIONS:
        value = getattr(found, section.name)
        if value is not None and section.name in names:
            parts += [f"## {section.title}", section.about, section.table(value), f"{described(value.machine)}."]
    return parts


def _when(run: Run) -> str:
    rounds = f"{run.rounds} {'round' if run.rounds == 1 else 'rounds'} of about {run.seconds:g} s each"
    return f"{described(run.machine)}. Medians of {rounds}."


def _compared(run: Run) -> list[str]:
    parts = ["## Compared with other queues", _when(run)]
    for measure in measured(run):
        parts += [f"### {measure.title}", measure.about, measure_table(run, measure)]
    named = "; ".join(f"*{part.name}* is {BY_NAME[part.measures[0]].title}" for part in PARTS)
    parts += ["### Who was measured", settings(run), f"The last column names tables by a word: {named}."]
    missing = absent(run, ALL)
    if missing:
        parts.append("Not measured: " + "; ".join(f"{name} ({reason})" for name, reason in missing.items()) + ".")
    return parts
