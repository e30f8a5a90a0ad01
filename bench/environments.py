"""A virtual environment for each peer, with exactly the versions that peers/versions.txt names.

    python -m bench.environments [--cache DIR] [NAME ...]     # default: all, under .bench/

An environment is made again when its versions have changed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VERSIONS: Final = Path(__file__).parent / "peers" / "versions.txt"
CACHE: Final = Path(".bench")
INSTALL_TIMEOUT_S: Final = 900.0
_SECTION: Final = re.compile(r"\[([a-z]+)\]")
_PIN: Final = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9._!+-]+")

Pins = tuple[str, ...]


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
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL_TIMEOUT_S)
    # All versions are named, so nothing is left for pip to choose.
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"]
    subprocess.run([*pip, *pins], check=True, timeout=INSTALL_TIMEOUT_S)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def chosen(names: list[str], pins: Mapping[str, Pins]) -> list[str]:
    """These names, or all; an unknown one is refused."""
    unknown = sorted(set(names) - pins.keys())
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}. Known are {', '.join(pins)}.")
    return names or list(pins)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.environments", description=__doc__)
    parser.add_argument("names", nargs="*", help="peers; default: all")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where the environments are (default: .bench)")
    asked = parser.parse_args()
    pins = known_pins()
    for name in chosen(asked.names, pins):
        print(environment_for(name, pins[name], asked.cache))


if __name__ == "__main__":
    main()
