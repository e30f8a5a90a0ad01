"""The last lines of `make test` and `make ci` name the tests that needed a second try."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NONE = ["Second tries: none."]
TWICE = [
    "Second tries: 2. Each is a defect, also where the test passed alone:",
    "  tests/a.py::b[c d]",
    "  tests/a.py::e",
]

# In place of Python: pytest whose first run ends with the status FIRST, and whose second one with SECOND.
PYTEST = f"""#!/bin/sh
case "$*" in
*--collect-only*) exit 0 ;;
*--last-failed*) echo "2 ran again"; exit "$SECOND" ;;
*pytest*)
    for word in "$@"; do
        case "$word" in cache_dir=*) cache="${{word#cache_dir=}}/v/cache" ;; esac
    done
    mkdir -p "$cache"
    [ "$FIRST" -eq 0 ] || printf '{{"tests/a.py::b[c d]": true, "tests/a.py::e": true}}' >"$cache/lastfailed"
    exit "$FIRST" ;;
*) exec {sys.executable} "$@" ;;
esac
"""
# In place of the `make` that runs the parts: the tests end before the site.
PARTS = """#!/bin/sh
sh scripts/test.sh bin || status=$?
echo "The site is in build/site/index.html."
exit "${status:-0}"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("scripts/test.sh", "scripts/second_tries.sh", "Makefile"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, text in (("bin/python", PYTEST), ("parts", PARTS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(checkout: Path, first: int, second: int, *command: str) -> tuple[int, list[str]]:
    """The exit status, and the lines."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    env = own | {"FIRST": str(first), "SECOND": str(second)}
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True)
    assert done.stderr == "" or done.returncode, done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(("first", "second", "status", "last"), [(0, 0, 0, NONE), (1, 0, 0, TWICE), (1, 1, 1, TWICE)])
def test_the_tests_that_ran_twice_are_named_last(
    checkout: Path, first: int, second: int, status: int, last: list[str]
) -> None:
    found, lines = run(checkout, first, second, "sh", "scripts/test.sh", "bin")
    assert found == status
    assert lines[-len(last) :] == last
    found, lines = run(checkout, first, second, "make", "ci", "MAKE=./parts")
    assert (found != 0) == (status != 0)
    assert lines[-len(last) :] == last
    assert "The site is in build/site/index.html." in lines


def test_a_run_that_did_not_end_names_none(checkout: Path) -> None:
    """Neither those of the run before it."""
    run(checkout, 1, 0, "sh", "scripts/test.sh", "bin")
    found, lines = run(checkout, 2, 0, "sh", "scripts/test.sh", "bin")
    assert (found, lines) == (2, [])
