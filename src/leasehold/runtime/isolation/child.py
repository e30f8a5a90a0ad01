"""One job process as its worker sees it: started, given a job, heard, killed with all that it started.

It leads a session and a process group of its own. The group is killed while its leader is not yet reaped: after that
its number may be another's.
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
from dataclasses import dataclass
from typing import Any, Final

from leasehold.core import limits
from leasehold.runtime.isolation.messages import ANSWERS, NoFrame, Order, Setup, Unpacker, pack
from leasehold.runtime.jobs.held import Held
from leasehold.runtime.jobs.overrun import WATCH_MS

PROCESS_KILL_MS: Final = 5 * limits.SECOND
"""A job process that was killed and has not ended after this time is given up: the system cannot end it."""
PROCESS_ANSWER_MAX: Final = 2 * limits.MAX_RESULT
"""Bytes of one message from a job process."""

_CHUNK: Final = 1 << 18
_LAST_WORDS: Final = 64
"""Reads after its end. Its line holds less than that."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a job process is started: a command line for the descriptor of its line, in this environment.

    Launch(lambda descriptor: [sys.executable, "-m", "jobs", str(descriptor)], os.environ)
    """

    command: Callable[[int], Sequence[str]]
    environment: Mapping[str, str]


class JobProcess:
    """See the module. `heard` gets every frame, `ended` is called once and last; both on the loop.

    Raises `OSError` when the system cannot start a process.
    """

    def __init__(
        self, launch: Launch, heard: Callable[[JobProcess, Any], None], ended: Callable[[JobProcess], None]
    ) -> None:
        self.run: Held | None = None
        self.number = 0
        """Jobs so far."""
        self.asks = 0
        self.ready = False
        self.idle_since = 0.0
        self.killed = False
        """By us. What it said after that does not count."""
        self._timer: asyncio.TimerHandle | None = None
        self._stuck = False
        """It does not read what it is told."""
        self._loop = asyncio.get_running_loop()
        self._heard = heard
        self._ended: Callable[[JobProcess], None] | None = ended
        self._unpacker = Unpacker(ANSWERS, PROCESS_ANSWER_MAX)
        self._outbox = bytearray()
        self._line, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(  # noqa: S603
                launch.command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                env=launch.environment,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            self._line.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid
        self._line.setblocking(False)
        self._open = True
        self._loop.add_reader(self._line, self._read)
        self._pidfd: int | None = None
        self._watch()
        self.send(Setup(tuple(map(str, sys.path)), os.getpid()))

    @property
    def alive(self) -> bool:
        return self._ended is not None

    @property
    def how(self) -> str:
        """How it ended, in words."""
        status = self._process.returncode
        if status is None:
            return "it does not end"
        if status >= 0:
            return f"status {status}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
        return f"signal {-status}"

    def send(self, frame: Order) -> None:
        """Say something to it. Never blocks; harmless when it has ended."""
        if not self._open:
            return
        self._outbox += pack(frame)
        self._write()

    def kill(self) -> None:
        """End it at once, with all that it started. Harmless when it has ended."""
        if not self.alive or self.killed:
            return
        self.killed = True
        self._kill_group()
        self.after(PROCESS_KILL_MS, self._finish)

    def reap(self) -> None:
        """Wait for its end here and now, after `kill`. For when there is no time for the loop any more."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(limits.HARD_STOP_MS / limits.SECOND)
        self._finish()

    def after(self, ms: int, act: Callable[[], None]) -> None:
        """Do something in a while. There is one thing at a time that is to come."""
        self.rest()
        self._timer = self._loop.call_later(ms / limits.SECOND, act)

    def rest(self) -> None:
        """Nothing is to come."""
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------------------------------------------------ its line

    def _write(self) -> None:
        try:
            sent = self._line.send(self._outbox)
        except BlockingIOError:
            sent = 0
        except OSError:  # it will be seen to have ended
            sent = len(self._outbox)
        del self._outbox[:sent]
        if bool(self._outbox) is not self._stuck:
            self._stuck = not self._stuck
            if self._stuck:
                self._loop.add_writer(self._line, self._write)
            else:
                self._loop.remove_writer(self._line)

    def _read(self) -> bool:
        """Hear what it says. False: nothing is there to be read."""
        try:
            data = self._line.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._hang_up()
            self.kill()  # if it lives, a handler has closed its files: it hears nothing any more
            return False
        try:
            for frame in self._unpacker.feed(data):
                if not self.killed:
                    self._heard(self, frame)
        except NoFrame:
            self.kill()
        return True

    def _hang_up(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._line)
            self._loop.remove_writer(self._line)
            self._line.close()

    # ------------------------------------------------------------------------------------------------------- its end

    def _watch(self) -> None:
        """Notice its end: at once where the system can say so, else by looking."""
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(self._pidfd, self._died)
            return
        self._look_again()

    def _look_again(self) -> None:
        self._loop.call_later(WATCH_MS / limits.SECOND, self._look)

    def _look(self) -> None:
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            self._died()
        elif self.alive:
            self._look_again()

    def _died(self) -> None:
        self._kill_group()
        self._process.wait()
        # What it has said before its end is here and counts. Something that left its group may be writing still.
        for _ in range(_LAST_WORDS):
            if not self._open or not self._read():
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
        self.rest()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._hang_up()
        ended(self)
