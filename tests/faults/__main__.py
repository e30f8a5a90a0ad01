"""The fault suite: `python -m tests.faults --seed 7 --jobs 2000 --only S01,S06`. `make faults` runs it."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tenure.testing.server import available_binaries
from tests.faults import scoreboard
from tests.faults.catalogue import LANES, POINTERS, SCENARIOS
from tests.faults.harness import broken
from tests.faults.harness.scenario import Result, play, point
from tests.faults.harness.verdict import Report, Rule, Score, Violation
from tests.faults.lanes.scenario import play_lanes
from tests.faults.mixed.scenario import MIXED, play_mixed

SHOWN = 10


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument(
        "--jobs", type=int, help="jobs of each scenario, or those of its short form if they are more: the default"
    )
    parser.add_argument("--only", help="S01,S06,... [default: all but those that other tests play]")
    parser.add_argument("--history", type=Path, help="an empty folder in which the histories are kept")
    parser.add_argument("--write", type=Path, help="write the scoreboard into this page, between its marks")
    asked = parser.parse_args()
    # As after Ctrl-C: what was started ends with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    broken.apply()
    known = sorted([*SCENARIOS, *POINTERS, LANES, *MIXED])
    names = asked.only.split(",") if asked.only else [name for name in known if name not in POINTERS]
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"--only: there is no {', '.join(unknown)}; there are {', '.join(known)}")
    for pointer in POINTERS.values() if not asked.only else ():
        print(f"{pointer.name}  is played by {' '.join(pointer.tests)}", flush=True)
    results = []
    base = asked.history or Path(tempfile.mkdtemp(prefix="tenure-"))
    for name in names:
        if name in SCENARIOS and (missing := SCENARIOS[name].missing()):
            print(f"{name}  not played: it needs {missing}", flush=True)
            continue
        results.append(_finished(name, asked.seed, asked.jobs, base / name))
        print(scoreboard.line(results[-1]), flush=True)
        for one in results[-1].report.violations[:SHOWN]:
            print(f"    ! {one}", flush=True)
    print(scoreboard.total(results))
    if asked.write is not None:
        scoreboard.write(results, asked.write)
    good = all(result.ok for result in results)
    if asked.history is None and good:
        shutil.rmtree(base, ignore_errors=True)
    else:
        print(f"The histories are in {base}.")
    return 0 if good else 1


def _finished(name: str, seed: int, jobs: int | None, folder: Path) -> Result:
    """Play it, whatever becomes of it: the others are played, too."""
    began = time.monotonic()
    try:
        return _run(name, seed, jobs, folder)
    except Exception:
        wrong = Violation(Rule.EXPECTED, traceback.format_exc())
        return Result(name, seed, time.monotonic() - began, Report(Score(), (wrong,)))


def _run(name: str, seed: int, jobs: int | None, folder: Path) -> Result:
    folder.mkdir(parents=True)
    if name == LANES:
        return play_lanes(seed, jobs, folder)
    if name in POINTERS:
        return point(POINTERS[name])
    binary = os.environ.get("FAULTS_SERVER") or list(available_binaries().values())[-1]
    if name in MIXED:
        return play_mixed(name, seed, jobs, folder, binary)
    return play(SCENARIOS[name], seed, jobs, folder, binary)


if __name__ == "__main__":
    sys.exit(main())
