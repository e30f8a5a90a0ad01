"""What Linux says of processes: their processor time and their memory."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
PROC: Final = Path("/proc")


def cpu_s(pids: Iterable[int], proc: Path = PROC) -> float:
    """Processor time so far, threads that ended included, in steps of 10 ms a process."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # The name of the program, in brackets, may hold blanks.
            words = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            total += (int(words[11]) + int(words[12])) * TICK_S
    return total


def threads_ns(pids: Iterable[int], proc: Path = PROC) -> dict[int, int]:
    """Processor time of each thread there is, to the nanosecond: for processes that do next to nothing."""
    found = {}
    for pid in pids:
        for path in (proc / str(pid) / "task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                found[int(path.parent.name)] = int(path.read_text().split()[0])
    return found


def spent_s(before: Mapping[int, int], after: Mapping[int, int]) -> float:
    """What threads spent between two readings; of those that ended in between nothing is known."""
    return sum(ns - before.get(thread, 0) for thread, ns in after.items()) / 1e9


def resident_mb(pid: int, proc: Path = PROC) -> float:
    """Resident memory of a process, shared pages included; 0 when it has ended."""
    return _kb(proc / str(pid) / "status", "VmRSS") / 1024


def proportional_mb(pid: int, proc: Path = PROC) -> float:
    """Resident memory, each shared page counted as one part of as many as share it."""
    return _kb(proc / str(pid) / "smaps_rollup", "Pss") / 1024


def _kb(path: Path, field: str) -> int:
    with contextlib.suppress(OSError):
        found = re.search(rf"^{field}:\s+(\d+) kB", path.read_text(), re.MULTILINE)
        if found:
            return int(found[1])
    return 0
