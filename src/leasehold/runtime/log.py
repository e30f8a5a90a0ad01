"""The worker's log: one line an event, `event key=value`, safe against ids that try to be more than one line."""

from __future__ import annotations

import logging

from leasehold.core.limits import MAX_LOG_TEXT

LOGGER = logging.getLogger("leasehold.worker")


def event(level: int, name: str, /, **fields: object) -> None:
    """Log one event. Never give it a payload."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", line(name, fields))


def line(name: str, fields: dict[str, object]) -> str:
    return " ".join([name, *(f"{key}={escaped(value)}" for key, value in fields.items() if value is not None)])


def escaped(value: object) -> str:
    """The value as one word: quoted when it has spaces, quotes or anything that does not print."""
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    if len(text) > MAX_LOG_TEXT:
        text = text[:MAX_LOG_TEXT] + "..."
    plain = text and text.isprintable() and not any(char in text for char in " \"'=\\")
    return text if plain else repr(text)


def brief(error: BaseException) -> str:
    """An error in one line, with the place where it was raised."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        where = f" at {trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"
        trace = trace.tb_next
    try:
        return f"{type(error).__name__}: {error}{where}"
    except Exception:
        return f"{type(error).__name__}{where}"
