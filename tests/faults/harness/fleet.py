"""The worker processes of a run: real `leasehold worker` commands, hit by their pid and replaced at once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from leasehold.testing.death_signal import dies_with_parent
from tests.faults.harness import broken
from tests.faults.harness.history import Diary, Event, Op

APP: Final = "tests.faults.harness.jobs:app"
START_S: Final = 30.0
END_S: Final = 10.0
LOG_HEAD: Final = 8_000
LOG_TAIL: Final = 2_000


class Fleet:
    """Workers that are there until the fleet is left, whatever happens. To be used by one thread, the main one.

    with Fleet(4, 4, {"LEASEHOLD_URL": url, ...}, folder, diary) as fleet: ...

    `args`: more of the command line. `replace`: whoever is killed or dies is followed by another.
    """

    def __init__(
        self,
        size: int,
        slots: int,
        environment: Mapping[str, str],
        folder: Path,
        diary: Diary,
        *,
        args: Sequence[str] = (),
        replace: bool = True,
    ) -> None:
        self._size = size
        self._slots = slots
        self._environment = broken.environment(**environment)
        self._folder = folder
        self._diary = diary
        self._args = args
        self._replace = replace
        self._live: dict[int, subprocess.Popen[bytes]] = {}
        self.stopped: set[int] = set()
        self.doomed: set[int] = set()
        """Those that are meant to end by themselves."""
        self.statuses: dict[int, int] = {}
        """How those that were told to end, or ended by themselves, have ended."""

    def __enter__(self) -> Self:
        try:
            for _ in range(self._size):
                self.start()
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

    def start(self, **environment: str) -> int:
        """One more. Answers its pid."""
        command = [sys.executable, "-P", "-W", "error", "-m", "leasehold", "worker", APP, "-c", str(self._slots)]
        path = self._folder / f"{time.monotonic_ns()}.starting"
        chosen = broken.environment(**{**self._environment, **environment})
        with path.open("wb") as log:
            process = subprocess.Popen(
                dies_with_parent([*command, *self._args]),
                cwd=broken.ROOT,
                env=chosen,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._live[process.pid] = process
        path.rename(self._log(process.pid))
        return process.pid

    def kill(self, pid: int, family: bool = False) -> None:
        """SIGKILL, and another one in its place. `family`: the process that keeps its leases dies, too, as with a
        machine; else that one is left to see it."""
        process = self._live.pop(pid)
        self.stopped.discard(pid)
        children = _children(pid) if family else []
        for child in children:
            os.kill(child, signal.SIGSTOP)
        process.kill()
        # Its keeper may notice before we do, and give its jobs to others.
        killed_ns = time.monotonic_ns()
        for child in children:
            os.kill(child, signal.SIGKILL)
        process.wait(END_S)
        self._diary.write(Event(Op.KILL, target=pid), killed_ns)
        self._follow()

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

    def tell_to_end(self, pid: int, wait_s: float | None = END_S) -> int:
        """SIGTERM; its exit status. Whoever has not ended after `wait_s` is killed, as orchestrators do it."""
        process = self._live.pop(pid)
        process.terminate()
        try:
            status = process.wait(wait_s)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait(END_S)
            self._diary.write(Event(Op.KILL, target=pid))
        self.statuses[pid] = status
        return status

    def look_after(self) -> None:
        """Write down who has ended by itself, and replace it."""
        for pid, process in list(self._live.items()):
            if process.poll() is not None:
                del self._live[pid]
                self.stopped.discard(pid)
                self.statuses[pid] = process.returncode
                if pid in self.doomed:
                    continue
                last = self._log(pid).read_text()[-LOG_TAIL:]
                self._diary.write(Event(Op.DIED, target=pid, n=process.returncode, note=last))
                self._follow()

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

    def _follow(self) -> None:
        if self._replace:
            self.start()

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


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]
