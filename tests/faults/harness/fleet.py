"""The worker processes of a run: real `tenure worker` commands, hit by the pid of the worker, not of its parent."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tenure.testing.death_signal import dies_with_parent
from tests.faults.harness import broken
from tests.faults.harness.history import Diary, Event, Op
from tests.support.processes import workers

APP: Final = "tests.faults.harness.jobs:app"
START_S: Final = 30.0
END_S: Final = 10.0
PARENT_S: Final = 60.0
"""How long the command of a killed worker may take to end, on a busy machine."""
LOG_TAIL: Final = 2_000
ENDED: Final = re.compile(r"worker_process_ended slot=\d+ child=(\d+) how=(?:(SIG\w+)|'status (\d+)')")


class Fleet:
    """Workers that are there until the fleet is left, whatever happens. To be used by one thread, the main one.

    with Fleet(4, 4, {"TENURE_URL": url, ...}, folder, diary) as fleet: ...

    `args`: more of the command line. `replace`: whoever is killed or dies is followed by another. `app`: what they run.
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
        app: str = APP,
    ) -> None:
        self._size = size
        self._app = app
        self._slots = slots
        self._environment = broken.environment(**environment)
        self._folder = folder
        self._diary = diary
        self._args = args
        self._replace = replace
        self._live: dict[int, subprocess.Popen[bytes]] = {}
        """Worker process -> its parent, the command."""
        self._parents: list[subprocess.Popen[bytes]] = []
        self._dismissed: list[subprocess.Popen[bytes]] = []
        self._reported: set[int] = set()
        """Processes whose end was written down."""
        self.stopped: set[int] = set()
        self.doomed: set[int] = set()
        """Those that are meant to end by themselves."""
        self.kills = 0
        """How many were killed."""
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
    def parent(self) -> int:
        """The process above the first worker."""
        return next(iter(self._live.values())).pid

    @property
    def starting(self) -> list[int]:
        """Those that have not said yet that they have started."""
        return [pid for pid in self._live if not self._has_started(pid)]

    def start(self, **environment: str) -> int:
        """One more. Answers the pid of the worker."""
        command = [sys.executable, "-P", "-W", "error", "-m", "tenure", "worker", self._app, "-c", str(self._slots)]
        path = self._folder / f"{time.monotonic_ns()}.starting"
        chosen = broken.environment(**{**self._environment, **environment})
        with path.open("wb") as log:
            parent = subprocess.Popen(
                dies_with_parent([*command, *self._args]),
                cwd=broken.ROOT,
                env=chosen,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._parents.append(parent)
        path.rename(self._log(parent))
        until = time.monotonic() + START_S
        while not (found := workers(parent.pid)):
            assert parent.poll() is None, f"a worker has not started:\n{self.trouble()}"
            assert time.monotonic() < until, f"a worker has not started:\n{self.trouble()}"
            time.sleep(0.01)
        self._live |= dict.fromkeys(found, parent)
        return found[0]

    def kill(self, pid: int, family: bool = False) -> None:
        """SIGKILL, and another command in its place. `family`: its parent dies, too, as with a machine; else that one
        is left to see it."""
        parent = self._live.pop(pid)
        self.stopped.discard(pid)
        self._reported.add(pid)
        if family:
            parent.send_signal(signal.SIGSTOP)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        # Its parent may notice before we do, and give its jobs to others.
        killed_ns = time.monotonic_ns()
        if family:
            parent.kill()
        else:
            parent.terminate()
        parent.wait(PARENT_S)
        self._diary.write(Event(Op.KILL, target=pid), killed_ns)
        self.kills += 1
        if self._replace:
            self.start()

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
        parent = self._live[pid]
        self._reported.update(self._forget(parent))
        parent.terminate()
        try:
            status = parent.wait(wait_s)
        except subprocess.TimeoutExpired:
            os.kill(pid, signal.SIGKILL)
            parent.kill()
            status = parent.wait(END_S)
            self._diary.write(Event(Op.KILL, target=pid))
        self.statuses[pid] = status
        return status

    def look_after(self) -> None:
        """Write down which workers have ended by themselves. Parents replace them; a parent is replaced here."""
        for parent in dict.fromkeys(self._live.values()):
            log = self._log(parent).read_text()
            for pid, signal_name, status in ENDED.findall(log):
                self._died(int(pid), -signal.Signals[signal_name] if signal_name else int(status), log)
            if parent in self._dismissed:
                continue
            if parent.poll() is None:
                self._live |= dict.fromkeys(workers(parent.pid), parent)
                continue
            own = self._forget(parent)
            for pid in own:
                self._died(pid, parent.returncode, log)
            if self._replace and self.doomed.isdisjoint(own):
                self.start()

    def _died(self, pid: int, status: int, log: str) -> None:
        if pid in self._reported:
            return
        self._reported.add(pid)
        self.statuses[pid] = status
        parent = self._live.pop(pid, None)
        if pid not in self.doomed:
            self._diary.write(Event(Op.DIED, target=pid, n=status, note=log[-LOG_TAIL:]))
        elif parent is not None:
            self._forget(parent)
            self._dismissed.append(parent)  # it would start the next, which ends in the same way
            parent.terminate()

    def _forget(self, parent: subprocess.Popen[bytes]) -> list[int]:
        """Its workers, which are followed no longer."""
        own = [pid for pid, one in self._live.items() if one is parent]
        for pid in own:
            del self._live[pid]
            self.stopped.discard(pid)
        return own

    def wait_until_started(self) -> None:
        """Until all that run have said so."""
        until = time.monotonic() + START_S
        while waiting := self.starting:
            assert time.monotonic() < until, f"workers {waiting} have not started:\n{self.trouble()}"
            self.look_after()
            time.sleep(0.02)

    def refused(self) -> int:
        """How many outcomes workers say they have brought too late, after their lease was lost."""
        return sum(path.read_text().count(" noticed_by=settle certain=True") for path in self._folder.glob("*.log"))

    def trouble(self) -> str:
        """The end of each worker's log."""
        return "\n".join(f"{path.name}:\n{path.read_text()[-LOG_TAIL:]}" for path in self._folder.glob("*.log"))

    def _has_started(self, pid: int) -> bool:
        log = self._log(self._live[pid]).read_text()
        return re.search(rf"started worker=\S+-{pid}-", log) is not None

    def _log(self, parent: subprocess.Popen[bytes]) -> Path:
        return self._folder / f"worker-{parent.pid}.log"

    def _close(self) -> None:
        for pid in self._live:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for parent in self._parents:
            parent.kill()
        for parent in self._parents:
            parent.wait(END_S)
        self._live.clear()
