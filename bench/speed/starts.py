"""How long it takes to start: the package, and the command line's help, beside a Python that does nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.speed.results import Machine, this_machine

TIMES: Final = 15
LIMIT_S: Final = 60.0
COMMANDS: Final = {
    "python": (sys.executable, "-c", "pass"),
    "import redis": (sys.executable, "-c", "import redis"),
    "import tenure": (sys.executable, "-c", "import tenure"),
    "tenure --help": (str(Path(sys.executable).parent / "tenure"), "--help"),
}


@dataclass(frozen=True)
class Starts:
    """Milliseconds of each start, by what was started; `python` is what all of them have in them."""

    machine: Machine
    times: dict[str, tuple[float, ...]]

    def median(self, name: str) -> float:
        return statistics.median(self.times[name])

    def import_ms(self) -> float:
        """What the import adds to a Python that does nothing."""
        return self.median("import tenure") - self.median("python")


def measure(quick: bool = False) -> Starts:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range((TIMES // 3 if quick else TIMES) + 1):
        for name, command in COMMANDS.items():
            took = start_ms(command)
            if number:  # the first compiles what is not compiled, and reads it from the disk
                times[name].append(took)
    return Starts(this_machine(""), {name: tuple(values) for name, values in times.items()})


def start_ms(command: tuple[str, ...]) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=LIMIT_S)
    return (time.perf_counter() - began) * 1e3


def table(found: Starts) -> str:
    base = found.median("python")
    lines = ["| | to a Python that does nothing | median (ms) | lowest to highest |", "|---|---:|---:|---:|"]
    for name, values in found.times.items():
        median = found.median(name)
        lines.append(f"| `{name}` | {median / base:.1f} | {median:.0f} | {min(values):.0f} to {max(values):.0f} |")
    return "\n".join(lines)
