"""Ending the processes that tests start, with what those have started in turn."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

LIMIT_S = 90.0


def children(pid: int) -> list[int]:
    """The processes that this one has started and that are still there."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def workers(parent: int) -> list[int]:
    """The worker processes of a `tenure worker`. To kill a worker is to kill one of these, not their parent."""
    return [pid for pid in children(parent) if b"--parent=" in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def end(process: subprocess.Popen[str]) -> None:
    """Kill a worker and wait for its keeper: it hands back what the worker held, which must not meet the next test."""
    left = children(process.pid)
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
    process.wait()
    until = time.monotonic() + LIMIT_S
    while any(_runs(pid) for pid in left) and time.monotonic() < until:
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    # One that is stopped was stopped by the test, and one that is dead only waits for its parent: neither writes.
    return state not in "ZTt"
