"""The log of connections: one line for each event, on the logger `tenure.redis`."""

from __future__ import annotations

import logging
from typing import Final

from tenure.core.logfmt import log_line

LOGGER: Final = logging.getLogger("tenure.redis")


def log_event(name: str, /, **fields: object) -> None:
    """Log one event. A program that has not configured logging does not see it."""
    if LOGGER.hasHandlers():
        log_line(LOGGER, name, None, fields)
