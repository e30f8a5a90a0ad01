"""Checks of names, ids, numbers and times, made before anything is sent. Each names the field that is wrong."""

from __future__ import annotations

import math
import re
import unicodedata
from datetime import datetime, timedelta
from typing import Final

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.text import cut

MAX_UNIQUE_KEY: Final = 200
"""Characters of the key of a unique job."""

_NAMESPACE = re.compile(rf"[A-Za-z0-9_.:-]{{1,{limits.MAX_NAME}}}")
LOG_FORMATS = ("human", "json")
_TASK = re.compile(rf"(?!-){_NAMESPACE.pattern}")


def queue_name(value: object, field: str = "queue") -> str:
    """A queue's name: 1 to 200 characters, without '/' and control characters, and not '.' or '..'."""
    text = _text(value, field)
    if not 1 <= len(text) <= limits.MAX_NAME:
        raise InvalidArgument(f"{field} has {len(text)} characters; expected 1 to {limits.MAX_NAME}.")
    if text in {".", ".."} or "/" in text:
        raise InvalidArgument(f"{field} {shown(text)} is not usable; expected a name without '/', not '.' or '..'.")
    if any(_unprintable(char) for char in text):
        raise InvalidArgument(f"{field} {shown(text)} has control characters; expected printable text.")
    return text


def task_name(value: object, field: str = "task name") -> str:
    """A task's name: 1 to 200 of `A-Z a-z 0-9 _ . : -`, not beginning with `-`."""
    text = _text(value, field)
    if not _TASK.fullmatch(text):
        raise InvalidArgument(
            f"{field} {shown(text)} is not usable; expected 1 to {limits.MAX_NAME} letters, digits or any of _ . : - "
            "and no '-' at the beginning. Give one with name=."
        )
    return text


def namespace(value: object, field: str = "namespace") -> str:
    """The beginning of all our keys: 1 to 200 of `A-Z a-z 0-9 _ . : -`. Braces would change the cluster slot."""
    text = _text(value, field)
    if not _NAMESPACE.fullmatch(text):
        raise InvalidArgument(
            f"{field} {shown(text)} is not usable; expected 1 to {limits.MAX_NAME} letters, digits or any of _ . : -"
        )
    return text


def job_id(value: object, field: str = "id") -> str:
    """A job's id: 1 to 255 bytes of UTF-8, not beginning with `@` (that is ours)."""
    text = _text(value, field)
    size = len(text.encode())
    if not 1 <= size <= limits.MAX_ID:
        raise InvalidArgument(f"{field} has {size} bytes; expected 1 to {limits.MAX_ID} bytes of UTF-8.")
    if text.startswith("@"):
        raise InvalidArgument(f"{field} {shown(text)} begins with '@', which is kept for Leasehold itself.")
    return text


def lane_name(value: object, field: str = "lane") -> str:
    """A lane's name: 1 to 200 characters of printable text."""
    return _label(value, field, limits.MAX_NAME)


def unique_key(value: object, field: str = "unique") -> str:
    """A key that only one job may have: 1 to 200 characters of printable text."""
    return _label(value, field, MAX_UNIQUE_KEY)


def _label(value: object, field: str, most: int) -> str:
    text = _text(value, field)
    if not 1 <= len(text) <= most:
        raise InvalidArgument(f"{field} has {len(text)} characters; expected 1 to {most}.")
    if any(_unprintable(char) for char in text):
        raise InvalidArgument(f"{field} {shown(text)} has control characters; expected printable text.")
    return text


def known_id(value: object, field: str = "id") -> str:
    """The id of a job that is there, as Redis has it: it may be one that `job_id` would refuse."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{field} is a {type(value).__name__}; expected a str.")
    try:
        value.encode("utf-8", "surrogateescape")  # how an id that is not UTF-8 is shown
    except UnicodeEncodeError:
        raise InvalidArgument(f"{field} {shown(value)} cannot be written as UTF-8 (lone surrogates).") from None
    return str(value)


def reason(value: object, field: str = "reason") -> str:
    """A reason as text that fits a record."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{field} is a {type(value).__name__}; expected text.")
    return cut(value, limits.MAX_ERROR_TEXT)


def duration_ms(value: object, field: str, *, least_ms: int = 1, most_ms: int = limits.MAX_TIMEOUT_MS) -> int:
    """Seconds (a number or a `timedelta`) as milliseconds, if they lie between the two bounds."""
    seconds: float
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = _number(value, field)
    else:
        raise InvalidArgument(f"{field} is a {type(value).__name__}; expected seconds (a number or a timedelta).")
    if not math.isfinite(seconds) or not least_ms <= seconds * limits.SECOND <= most_ms:
        least, most = least_ms / limits.SECOND, most_ms / limits.SECOND
        raise InvalidArgument(f"{field} is {seconds:g} s; expected {least:g} to {most:,.0f} seconds.")
    return round(seconds * limits.SECOND)


def count(value: object, field: str, *, least: int = 0, most: int = limits.MAX_RETRIES) -> int:
    """A whole number between the two bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidArgument(f"{field} is {shown(value)}; expected a whole number from {least:,} to {most:,}.")
    return value


def due(delay: object, run_after: object) -> tuple[int, int | None]:
    """`delay_ms` and `run_at_ms` of a job from what the user gave; at most one of the two.

    `delay`: seconds or a `timedelta`. `run_after`: a `datetime` with a time zone; one that has passed means now.
    """
    if delay is not None and run_after is not None:
        raise InvalidArgument("delay and run_after are both given; expected at most one of them.")
    if run_after is not None:
        return 0, _run_at_ms(run_after)
    if delay is None:
        return 0, None
    return duration_ms(delay, "delay", least_ms=0, most_ms=limits.MAX_DELAY_MS), None


def log_format(value: object, field: str = "log_format") -> str:
    """How a log is written."""
    text = _text(value, field)
    if text not in LOG_FORMATS:
        raise InvalidArgument(f"{field} is {shown(text)}; expected one of {', '.join(LOG_FORMATS)}.")
    return text


def _run_at_ms(value: object) -> int:
    if not isinstance(value, datetime):
        raise InvalidArgument(f"run_after is a {type(value).__name__}; expected a datetime with a time zone.")
    if value.utcoffset() is None:
        raise InvalidArgument(
            "run_after has no time zone, so it means another moment on every machine; expected an aware datetime, "
            "for example datetime(..., tzinfo=timezone.utc)."
        )
    # A time before 1970 has passed as well; the engine takes numbers from 1 up.
    return max(1, round(value.timestamp() * limits.SECOND))


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{field} is a {type(value).__name__}; expected a str.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{field} {shown(value)} cannot be written as UTF-8 (lone surrogates).") from None
    return str(value)


def _number(value: int | float, field: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise InvalidArgument(f"{field} is too large; expected seconds.") from None


def _unprintable(char: str) -> bool:
    # Line and paragraph separators break a log line just as a newline does.
    return unicodedata.category(char) in {"Cc", "Zl", "Zp"}


def shown(value: object) -> str:
    """A value for a message: one line, not long (a bad name may be a megabyte), and never a number of 5,000 digits."""
    if isinstance(value, int) and value.bit_length() > 64:
        return "a huge number"
    try:
        text = repr(value)
    except Exception:  # whatever a class of the user's raises, and what Python says to such a number in a list
        text = ""
    if not text.isprintable() or not text:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
