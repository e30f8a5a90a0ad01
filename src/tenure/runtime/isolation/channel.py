"""A job process's socket to its worker. A thread reads orders; any thread sends answers. It ends with the worker.

The worker's death closes the socket, unless a process that a handler forked in the worker holds it open: a pidfd shows
the death then, or polling where the system has none. This process leads a session and kills every process that it
started. A stopped process (SIGSTOP) notices nothing, so the system continues it when the worker dies.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final

from tenure.core import limits
from tenure.core.errors import RedisError, Unreachable
from tenure.core.shape import Progress
from tenure.runtime.forks import CLONE_STATUS, ForkGuard
from tenure.runtime.isolation.messages import (
    ORDERS,
    PROCESS_EXIT_MS,
    Answer,
    BadMessage,
    Cancel,
    Done,
    ExitOrder,
    Extend,
    Extended,
    Order,
    ProgressReport,
    RunJob,
    Setup,
    ShowStack,
    Stack,
    Unpacker,
    pack,
)
from tenure.runtime.ports import PROGRESS_MS

PROCESS_ORDER_MAX: Final = 2 * limits.MAX_PAYLOAD_CEILING
"""Bytes of one message to a job process."""

_CHUNK: Final = 1 << 20
_PR_SET_PDEATHSIG: Final = 1
_POLL_S: Final = 1.0
"""How often the thread checks that the worker lives, where there is no pidfd."""


class WorkerChannel:
    """See the module. The thread calls `cancel` when the current job is to be cancelled, and `stack` for the number of
    the current job and where its handler is.

    channel = WorkerChannel(socket.socket(fileno=descriptor))
    setup = channel.begin()
    channel.send(Ready())
    while (order := channel.next()) is not None: ...
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        # Programs that handlers start must not hold the socket open.
        self._socket.set_inheritable(False)
        self._own = ForkGuard()
        self._unpacker = Unpacker(ORDERS, PROCESS_ORDER_MAX)
        self._sending = threading.Lock()
        self._orders: SimpleQueue[RunJob | None] = SimpleQueue()
        self._reports: deque[ProgressReport] = deque(maxlen=1)
        """The newest, until the thread sends it."""
        self._requests = itertools.count(1)
        self._extensions: dict[int, Future[bool]] = {}
        self._has_job = False
        self.cancel: Callable[[int, str], None] = lambda number, reason: None
        self.stack: Callable[[], tuple[int, str]] = lambda: (0, "")

    def begin(self) -> Setup:
        """Wait for the first message, and start the thread. To be called from the main thread."""
        _continue_at_parents_death()
        while True:
            for message in self._unpacker.feed(self._receive()):
                if not isinstance(message, Setup):
                    raise BadMessage("the first message is not Setup")
                threading.Thread(target=self._follow, args=[message.parent], name="tenure-line", daemon=True).start()
                return message

    def next(self) -> RunJob | None:
        """Wait for the next job. None: no more jobs follow."""
        return self._orders.get()

    def done(self, answer: Done) -> None:
        """Send the outcome of the current job."""
        self._has_job = False
        self._send_report()
        self.send(answer)

    def send(self, answer: Answer) -> None:
        """Send a message to the worker, from any thread. A copy of this process that a handler forked ends here."""
        self._own.end_clone()
        data = pack(answer)
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError:
            self._end()

    def report(self, number: int, progress: Progress) -> None:
        """Report the job's progress, at most once every `PROGRESS_MS`. The newest report replaces those not sent."""
        self._reports.append(ProgressReport(number, progress))

    def extend(self, number: int, ms: int) -> Future[bool]:
        """Ask for more time. The answer: whether this worker still holds the job."""
        answer: Future[bool] = Future()
        request = next(self._requests)
        self._extensions[request] = answer
        self.send(Extend(number, request, ms))
        return answer

    # ------------------------------------------------------------------------------------------------- in the thread

    def _follow(self, parent: int) -> None:
        pidfd: int | None = None
        with contextlib.suppress(AttributeError, OSError):
            pidfd = os.pidfd_open(parent)
        sources = [self._socket.fileno(), *([] if pidfd is None else [pidfd])]
        idle_s = _POLL_S if pidfd is None else None
        try:
            while os.getppid() == parent:
                wait_s = PROGRESS_MS / limits.SECOND if self._has_job else idle_s
                readable, _, _ = select.select(sources, [], [], wait_s)
                if sources[0] in readable:
                    for message in self._unpacker.feed(self._receive()):
                        self._handle(message)
                if pidfd in readable:
                    break
                self._send_report()
        except (
            BaseException
        ):  # out of memory, sockets closed by a handler: without this thread the process is of no use
            self._end()
        self._end()

    def _send_report(self) -> None:
        with contextlib.suppress(IndexError):  # the other thread has sent it
            self.send(self._reports.pop())

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._end()
        return data

    def _handle(self, order: Order) -> None:
        match order:
            case RunJob():
                self._has_job = True
                self._orders.put(order)
            case Cancel(number, reason):
                self.cancel(number, reason)
            case Extended(request, is_held, error, is_unreachable):
                answer = self._extensions.pop(request)
                if error:
                    answer.set_exception(Unreachable(error) if is_unreachable else RedisError(error))
                else:
                    answer.set_result(is_held)
            case ShowStack():
                self.send(Stack(*self.stack()))
            case ExitOrder():
                self._orders.put(None)
                # Threads and hooks that handlers left behind may delay the end of the interpreter.
                time.sleep(PROCESS_EXIT_MS / limits.SECOND)
                self._end()

    def _end(self) -> None:
        """End this process at once, with every process that it started."""
        self._own.end_clone()
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(CLONE_STATUS)


def _continue_at_parents_death() -> None:
    """Have the system continue this process when the worker dies (Linux), so that it can end itself.

    Not SIGKILL: it would end this process before it can kill those that it started.
    """
    if sys.platform == "linux":
        with contextlib.suppress(ImportError):  # a Python that was built without it
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)
