"""Where the log of a command goes, and how it looks."""

from __future__ import annotations

import logging
import queue
import select
import sys
import threading
from collections.abc import Callable
from logging.handlers import QueueHandler, QueueListener
from typing import Final

from leasehold.runtime.log import log_event
from leasehold.runtime.observe.format import formatter
from leasehold.settings import Settings

LOG_END_S: Final = 2
"""How long the last lines of a log may take to be written."""

STALL_MS: Final = 1_000
"""How long a line waits for stderr, once, before lines are dropped."""


class StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr. Drops lines while stderr accepts none: a pipe that no program reads must not stop a worker."""

    def __init__(self, descriptor: int = 2, stall_ms: int = STALL_MS) -> None:
        super().__init__(sys.stderr)
        self._stall_ms = stall_ms
        self._dropped = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        if not self._poll.poll(0 if self._dropped else self._stall_ms):
            self._dropped += 1
            return
        dropped, self._dropped = self._dropped, 0
        if dropped:
            log_event("log_restored", dropped=dropped)
        super().emit(record)


def set_up_logging(level: str, form: str | None = None) -> None:
    """Log on stderr from this level on. `form`: `human` or `json`; None: as LEASEHOLD_LOG_FORMAT says.

    Raises `NotConfigured` when that says something else.
    """
    handler = StderrHandler()
    handler.setFormatter(formatter(form or Settings.load().log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def log_in_thread() -> Callable[[], bool]:
    """Write the log in a thread of its own from now on: stderr may be slow, and heartbeats must not wait for it.

    The function that it returns ends the thread. It returns False if stderr has accepted nothing for `LOG_END_S`: then
    the end of the interpreter would wait for stderr, too.
    """
    root = logging.getLogger()
    handlers, lines = root.handlers, queue.SimpleQueue[logging.LogRecord]()
    writer = QueueListener(lines, *handlers)
    root.handlers = [_Unformatted(lines)]
    writer.start()

    def end() -> bool:
        ending = threading.Thread(target=writer.stop, daemon=True)
        ending.start()
        ending.join(LOG_END_S)
        root.handlers = handlers
        return not ending.is_alive()

    return end


class _Unformatted(QueueHandler):
    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # the formatters need the fields of an event
