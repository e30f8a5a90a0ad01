"""What the histories showed: kept as JSON, shown as tables on a page."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from bench.history import Verdict
from bench.roster import Facts

RESULTS: Final = Path(__file__).parent / "results" / "histories.json"
PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "proof.md"
BEGIN: Final = "<!-- tables: written by `make histories` -->"
END: Final = "<!-- end of the tables -->"
NAMES: Final = (
    "tenure",
    "rq",
    "saq",
    "arq",
    "dramatiq",
    "huey",
    "celery",
    "taskiq",
    "streaq",
    "docket",
    "bullmqpy",
)
FAULTS: Final = {
    "kill": "Workers are killed (SIGKILL), and started again at once",
    "stop": "Workers stand still for 45 s (SIGSTOP), while others work",
    "cut": "Redis closes all connections",
    "everysec": "Redis is killed and started again, with `appendfsync everysec`",
    "always": "Redis is killed and started again, with `appendfsync always`",
    "memory": "Redis refuses writes for 3 s: its memory is full",
}
HEAD: Final = (
    "| queue | faults | jobs | lost | waiting | run again | ended twice | overlapped | worst wait |",
    "|---|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Row:
    """One peer under one fault, which came so often. `limit`: how long was waited for the jobs after the faults."""

    name: str
    fault: str
    seed: int
    came: int
    limit: float
    date: str
    verdict: Verdict
    title: str = ""
    versions: dict[str, str] | None = None
    settings: str = ""


def keep(row: Row, facts: Facts, settings: str, *, dry: bool) -> None:
    """Each row as soon as it is there: a run that is broken off has not been for nothing."""
    row = replace(row, title=facts.title, versions=facts.versions, settings=settings)
    print(f"{row.fault}: {line(row)}", flush=True)
    if not dry:
        with PAGE.open("r+", encoding="utf-8") as page:
            fcntl.flock(page, fcntl.LOCK_EX)  # two runs may go on at one time
            rows = merge(load(), row)
            RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
            PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


def load() -> list[Row]:
    return msgspec.json.decode(RESULTS.read_bytes(), type=list[Row]) if RESULTS.exists() else []


def merge(rows: Sequence[Row], new: Row) -> list[Row]:
    """The new row in place of the one of the same peer and fault, in the order of the tables."""
    others = [row for row in rows if (row.name, row.fault) != (new.name, new.fault)]
    return sorted([*others, new], key=lambda row: (list(FAULTS).index(row.fault), NAMES.index(row.name)))


def written(page: str, rows: Sequence[Row]) -> str:
    """The page with these tables, and what the peers were set to."""
    before, _, rest = page.partition(BEGIN)
    parts = []
    for fault, title in FAULTS.items():
        if lines := [line(row) for row in rows if row.fault == fault]:
            parts.append(f"### {title}\n\n" + "\n".join([*HEAD, *lines]))
    if settings := {f"{_title(row)}: {row.settings}" for row in rows}:
        parts.append(f"Settings. {'; '.join(sorted(settings))}.")
    return f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{rest.partition(END)[2]}"


def line(row: Row) -> str:
    one = row.verdict
    lost = f"**{one.lost}**" if one.lost else "0"
    jobs = f"{one.put:,}" + (f" (+{one.unknown})" if one.unknown else "")
    wait = {"kill": one.back_s, "stop": None}.get(row.fault, one.silent_s)
    shown = "" if wait is None else f"{wait:.1f} s"
    cells = (_title(row), row.came, jobs, lost, one.waiting, one.again, one.doubled, one.overlapped, shown)
    return f"| {' | '.join(map(str, cells))} |"


def _title(row: Row) -> str:
    version = next(iter((row.versions or {}).values()), "")
    return f"{row.title} {version}".strip()
