"""What the crash run found: kept as JSON, shown as a table on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from bench.crash_scene import Observation
from bench.roster import NAMES

RESULTS: Final = Path(__file__).parent / "results" / "crash.json"
PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "crash-recovery.md"
BEGIN: Final = "<!-- table: written by `make crash` -->"
END: Final = "<!-- end of the table -->"
HEAD: Final = (
    "| queue | settings | a new worker starts | another worker was there |",
    "|---|---|---|---|",
)


@dataclass(frozen=True)
class Row:
    """One peer set up in one way. `name` and `variant` are those of the command line."""

    name: str
    variant: str
    title: str
    versions: dict[str, str]
    settings: str
    restarted: Observation
    second: Observation


def merge(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """The new rows in place of the old ones of the same peer and variant, by peer, each peer's default first."""
    fresh = {(row.name, row.variant) for row in new}
    rows = [row for row in old if (row.name, row.variant) not in fresh] + list(new)
    return sorted(rows, key=lambda row: (NAMES.index(row.name), row.variant != "default", row.variant))


def load(path: Path = RESULTS) -> list[Row]:
    return msgspec.json.decode(path.read_bytes(), type=list[Row]) if path.exists() else []


def save(rows: Sequence[Row], path: Path = RESULTS) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")


def table(rows: Sequence[Row]) -> str:
    return "\n".join((*HEAD, *map(line, rows)))


def line(row: Row) -> str:
    own, *others = row.versions.items()
    beside = ", ".join(f"{name} {number}" for name, number in others)
    named = f"{row.title} {own[1]} ({beside})" if beside else f"{row.title} {own[1]}"
    return f"| {named} | {row.settings} | {cell(row.restarted)} | {cell(row.second)} |"


def cell(seen: Observation) -> str:
    if seen.outcome == "lost":
        return "**lost**"
    if seen.outcome == "again" and seen.seconds is not None:
        return f"runs again after {seen.seconds:.1f} s" + ("" if seen.finished else ", does not finish")
    return f"not within {seen.limit / 60:g} minutes" if seen.limit >= 60 else f"not within {seen.limit:g} s"


def written(page: str, rows: Sequence[Row]) -> str:
    """The page with this table between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table: expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}"
