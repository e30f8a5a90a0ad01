"""The worker's end of the line to its supervisor: hears that it is to stop, tells how it is.

The line is a socket that the supervisor gave to this process. Orders come by it and not as signals, so that a signal
that reaches the whole group (Ctrl-C, systemd) and the supervisor's order together are one ask and not two. Its end
means that the supervisor has died: then this process stops in order.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Final

from leasehold.core.errors import InvalidArgument
from leasehold.processes.report import WorkerStatus
from leasehold.runtime.log import log_event

CHILD_LINE_MAX: Final = 4 * 1024
"""Bytes of one line between a supervisor and a worker process."""

STOP: Final = b"stop\n"
HARD: Final = b"hard\n"


class SupervisorLink:
    """One line. `follow` is to be called once, as early as can be.

    tether = SupervisorLink(descriptor)
    tether.follow()
    tether.attach(stop=worker.drain, hard=worker.stop_hard)
    """

    def __init__(self, descriptor: int) -> None:
        try:
            self._socket = socket.socket(fileno=descriptor)
        except OSError:
            raise InvalidArgument("--tether is for processes that a supervisor starts; leave it out.") from None
        # Not for what handlers start: it would keep the line open.
        self._socket.set_inheritable(False)
        self._lock = threading.Lock()
        self._own = os.getpid()
        self._acts: tuple[Callable[[], None], Callable[[], None]] | None = None

    def follow(self) -> None:
        """Hear orders from now on. Until `attach`, nothing is held here yet: an order ends the process at once."""
        threading.Thread(target=self._hear, name="leasehold-tether", daemon=True).start()

    def attach(self, stop: Callable[[], None], hard: Callable[[], None]) -> None:
        """What the orders mean from now on. Both are called from another thread, and perhaps more than once."""
        self._acts = (stop, hard)

    def tell(self, condition: WorkerStatus) -> None:
        """Tell how this process is. Never raises or waits: what a busy supervisor has no room for is left out."""
        if os.getpid() == self._own:
            with self._lock, contextlib.suppress(OSError):
                self._socket.send(condition.to_line(), socket.MSG_DONTWAIT)

    def _hear(self) -> None:
        with self._socket.makefile("rb") as lines:
            while line := _next(lines.readline):
                self._act(line)
        self._socket.close()
        log_event(logging.WARNING, "supervisor_gone", then="stopping")
        self._act(STOP)

    def _act(self, line: bytes) -> None:
        if self._acts is None:
            os._exit(0)
        stop, hard = self._acts
        if line == STOP:
            stop()
        elif line == HARD:
            hard()


def _next(readline: Callable[[int], bytes]) -> bytes:
    try:
        return readline(CHILD_LINE_MAX)
    except OSError:
        return b""
