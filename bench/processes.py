"""A peer's worker, with all that it starts: it has a name of its own, is killed whole, never left behind. Linux only.

What belongs to a worker is known by a variable in its environment that every child inherits, also one that left the
process group (RQ's work horses do). So nothing is killed that was not started here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self
from uuid import uuid4

from bench.roster import PEERS, Adapter

VANISH_S: Final = 10.0
ROUNDS: Final = 20
_LOG_LINES: Final = 15


class Workers:
    """The workers of one run.

    with Workers(adapter, environment, folder) as workers:
        name = workers.start()
        workers.kill(name)
    """

    def __init__(self, adapter: Adapter, environment: Mapping[str, str], folder: Path) -> None:
        self._adapter = adapter
        self._environment = environment
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for name in list(self._running):
            self.kill(name)

    def start(self) -> str:
        """Start one; its name."""
        name = f"w{uuid4().hex}"
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                self._adapter.command("worker"),
                env={**self._environment, "BENCH_WORKER": name},
                cwd=PEERS,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return name

    def ended(self) -> list[str]:
        """Those that have ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def kill(self, name: str) -> None:
        """SIGKILL to all of it, as when its container goes. Frozen first, so that nothing is started anew."""
        process = self._running.pop(name)
        kill_members(name)
        # It may not have come as far as having its environment.
        process.kill()
        process.wait()
        until = time.monotonic() + VANISH_S
        while left := list(members_of(name)):
            signal_all(set(left), signal.SIGKILL)
            assert time.monotonic() < until, f"processes of a killed worker are still there: {left}"
            time.sleep(0.01)

    def last_words(self) -> str:
        """The ends of the logs, for when something went wrong."""
        logs = sorted(self._folder.glob("w*.log"))
        return "\n".join("\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]) for log in logs)


def kill_members(value: str, variable: str = "BENCH_WORKER") -> None:
    """Freeze all members, those that are just being started too, then kill them."""
    for _ in range(ROUNDS):
        members = set(members_of(value, variable))
        signal_all(members, signal.SIGSTOP)
        if set(members_of(value, variable)) <= members:
            break
    signal_all(set(members_of(value, variable)), signal.SIGKILL)


def members_of(value: str, variable: str = "BENCH_WORKER") -> Iterator[int]:
    """The processes whose environment has this value: they belong to one worker, or to one run (`BENCH_RUN`)."""
    wanted = f"{variable}={value}".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            # It may have ended meanwhile, or be somebody else's.
            with contextlib.suppress(OSError):
                if wanted in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    yield int(entry)


def signal_all(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


_FOLDERS: Final[set[str]] = set()
"""Of the scenes that are being played: nobody else knows them when the run is ended."""


@contextlib.contextmanager
def folder_of_a_scene() -> Iterator[Path]:
    """A folder that is removed with its scene, however that ends."""
    with tempfile.TemporaryDirectory(prefix=f"bench-{uuid4().hex[:4]}-") as name:
        _FOLDERS.add(name)
        try:
            yield Path(name)
        finally:
            _FOLDERS.discard(name)


def end_with_all_that_was_started(name_of_run: str) -> None:
    """On Ctrl-C and SIGTERM: workers have sessions of their own, and the scenes wait in threads."""

    def end(number: int, frame: FrameType | None) -> None:
        kill_members(name_of_run, "BENCH_RUN")
        for name in list(_FOLDERS):
            shutil.rmtree(name, ignore_errors=True)
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
