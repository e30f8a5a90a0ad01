"""Numbers lie beside their users: core/limits.py has what two packages share, the loader of Lua takes a mapping."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from leasehold.core import limits
from leasehold.engines.kit import config as kit
from leasehold.engines.kit.scripts import load
from leasehold.engines.native import config as native
from tests.support.engines import ENTRIES

SOURCE = Path(limits.__file__).parents[1]
UNITS = {"SECOND", "MINUTE", "HOUR", "DAY"}
NUMBERS = {"kit": kit.NUMBERS} | {
    name: entry.numbers
    for entry in ENTRIES
    if (SOURCE / "engines" / (name := entry.name.replace("-", "_")) / "lua").is_dir()
}


def names_in_lua(folder: Path) -> set[str]:
    return {name for path in folder.rglob("*.lua") for name in re.findall(r"@([A-Z_]+)@", path.read_text())}


def packages_using() -> dict[str, set[str]]:
    """The packages and top modules that use each number of core/limits.py."""
    users: dict[str, set[str]] = {name: set() for name in vars(limits) if name.isupper()}
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "limits":
                users[node.attr].add(package)
            elif isinstance(node, ast.ImportFrom) and node.module == "leasehold.core.limits":
                for alias in node.names:
                    users[alias.name].add(package)
    return users


def test_the_limits_of_core_are_those_that_two_packages_share() -> None:
    assert [
        f"{name}: {found}" for name, found in packages_using().items() if len(found) < 2 and name not in UNITS
    ] == []


@pytest.mark.parametrize("engine", NUMBERS)
def test_the_numbers_of_an_engine_are_those_that_its_lua_uses(engine: str) -> None:
    used = names_in_lua(SOURCE / "engines" / engine) - {"CALLS", "LAYOUT"}
    assert set(NUMBERS[engine]) == used | set(kit.NUMBERS)


def test_a_name_that_the_engine_does_not_give_is_an_error() -> None:
    words: dict[str, str | int] = {"CALLS": "call", "LAYOUT": 1, **native.NUMBERS}
    load("leasehold.engines.native", ["claim"], words)
    del words["MAX_HELD"]
    with pytest.raises(LookupError, match=r"claim\.lua uses @MAX_HELD@"):
        load("leasehold.engines.native", ["claim"], words)
