"""Kill the worker of each queue in the middle of a job, and see whether and when the job runs again.

    python -m bench.crash [--only NAME[:VARIANT],...] [--limit SECONDS] [--cache DIR] [--dry]

Peers come one after the other, the two scenes of one side by side. What is run replaces its rows in results/crash.json
and in the table of docs/explanation/crash-recovery.md; --dry only prints.
"""

from __future__ import annotations

import argparse
import fcntl
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from uuid import uuid4

from bench.crash_scene import SCENES, observe
from bench.crash_table import PAGE, Row, cell, load, merge, save, table, written
from bench.environments import CACHE, known_pins
from bench.processes import end_with_all_that_was_started
from bench.roster import NAMES, Adapter, Facts, Variant, adapters

LIMIT_S: Final = 180.0
MAX_LIMIT_S: Final = 7_200.0


def parse_only(text: str) -> list[tuple[str, str | None]]:
    """`rq,celery:late` as [("rq", None), ("celery", "late")]; None: all variants. "" is everything."""
    found: list[tuple[str, str | None]] = []
    for word in filter(None, text.split(",")):
        name, colon, variant = word.partition(":")
        if name not in NAMES:
            raise ValueError(f"no peer {name!r}: expected one of {', '.join(NAMES)}")
        found.append((name, variant if colon else None))
    return found or [(name, None) for name in NAMES]


def variants_of(name: str, facts: Facts, wanted: Sequence[tuple[str, str | None]]) -> list[Variant]:
    """Those of a peer's variants that were asked for. An unknown one is refused."""
    asked = [variant for peer, variant in wanted if peer == name]
    known = {variant.name for variant in facts.variants}
    unknown = sorted({variant for variant in asked if variant is not None} - known)
    if unknown:
        raise ValueError(f"{name} has no variant {', '.join(unknown)}: expected one of {', '.join(sorted(known))}")
    return [variant for variant in facts.variants if None in asked or variant.name in asked]


def run(adapter: Adapter, facts: Facts, variant: Variant, limit: float) -> Row:
    """Both scenes of one peer, side by side: they mostly wait."""
    with ThreadPoolExecutor(len(SCENES)) as pool:
        restarted, second = pool.map(lambda scene: observe(adapter, variant.name, scene, limit), SCENES)
    return Row(adapter.name, variant.name, facts.title, facts.versions, variant.settings, restarted, second)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.crash", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME[:VARIANT],...", help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds to wait for a second run (180)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the environments are (.bench)")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    asked = parser.parse_args()
    if not 0 < asked.limit <= MAX_LIMIT_S:
        parser.error(f"--limit: expected more than 0 and at most {MAX_LIMIT_S:g} seconds")
    try:
        wanted = parse_only(asked.only)
    except ValueError as error:
        parser.error(str(error))
    name_of_run = uuid4().hex
    end_with_all_that_was_started(name_of_run)
    failed = []
    for adapter in adapters([name for name, _ in wanted], known_pins(), asked.cache, name_of_run):
        facts = adapter.facts()
        for variant in variants_of(adapter.name, facts, wanted):
            try:
                row = run(adapter, facts, variant, asked.limit)
            except RuntimeError as error:
                failed.append(f"{adapter.name}:{variant.name}")
                print(f"{adapter.name}:{variant.name} was not observed: {error}", file=sys.stderr)
                continue
            keep(row, dry=asked.dry)
    if failed:
        raise SystemExit(f"not observed: {', '.join(failed)}")


def keep(row: Row, *, dry: bool) -> None:
    """Each row as soon as it is there: a run that is broken off has not been for nothing."""
    print(f"{row.name}:{row.variant}: restarted: {cell(row.restarted)}; second: {cell(row.second)}", flush=True)
    if dry:
        print(table([row]), row.restarted.remains, row.second.remains, sep="\n", flush=True)
        return
    with PAGE.open("r+", encoding="utf-8") as page:
        # Two runs may go on at one time, one of them with a longer limit.
        fcntl.flock(page, fcntl.LOCK_EX)
        rows = merge(load(), [row])
        save(rows)
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
