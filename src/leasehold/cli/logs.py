"""Where the log of a command goes, and how it looks."""

from __future__ import annotations

import contextlib
import logging
import queue
import sys
from collections.abc import Iterator
from logging.handlers import QueueHandler, QueueListener

from leasehold.runtime.observe.format import formatter
from leasehold.settings import Settings


def set_up_logging(level: str, form: str | None = None) -> None:
    """Log on stderr from this level on. `form`: `human` or `json`; None: as LEASEHOLD_LOG_FORMAT says.

    Raises `NotConfigured` when that says something else.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form or Settings.load().log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler])


@contextlib.contextmanager
def logging_in_thread() -> Iterator[None]:
    """Write the log in a thread of its own: stderr may be slow, and heartbeats must not wait for it."""
    root = logging.getLogger()
    handlers, lines = root.handlers, queue.SimpleQueue[logging.LogRecord]()
    writer = QueueListener(lines, *handlers)
    root.handlers = [_Unformatted(lines)]
    writer.start()
    try:
        yield
    finally:
        writer.stop()
        root.handlers = handlers


class _Unformatted(QueueHandler):
    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # the formatters need the fields of an event
