"""A job process' line to its worker: orders come in by a thread, answers go out from any. It ends with the worker.

The worker's death is seen by the end of the line and, where the system has a pidfd, by that: a process that a handler
forked in the worker may hold the line open. This process leads a session of its own, and takes along what it started.
One that is stopped (SIGSTOP) sees nothing: it is woken.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final

from leasehold.core import limits
from leasehold.core.errors import RedisError, Unreachable
from leasehold.core.shape import Progress
from leasehold.runtime.forks import CLONE_STATUS, ForkGuard
from leasehold.runtime.isolation.messages import (
    ORDERS,
    PROCESS_BYE_MS,
    Answer,
    Bye,
    Cancel,
    Extend,
    Extended,
    NoFrame,
    RunJob,
    Setup,
    Told,
    Unpacker,
    pack,
)
from leasehold.runtime.jobs.job import PROGRESS_MS

PROCESS_ORDER_MAX: Final = 2 * limits.MAX_PAYLOAD_CEILING
"""Bytes of one message to a job process."""

_CHUNK: Final = 1 << 20
_PR_SET_PDEATHSIG: Final = 1
_LOOK_S: Final = 1.0
"""Where there is no pidfd: how often it is looked whether the worker lives."""


class WorkerChannel:
    """See the module. `cancel` is called from the thread when the job that runs is to be cancelled.

    line = WorkerChannel(socket.socket(fileno=descriptor))
    setup = line.begin()
    line.send(Ready())
    while (run := line.next()) is not None: ...
    """

    def __init__(self, connection: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self._socket = connection
        # Not for what handlers start: it would keep the line open.
        self._socket.set_inheritable(False)
        self._clock = clock
        self._own = ForkGuard()
        self._unpacker = Unpacker(ORDERS, PROCESS_ORDER_MAX)
        self._sending = threading.Lock()
        self._todo: SimpleQueue[RunJob | None] = SimpleQueue()
        self._hearing, self._bell = os.pipe()
        self._asks: dict[int, Future[bool]] = {}
        self._asked = 0
        self._telling = threading.Lock()
        self._untold: Told | None = None
        self._told_at = 0.0
        self._number = 0
        """Of the job that runs; 0: none does."""
        self.cancel: Callable[[int, str], None] = lambda number, reason: None

    def begin(self) -> Setup:
        """Wait for the first word, and follow the line from then on. To be called from the main thread."""
        _wake_with_parents_death()
        while True:
            for frame in self._unpacker.feed(self._receive()):
                if not isinstance(frame, Setup):
                    raise NoFrame("the first word is not what to set up")
                threading.Thread(target=self._follow, args=[frame.parent], name="leasehold-line", daemon=True).start()
                return frame

    def next(self) -> RunJob | None:
        """Wait for the next job. None: there is none to come."""
        self._number = 0
        run = self._todo.get()
        if run is not None:
            self._number = run.number
        return run

    def send(self, frame: Answer) -> None:
        """Say something to the worker. From any thread; a copy of this process that a handler forked ends here."""
        self._own.end_clone()
        data = pack(frame)
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError:
            self._gone()

    def tell(self, number: int, progress: Progress) -> None:
        """Say how far a job is, ten times a second at most: in between only the newest is kept, and told then."""
        told, now = Told(number, progress), self._clock()
        with self._telling:
            waits = self._untold is not None
            if waits or now - self._told_at < PROGRESS_MS / limits.SECOND:
                self._untold = told
            else:
                self._told_at = now
                self.send(told)
                return
        if not waits:
            os.write(self._bell, b"!")

    def extend(self, number: int, ms: int) -> Future[bool]:
        """Ask for more time. The answer says whether the job is still ours."""
        answer: Future[bool] = Future()
        with self._telling:
            self._asked += 1
            ask = self._asked
            self._asks[ask] = answer
        self.send(Extend(number, ask, ms))
        return answer

    # ------------------------------------------------------------------------------------------------- in the thread

    def _follow(self, parent: int) -> None:
        pidfd: int | None = None
        with contextlib.suppress(AttributeError, OSError):
            pidfd = os.pidfd_open(parent)
        sources = [self._socket.fileno(), self._hearing, *([] if pidfd is None else [pidfd])]
        try:
            while os.getppid() == parent:
                readable, _, _ = select.select(sources, [], [], self._pause(None if pidfd is not None else _LOOK_S))
                if self._hearing in readable:
                    os.read(self._hearing, _CHUNK)
                if sources[0] in readable:
                    for frame in self._unpacker.feed(self._receive()):
                        self._hear(frame)
                if pidfd in readable:
                    break
                self._tell_rest()
        except BaseException:  # out of memory, files closed by a handler: deaf, this process is of no use
            self._gone()
        self._gone()

    def _pause(self, most: float | None) -> float | None:
        with self._telling:
            if self._untold is None:
                return most
            return max(0.0, self._told_at + PROGRESS_MS / limits.SECOND - self._clock())

    def _tell_rest(self) -> None:
        with self._telling:
            now = self._clock()
            if self._untold is not None and now - self._told_at >= PROGRESS_MS / limits.SECOND:
                told, self._untold, self._told_at = self._untold, None, now
                self.send(told)

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._gone()
        return data

    def _hear(self, frame: object) -> None:
        match frame:
            case RunJob():
                self._todo.put(frame)
            case Cancel(number, reason):
                self.cancel(number, reason)
            case Extended(ask, ours, trouble, away):
                answer = self._asks.pop(ask)
                if trouble:
                    answer.set_exception(Unreachable(trouble) if away else RedisError(trouble))
                else:
                    answer.set_result(ours)
            case Bye():
                self._todo.put(None)
                # What handlers have left may keep the interpreter from its end.
                time.sleep(PROCESS_BYE_MS / limits.SECOND)
                self._gone()

    def _gone(self) -> None:
        """The worker is no more, or this process is of no use to it: end at once, with all that it started."""
        self._own.end_clone()
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(CLONE_STATUS)


def _wake_with_parents_death() -> None:
    """Where the system can: have this process go on when the worker dies, to end itself with all that it started.

    Not SIGKILL: that would end this process alone, before it can take the others along.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
