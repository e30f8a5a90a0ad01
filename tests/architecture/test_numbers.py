"""Numbers lie beside their users: core/limits.py has those that two packages share, config.py those of an engine."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from tenure.core import limits
from tenure.engines.kit import config as kit
from tenure.engines.kit.scripts import load
from tenure.engines.native import config as native
from tenure.engines.native.scripts import WORDS
from tenure.engines.redis_work_queue import config as redis_work_queue

SOURCE = Path(limits.__file__).parents[1]
UNITS = {"SECOND", "MINUTE", "HOUR", "DAY"}


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
            elif isinstance(node, ast.ImportFrom) and node.module == "tenure.core.limits":
                for alias in node.names:
                    users[alias.name].add(package)
    for name in names_in_lua(SOURCE / "engines") & users.keys():
        users[name].add("engines")
    return users


def test_the_limits_of_core_are_those_that_two_packages_share() -> None:
    assert [
        f"{name}: {found}" for name, found in packages_using().items() if len(found) < 2 and name not in UNITS
    ] == []


@pytest.mark.parametrize("config", [kit, native, redis_work_queue], ids=lambda module: module.__package__)
def test_each_number_of_an_engine_is_used(config: ModuleType) -> None:
    in_python = " ".join(path.read_text() for path in SOURCE.rglob("*.py"))
    in_lua = names_in_lua(SOURCE / "engines")
    names = [name for name in vars(config) if name.isupper()]
    assert [name for name in names if name not in in_lua and len(re.findall(rf"\b{name}\b", in_python)) < 2] == []


def test_a_name_that_the_engine_does_not_give_is_an_error() -> None:
    words = dict(WORDS)
    assert load("tenure.engines.native", words, ["claim"])["claim"]
    del words["MAX_HELD"]
    scripts = load("tenure.engines.native", words, ["claim"])
    with pytest.raises(LookupError, match=r"\.lua uses @MAX_HELD@"):
        scripts["claim"]
