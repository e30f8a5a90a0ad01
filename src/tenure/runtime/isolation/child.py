"""One job process as its worker sees it: started, given jobs, read from, killed with every process that it started.

It leads a session and a process group. The worker kills the group before it reaps the leader: afterwards the system
may give the leader's pid to another process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from tenure.core import limits
from tenure.core.backoff import Backoff
from tenure.core.text import cut, how_it_ended
from tenure.runtime.isolation.messages import ANSWERS, Answer, BadMessage, Order, RunJob, Setup, Unpacker, pack
from tenure.runtime.jobs.held import Held
from tenure.runtime.jobs.members import MAX_FOLLOW_BYTES
from tenure.runtime.jobs.overrun import WATCH_MS

PROCESS_KILL_MS: Final = 5 * limits.SECOND
"""The worker gives up a job process that has not ended for this long after SIGKILL."""
PROCESS_ANSWER_MAX: Final = 2 * (limits.MAX_RESULT + MAX_FOLLOW_BYTES)
"""Bytes of one message from a job process."""

_START_BACKOFF: Final = Backoff(base=0.25, cap=5.0, jitter=False)
_CHUNK: Final = 1 << 18
_LAST_READS: Final = 64
"""Reads after the process has ended. Its socket buffer holds less than that."""


class ProcessLimits(Struct, frozen=True):
    """Numbers of the job processes of one worker.

    jobs         jobs that a process runs before a new one replaces it
    idle_ms      an idle process ends after this time
    start_ms     how long a process may take to load the app
    starting     processes that start at the same time: each takes a core until it has loaded the app
    starts       after this many failed starts in a row, jobs for processes are parked until a start succeeds
    backoff      the pause after a failed start
    probe_ms     the pause after a failed start while jobs are parked
    cancel_ms    a process is killed if its handler has not ended this long after it was cancelled
    extensions   `extend` calls that a process may have under way
    """

    jobs: int = 1_000
    idle_ms: int = 5 * limits.MINUTE
    start_ms: int = limits.MINUTE
    starting: int = 4
    starts: int = 7
    backoff: Backoff = _START_BACKOFF
    probe_ms: int = 30 * limits.SECOND
    cancel_ms: int = 5 * limits.SECOND
    extensions: int = 1_000


class Launch(Struct, frozen=True):
    """How to start a job process: the command line for the file descriptor of its socket, and the environment.

    Launch(lambda descriptor: [sys.executable, "-m", "jobs", str(descriptor)], os.environ)
    """

    command: Callable[[int], Sequence[str]]
    environment: Mapping[str, str]
    limits: ProcessLimits = field(default_factory=ProcessLimits)


class JobProcess:
    """See the module. `received` gets every message, `ended` is called once and last; both on the loop.

    Raises `OSError` when the system cannot start a process.
    """

    def __init__(
        self, launch: Launch, received: Callable[[JobProcess, Answer], None], ended: Callable[[JobProcess], None]
    ) -> None:
        self.run: Held | None = None
        """The job that it runs."""
        self.jobs = 0
        """Jobs that it was given so far; also the number of the current one."""
        self.is_killed = False
        """Its worker has killed it. Later messages do not count."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._received = received
        self._ended: Callable[[JobProcess], None] | None = ended
        self._unpacker = Unpacker(ANSWERS, PROCESS_ANSWER_MAX)
        self._outbox = bytearray()
        self._is_blocked = False
        """It does not read what it is sent."""
        self._socket, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(  # noqa: S603
                launch.command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                env=launch.environment,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._read)
        self._pidfd: int | None = None
        self._watch()
        self.send(Setup(tuple(map(os.fsencode, sys.path)), os.getpid()))

    @property
    def end_reason(self) -> str:
        """How it ended, in words."""
        status = self._process.returncode
        return "it does not end" if status is None else how_it_ended(status)

    def begin(self, run: Held, left_s: float | None) -> None:
        """Run the job's handler. `left_s`: the time until its timeout."""
        if not self.is_killed:
            self._cancel_timer()
        self.run = run
        self.jobs += 1
        cancelled = None if run.cancelled is None else cut(run.cancelled, limits.MAX_ERROR_TEXT)
        self.send(RunJob.of(self.jobs, run.lease, left_s, cancelled))

    def take_job(self) -> Held | None:
        """The job that it ran, which it runs no longer."""
        run, self.run = self.run, None
        return run

    def send(self, message: Order) -> None:
        """Send a message. Never blocks; harmless when the process has ended."""
        if self._socket.fileno() >= 0:
            self._outbox += pack(message)
            self._write()

    def kill(self) -> None:
        """End it at once, with every process that it started. Harmless when it has ended."""
        if self._ended is not None and not self.is_killed:
            self._kill_group()
            self.after(PROCESS_KILL_MS, self._finish)
            self.is_killed = True

    def reap(self) -> None:
        """Block until it has ended, after `kill`. For the end of the worker."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(limits.HARD_STOP_MS / limits.SECOND)
        self._finish()

    def after(self, ms: int, act: Callable[[], None]) -> None:
        """Call `act` after this time, instead of an earlier `act`. Not for a process that is killed."""
        if not self.is_killed:
            self._cancel_timer()
            self._timer = self._loop.call_later(ms / limits.SECOND, act)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------------------------------------------------- messages

    def _write(self) -> None:
        try:
            del self._outbox[: self._socket.send(self._outbox)]
        except BlockingIOError:
            pass
        except OSError:  # it has ended, which `_died` handles
            self._outbox.clear()
        if self._outbox:
            self._loop.add_writer(self._socket, self._write)
        elif self._is_blocked:
            self._loop.remove_writer(self._socket)
        self._is_blocked = bool(self._outbox)

    def _read(self) -> bool:
        """Read what it has sent. False: there is nothing to read."""
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._disconnect()
            self.kill()  # a handler may have closed the socket: the process cannot be reached any more
            return False
        try:
            for message in self._unpacker.feed(data):
                if not self.is_killed:
                    self._received(self, message)
        except BadMessage:
            self.kill()
        return True

    def _disconnect(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._socket.close()

    # -------------------------------------------------------------------------------------------------------- its end

    def _watch(self) -> None:
        """Notice its end: by a pidfd, or by polling where the system has none."""
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            self._loop.call_later(WATCH_MS / limits.SECOND, self._poll)
        else:
            self._loop.add_reader(self._pidfd, self._died)

    def _poll(self) -> None:
        if self._ended is None:
            return
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            self._died()
        else:
            self._loop.call_later(WATCH_MS / limits.SECOND, self._poll)

    def _died(self) -> None:
        self._kill_group()
        self._process.wait()
        # Messages that it sent before its end count. A process that left its group may still be writing: hence a limit.
        for _ in range(_LAST_READS):
            if self._socket.fileno() < 0 or not self._read():
                break
        self._finish()

    def _kill_group(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _finish(self) -> None:
        ended, self._ended = self._ended, None
        if ended is None:
            return
        self._cancel_timer()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._disconnect()
        ended(self)
