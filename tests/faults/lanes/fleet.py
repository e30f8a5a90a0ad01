"""The worker processes of a run: real `leasehold worker` commands, hit by their pid and replaced at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from leasehold.redis.tether import tethered
from tests.faults.lanes.history import Diary, Event, Op

ROOT: Final = Path(__file__).parents[3]
APP: Final = "tests.faults.lanes.jobs:app"
START_S: Final = 30.0
END_S: Final = 10.0
LOG_HEAD: Final = 8_000
LOG_TAIL: Final = 2_000


class Fleet:
    """Workers that are there until the fleet is left, whatever happens. To be used by one thread, the main one.

    with Fleet(4, 4, {"LEASEHOLD_URL": url, ...}, folder, diary) as fleet: ...
    """

    def __init__(self, size: int, slots: int, environment: dict[str, str], folder: Path, diary: Diary) -> None:
        self._size = size
        self._slots = slots
        self._environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **environment}
        self._folder = folder
        self._diary = diary
        self._live: dict[int, subprocess.Popen[bytes]] = {}
        self.stopped: set[int] = set()

    def __enter__(self) -> Self:
        try:
            for _ in range(self._size):
                self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close()

    @property
    def running(self) -> list[int]:
        """Those that are neither killed nor stopped."""
        return [pid for pid in self._live if pid not in self.stopped]

    @property
    def starting(self) -> list[int]:
        """Those that have not said yet that they have started."""
        return [pid for pid in self._live if not self._has_started(pid)]

    def kill(self, pid: int) -> None:
        """SIGKILL, and another one in its place."""
        process = self._live.pop(pid)
        self.stopped.discard(pid)
        process.kill()
        process.wait(END_S)
        # Written when it is dead for sure: nothing of it can be later.
        self._diary.write(Event(Op.KILL, target=pid))
        self._start()

    def stop(self, pid: int) -> None:
        """SIGSTOP: it hangs, and does not know it."""
        self._diary.write(Event(Op.STOP, target=pid))
        os.kill(pid, signal.SIGSTOP)
        self.stopped.add(pid)

    def let_go_on(self, pid: int) -> None:
        """SIGCONT: it is a zombie now, if its jobs were taken over."""
        os.kill(pid, signal.SIGCONT)
        self._diary.write(Event(Op.CONT, target=pid))
        self.stopped.discard(pid)

    def look_after(self) -> None:
        """Write down who has ended by itself, and replace it."""
        for pid, process in list(self._live.items()):
            if process.poll() is not None:
                del self._live[pid]
                self.stopped.discard(pid)
                self._diary.write(Event(Op.DIED, target=pid, n=process.returncode))
                self._start()

    def wait_until_started(self) -> None:
        """Until all that run have said so."""
        until = time.monotonic() + START_S
        while waiting := self.starting:
            assert time.monotonic() < until, f"workers {waiting} have not started:\n{self.trouble()}"
            self.look_after()
            time.sleep(0.02)

    def refused(self) -> int:
        """How many outcomes workers say they have brought too late, after their lease was lost."""
        return sum(path.read_text().count(" at=settle") for path in self._folder.glob("*.log"))

    def trouble(self) -> str:
        """The end of each worker's log."""
        return "\n".join(f"{path.name}:\n{path.read_text()[-LOG_TAIL:]}" for path in self._folder.glob("*.log"))

    def _start(self) -> None:
        command = [sys.executable, "-P", "-W", "error", "-m", "leasehold", "worker", APP, "-c", str(self._slots)]
        path = self._folder / f"{time.monotonic_ns()}.starting"
        with path.open("wb") as log:
            process = subprocess.Popen(
                tethered(command), cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._live[process.pid] = process
        path.rename(self._log(process.pid))

    def _has_started(self, pid: int) -> bool:
        with self._log(pid).open("rb") as log:
            return b" started " in log.read(LOG_HEAD)

    def _log(self, pid: int) -> Path:
        return self._folder / f"worker-{pid}.log"

    def _close(self) -> None:
        for process in self._live.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self._live.values():
            process.wait(END_S)
        self._live.clear()
