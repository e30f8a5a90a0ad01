"""Where the log of a command goes, and how it looks."""

from __future__ import annotations

import logging
import sys

from leasehold.runtime.observe.format import formatter
from leasehold.settings import Settings


def set_up_logging(level: str, form: str | None = None) -> None:
    """Log on stderr from this level on. `form`: `human` or `json`; None: as LEASEHOLD_LOG_FORMAT says.

    Raises `NotConfigured` when that says something else.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form or Settings.load().log_format))
    logging.basicConfig(level=level.upper(), handlers=[handler])
