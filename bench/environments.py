"""A virtual environment for each peer, with exactly the versions that peers/versions.txt names.

    python -m bench.environments [--cache DIR] [NAME ...]     # default: all, under .bench/

An environment is made again when its versions have changed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VERSIONS: Final = Path(__file__).parent / "peers" / "versions.txt"
CACHE: Final = Path(".bench")
NODE: Final = frozenset({"bullmq"})
"""Those whose packages are npm's."""
INSTALL_TIMEOUT_S: Final = 900.0
_SECTION: Final = re.compile(r"\[([a-z]+)\]")
_PIN: Final = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9._!+-]+")

Pins = tuple[str, ...]


class Unavailable(Exception):
    """What a peer needs is not on this machine: it is left out, and the reason is shown."""


def read_pins(text: str) -> dict[str, Pins]:
    """The versions of each peer: `[name]` on a line, then one `package==version` a line. `#` begins a comment."""
    found: dict[str, list[str]] = {}
    section: list[str] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#")[0].strip()
        heading = _SECTION.fullmatch(line)
        if heading:
            if heading[1] in found:
                raise ValueError(f"line {number}: a second [{heading[1]}]; put its versions into the first")
            section = found.setdefault(heading[1], [])
        elif line:
            if section is None or not _PIN.fullmatch(line):
                raise ValueError(f"line {number}: expected package==version below a [name], found {line!r}")
            section.append(line)
    return {name: tuple(pins) for name, pins in found.items()}


def known_pins() -> dict[str, Pins]:
    return read_pins(VERSIONS.read_text(encoding="utf-8"))


def environment_for(name: str, pins: Pins, cache: Path) -> Path:
    """The Python of a peer's environment, which is made when it is missing or has other versions."""
    folder = (cache / name).resolve()
    python, stamp = folder / "bin" / "python", folder / ".versions"
    wanted = "\n".join((sys.version, *pins))
    if python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"making the environment of {name} ...", file=sys.stderr)
    try:
        _install(folder, pins)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise Unavailable("its packages could not be installed with pip") from error
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _install(folder: Path, pins: Pins) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL_TIMEOUT_S)
    # All versions are named, so nothing is left for pip to choose.
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-input", "--no-deps", *pins], check=True, timeout=INSTALL_TIMEOUT_S)


def packages_for(name: str, pins: Pins, cache: Path) -> Path:
    """The folder of a peer's packages for Node, which are installed when they are missing or have other versions."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("Node is not here (node and npm)")
    folder = (cache / name).resolve()
    packages, stamp = folder / "node_modules", folder / ".versions"
    version = subprocess.run([node, "--version"], check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    wanted = "\n".join((version.stdout.strip(), *pins))
    if packages.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return packages
    print(f"making the environment of {name} ...", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", str(folder)]
    done = subprocess.run(
        [*install, *(pin.replace("==", "@") for pin in pins)],
        cwd=folder,
        capture_output=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable("its packages could not be installed from npm")
    stamp.write_text(wanted, encoding="utf-8")
    return packages


def chosen(names: list[str], pins: Mapping[str, Pins]) -> list[str]:
    """These names, or all; an unknown one is refused."""
    unknown = sorted(set(names) - pins.keys())
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}. Known are {', '.join(pins)}.")
    return names or list(pins)


def made(name: str, pins: Pins, cache: Path) -> Path:
    return packages_for(name, pins, cache) if name in NODE else environment_for(name, pins, cache)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.environments", description=__doc__)
    parser.add_argument("names", nargs="*", help="peers; default: all")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the environments are (default: .bench)")
    asked = parser.parse_args()
    pins = known_pins()
    for name in chosen(asked.names, pins):
        print(made(name, pins[name], asked.cache))


if __name__ == "__main__":
    main()
