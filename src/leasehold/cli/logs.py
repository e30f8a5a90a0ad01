"""Where the log of a command goes, and how it looks."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable
from logging.handlers import QueueHandler, QueueListener
from typing import Final

from leasehold.runtime.observe.format import formatter
from leasehold.settings import Settings

LOG_END_S: Final = 2
"""How long the last lines of a log may take to be written."""


def set_up_logging(level: str, form: str | None = None) -> None:
    """Log on stderr from this level on. `form`: `human` or `json`; None: as LEASEHOLD_LOG_FORMAT says.

    Raises `NotConfigured` when that says something else.
    """
    handler = logging.StreamHandler(sys.stderr)
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
