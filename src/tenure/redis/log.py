"""The log of connections: one line for each event, on the logger `tenure.redis`."""

from __future__ import annotations

import logging
from typing import Final

from tenure.core.logfmt import log_line

LOGGER: Final = logging.getLogger("tenure.redis")
LOGGER.addHandler(logging.NullHandler())  # a program that has not configured logging sees no lines


def log_event(name: str, /, **fields: object) -> None:
    """Log one event."""
    log_line(LOGGER, name, None, fields)
