"""Puts each mutant into the scripts, alone, and asks which test notices it. `make mutants` runs it.

    python -m tests.support.mutation [NAME ...]

A mutant has a test that noticed it before, see NOTICED: that one runs first. When it passes, the suites run up to the
first test that fails, and its name is kept. Exit status 1 when no test notices a mutant.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tenure.core.text import cut
from tests.support.mutants import MUTANTS, SUBJECTS, Mutant

ROOT: Final = Path(__file__).parents[2]
NOTICED: Final = Path(__file__).with_name("noticed.tsv")
"""A line for each mutant that was tried: its name, a tab, the test that noticed it, if one did."""
SUITES: Final = ("tests/conformance", "tests/wire/native", "tests/property")
CRASHES: Final = "tests/faults/test_crash_matrix.py"
"""Every call of every operation is killed and repeated. It comes after the files that most likely notice a mutant."""
OTHER_ENGINES: Final = "not hworker and not worqr and not queue-farm and not redis-work-queue and not sixth"
FIRST: Final = {
    "Leases, answers, deaths": ("lease", "settle", "enqueue", "suspects", "giving_back", "full", "at_most_once"),
    "Lanes": ("lane", "groups"),
    "Priorities and settings of a queue": ("priorities", "queue_settings", "hold", "quiet"),
    "Unique keys and deadlines": ("unique", "debounce", "expires", "rerun"),
    "Cancelling, progress, persistent jobs": ("cancel", "progress", "persistent", "reschedule", "control"),
    "Schedules": ("schedule", "ticks"),
    "Limits": ("limits",),
    "Moves between servers and formats": ("transfer", "passing"),
    "Flows": ("flows", "follow", "of_jobs", "walk"),
}
"""Words in the names of the files that most likely notice a mutant of a subject."""
EXAMPLES: Final = "80"
"""Random histories for each mutant, more than `make test` plays."""
LIMIT_S: Final = 1_800
PAGE: Final = ROOT / "docs" / "explanation" / "mutants.md"
MARK: Final = "<!-- tables: written by make docs -->"
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


def noticed() -> dict[str, str]:
    """The test that noticed each mutant, as far as it is known."""
    return dict(line.split("\t") for line in NOTICED.read_text().splitlines())


def main(names: Sequence[str]) -> int:
    """Try the mutants of these names, or all."""
    known = noticed()
    chosen = [name for name in (mutant.name for mutant in MUTANTS) if name in names or not names]
    unnoticed = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, test in zip(chosen, pool.map(lambda name: _test_of(name, known.get(name)), chosen), strict=True):
            print(f"{name:32} {test or 'NOT NOTICED'}", flush=True)
            known[name] = test or ""
            unnoticed += [] if test else [name]
            NOTICED.write_text("".join(f"{one.name}\t{known[one.name]}\n" for one in MUTANTS if one.name in known))
    print(f"{len(chosen) - len(unnoticed)} of {len(chosen)} were noticed. {' '.join(unnoticed)}".rstrip())
    return 1 if unnoticed else 0


def page() -> str:
    """The page of all mutants, which `make docs` writes below its mark."""
    known = noticed()
    parts = [PAGE.read_text().partition(MARK)[0] + MARK]
    tried = [known[one.name] for one in MUTANTS if one.name in known]
    parts.append(
        f"{len(MUTANTS)} mutants: {sum(map(bool, tried))} are noticed, {tried.count('')} are not, "
        f"{len(MUTANTS) - len(tried)} have not been tried since the list of tests is kept."
    )
    for subject, mutants in SUBJECTS.items():
        rows = ["| mutant | scripts | instead of | stands | noticed by |", "|---|---|---|---|---|"]
        rows += [_row(one, known.get(one.name)) for one in mutants]
        parts += [f"## {subject}", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _row(mutant: Mutant, test: str | None) -> str:
    where = ", ".join(sorted(mutant.texts())) if mutant.scripts else "all that have it"
    file, _, name = (test or "").partition("::")
    by = f"`{name.partition('[')[0]}`, {Path(file).name}" if test else "none" if test == "" else "not tried"
    return f"| {' | '.join((_code(mutant.name), where, _code(mutant.old), _code(mutant.new), by))} |"


def _code(text: str) -> str:
    words = " ".join(text.split())
    shown = cut(words, 60).replace("|", "\\|")
    return f"`{shown}`" if words else "nothing"


def _test_of(name: str, before: str | None) -> str | None:
    """Return a test that fails with this mutant."""
    words = next(FIRST[subject] for subject, mutants in SUBJECTS.items() if name in [one.name for one in mutants])
    files = sorted(str(path.relative_to(ROOT)) for suite in SUITES for path in ROOT.glob(f"{suite}/**/test_*.py"))
    likely = [path for path in files if any(word in Path(path).name for word in words)]
    for tests in ([before] if before else [], [*likely, CRASHES], [path for path in files if path not in likely]):
        if tests and (found := _first_failure(name, tests)):
            return found
    return None


def _first_failure(name: str, tests: Sequence[str]) -> str | None:
    # Without the plugins that these runs do not need. A fixed order: the cheap tests of a file come first.
    plugins = ("cacheprovider", "randomly", "xdist", "hypothesispytest")
    without = [word for plugin in plugins for word in ("-p", f"no:{plugin}")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", *without, "-k", OTHER_ENGINES, *tests]
    environment = {"TENURE_EXAMPLES": EXAMPLES, **os.environ, "TENURE_MUTANT": name}
    try:
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    if run.returncode not in (0, 1, 4, 5):  # 4: the test of before is gone; 5: all tests were left out
        raise RuntimeError(run.stdout + run.stderr)
    found = _FAILED.search(run.stdout)
    return found[1] if found else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
