"""The import contracts in pyproject.toml hold, name every module, and there is no circle of imports."""

import os
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tenure"
EXHAUSTIVE = {
    "layers": SOURCE,
    "protocols": SOURCE / "protocols",
    "runtime": SOURCE / "runtime",
    "engines": SOURCE / "engines",
    "kit": SOURCE / "engines" / "kit",
}


def contract(name: str) -> dict:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return next(c for c in settings["contracts"] if c["id"] == name)


def modules(folder: Path) -> set[str]:
    """The modules and packages that lie directly in a folder."""
    plain = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return plain | {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("name", EXHAUSTIVE)
def test_every_module_has_a_layer(name):
    layers = contract(name)["layers"]
    named = [word for layer in layers for word in re.findall(r"\w+", layer)]
    assert modules(EXHAUSTIVE[name]) - set(named) == set(), f"name the new module in the `{name}` contract"
    assert len(named) == len(set(named)), "a module has one layer"
    assert not [layer for layer in layers if ":" in layer], "modules of one layer do not know each other"


def test_there_is_no_circle_of_imports():
    graph = grimp.build_graph("tenure", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError with the modules of a circle; imports for types count


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_contracts_hold():
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    linter = [sys.executable, "-c", code, "--no-logo", "--no-cache"]
    environment = os.environ | {"NO_COLOR": "1"}
    run = subprocess.run(linter, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
