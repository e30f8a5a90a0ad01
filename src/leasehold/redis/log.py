"""What connections log: one line an event, as the worker's, on a logger of their own."""

from __future__ import annotations

import logging
from typing import Final

from leasehold.core.logfmt import log_line

LOGGER: Final = logging.getLogger("leasehold.redis")


def log_event(level: int, name: str, /, **fields: object) -> None:
    """Log one event. A program that has not set up logging sees nothing of it."""
    if LOGGER.hasHandlers() and LOGGER.isEnabledFor(level):
        log_line(LOGGER, level, name, fields)
