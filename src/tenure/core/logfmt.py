"""Log lines: `event key=value ... message="..."`. No value can break the line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from tenure.core.log_events import LOG_EVENTS, OUTCOMES

MAX_LOG_TEXT: Final = 300
"""Characters of one value in a log line."""


PARTS: Final = "tenure_parts"
"""The attribute of Tenure's log records that holds the event's name and fields."""


def log_line(logger: logging.Logger, name: str, level: int | None, fields: Mapping[str, object]) -> None:
    """Log one event of `LOG_EVENTS`: the line for people, and its parts for a formatter with another format."""
    event = LOG_EVENTS[name]
    level = event.level if level is None else level
    if is_on(logger, level):
        text = line(name, fields if name in OUTCOMES else {**fields, "message": event.message})
        logger.log(level, "%s", text, extra={PARTS: (name, fields)}, stacklevel=3)


def is_on(logger: logging.Logger, level: int) -> bool:
    """Return whether the logger has this level on. It is enabled again: by default `logging.config.dictConfig` disables
    each logger that it does not name."""
    logger.disabled = False
    return logger.isEnabledFor(level)


def line(name: str, fields: Mapping[str, object]) -> str:
    """Format the event as one line, without fields that are None.

    >>> line("retried", {"id": "a b", "at": None, "delay_ms": 840})
    "retried id='a b' delay_ms=840"
    """
    return " ".join([name, *(f"{key}={escaped(value)}" for key, value in fields.items() if value is not None)])


def escaped(value: object) -> str:
    """Return the value as one word: quoted if it has spaces, quotes or unprintable characters."""
    if isinstance(value, float):
        return f"{value:.3f}"
    text = shortened(str(value))
    plain = text and text.isprintable() and not any(char in text for char in " \"'=\\")
    return text if plain else repr(text)


def shortened(text: str) -> str:
    return text if len(text) <= MAX_LOG_TEXT else text[:MAX_LOG_TEXT] + "..."
