"""The picture of the code in docs/explanation/architecture.md names every module, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/architecture.md").read_text()
PACKAGES = [
    "core",
    "app",
    "manage",
    "outbox",
    "client",
    "protocols",
    "processes",
    "runtime",
    "jobs",
    "handlers",
    "isolation",
    "observe",
]
PACKAGES += ["encoding", "schedules", "kit", "redis"]


def named_in(package: str) -> set[str]:
    """The words of the package's entry: up to the next entry, or to a description after three spaces."""
    entry = re.search(rf"^ +{package}/ +(.*\n(?: {{16}}.*\n)*)", PAGE, re.MULTILINE)
    assert entry is not None
    lines = [re.split(" {3,}", line.strip())[0] for line in entry[1].splitlines()]
    return set(re.findall(r"\b[a-z_]+\b(?!/)", " ".join(lines)))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_picture_names_the_modules_of_a_package(package: str) -> None:
    (folder,) = (path for path in (ROOT / "src/tenure").rglob(package) if (path / "__init__.py").exists())
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert named_in(package) - {"lua"} == modules
