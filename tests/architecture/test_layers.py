"""The import contracts in pyproject.toml hold, and nothing of leasehold stands outside of them."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "leasehold"


def contract(name: str) -> dict:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return next(c for c in settings["contracts"] if c["id"] == name)


def modules(folder: Path) -> set[str]:
    """The modules and packages that lie directly in a folder."""
    plain = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return plain | {path.parent.name for path in folder.glob("*/__init__.py")}


def test_every_module_stands_on_a_storey():
    named = [word for layer in contract("storeys")["layers"] for word in re.findall(r"\w+", layer)]
    assert modules(SOURCE) - set(named) == set(), "name the new module in the `storeys` contract of pyproject.toml"
    assert len(named) == len(set(named)), "a module stands on one storey"


def test_every_engine_is_in_the_independence_contract():
    engines = {f"leasehold.engines.{path.parent.name}" for path in SOURCE.glob("engines/*/__init__.py")}
    assert engines == set(contract("engines")["modules"])


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_contracts_hold():
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    linter = [sys.executable, "-c", code, "--no-logo", "--no-cache"]
    environment = os.environ | {"NO_COLOR": "1"}
    run = subprocess.run(linter, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
