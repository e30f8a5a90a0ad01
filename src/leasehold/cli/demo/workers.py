"""The demo's worker processes: started, killed on purpose, stopped, and never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from leasehold.bootstrap import command_of

SLOTS: Final = 4
"""Jobs that each worker runs at one time."""
_STOP_S: Final = 10
_LOG_LINES: Final = 15


class WorkerProcesses:
    """Some `leasehold worker` processes, each with its log in a file.

    with WorkerProcesses(2, folder, environment) as workers:
        workers.kill(workers.pids[0])
    """

    def __init__(self, count: int, folder: Path, environment: dict[str, str]) -> None:
        self._logs = [folder / f"worker-{number}.log" for number in range(1, count + 1)]
        self._environment = {**os.environ, **environment}
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        words = command_of("leasehold", "worker", "leasehold.cli.demo.jobs:app", "-c", str(SLOTS))
        for log in self._logs:
            with log.open("wb") as output:
                # A session of their own: Ctrl-C is for the demo, which then stops them in order.
                self._running.append(
                    subprocess.Popen(  # noqa: S603  (our own command)
                        words,
                        env=self._environment,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for process in self._running:
            if process.poll() is None:
                process.terminate()
        for process in self._running:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running]

    def freeze(self, pid: int) -> None:
        """SIGSTOP: it goes on holding what it holds, for as long as its lease lasts."""
        os.kill(pid, signal.SIGSTOP)

    def thaw(self, pid: int) -> None:
        """SIGCONT: it goes on."""
        os.kill(pid, signal.SIGCONT)

    def kill(self, pid: int) -> None:
        """SIGKILL: no handler runs, and it cannot hand anything back."""
        os.kill(pid, signal.SIGKILL)
        for process in self._running:
            if process.pid == pid:
                process.wait()

    def ended(self) -> list[int]:
        """The pids of those that are not running."""
        return [process.pid for process in self._running if process.poll() is not None]

    def last_words(self) -> str:
        """The ends of the logs, for when something went wrong."""
        ends = []
        for log in self._logs:
            with contextlib.suppress(OSError):
                ends.append("\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]))
        return "\n".join(ends)
