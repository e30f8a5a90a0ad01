"""Checks of names, ids, numbers and times, made before anything is sent. Each error names the field."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import quote

from tenure.core import limits
from tenure.core.errors import InvalidArgument, invalid
from tenure.core.stores import PAYLOAD_HEADER
from tenure.core.text import cut

MAX_UNIQUE_KEY: Final = 200
"""The most characters of a unique key."""

_NAME_DIGEST: Final = 16
"""The bytes of the digest in the name of a limit that arguments made too long."""

MAX_HEADERS: Final = 4 * 1024
"""The most bytes of the names and the texts of a job's headers."""

_NAMESPACE = re.compile(rf"[A-Za-z0-9_.:-]{{1,{limits.MAX_NAME}}}")
LOG_FORMATS = ("human", "json")
SYNC_ON_LOOP = ("warn", "error", "allow")
ErrorDetail: TypeAlias = Literal["traceback", "message", "type"]
LOG_ERRORS: Final[tuple[ErrorDetail, ...]] = get_args(ErrorDetail)
_TASK = re.compile(rf"(?!-){_NAMESPACE.pattern}")
_CHARACTERS = f"1 to {limits.MAX_NAME} letters, digits or any of _ . : -"
UNICODE = "text that UTF-8 can encode (no lone surrogates)"


def queue_name(value: object, field: str = "queue") -> str:
    """Return a queue's name: 1 to 200 characters, without '/' and control characters, and not '.' or '..'."""
    text = _label(value, field, limits.MAX_NAME)
    if text in {".", ".."} or "/" in text:
        raise invalid(field, "a name without '/', and not '.' or '..'", shown(text))
    return text


def is_queue_name(text: str) -> bool:
    """Return whether a queue can have this name."""
    try:
        return queue_name(text) == text
    except InvalidArgument:
        return False


def task_name(value: object, field: str = "task name") -> str:
    """Return a task's name: 1 to 200 of `A-Z a-z 0-9 _ . : -`, not beginning with `-`."""
    text = _text(value, field)
    if not _TASK.fullmatch(text):
        rule = f"{_CHARACTERS}, and not begin with '-'"
        raise invalid(field, rule, shown(text), "Give another one with name=.")
    return text


def namespace(value: object, field: str = "namespace") -> str:
    """Return the prefix of all keys: 1 to 200 of `A-Z a-z 0-9 _ . : -`. Braces would change the cluster slot."""
    text = _text(value, field)
    if not _NAMESPACE.fullmatch(text):
        raise invalid(field, _CHARACTERS, shown(text))
    return text


def job_id(value: object, field: str = "id") -> str:
    """Return a job's id: 1 to 255 bytes of UTF-8, not beginning with `@`, which is reserved for Tenure."""
    text = _text(value, field)
    size = len(text.encode())
    if not 1 <= size <= limits.MAX_ID:
        raise invalid(field, f"1 to {limits.MAX_ID} bytes of UTF-8", f"{size} bytes")
    if text.startswith("@"):
        raise invalid(field, "text that does not begin with '@'", shown(text), "Such ids are reserved for Tenure.")
    return text


def lane_name(value: object, field: str = "lane") -> str:
    """Return a lane's name: 1 to 200 printable characters."""
    return _label(value, field, limits.MAX_NAME)


def limit_template(value: object, field: str = "limit") -> str:
    """Return the name of a limit or a share as code has it: 1 to 200 printable characters, braces included."""
    return _label(value, field, limits.MAX_NAME)


def limit_name(value: object, field: str = "limit") -> str:
    """Return the name of a limit or a share as jobs have it: see `filled_name`. Text with braces is no such name."""
    text = _text(value, field)
    if not text:
        raise invalid(field, "text with at least one character", repr(text))
    if "{" in text or "}" in text:
        advice = "Fill them with an argument's value, as in 'tenant:7'."
        raise invalid(field, "text without braces, as jobs have it", shown(text), advice)
    return filled_name(text)


def filled_name(text: str) -> str:
    """Return the name of a limit or a share that arguments made: at most 200 printable characters without braces.

    Other characters are percent-encoded, and a longer name ends in a digest, so that no argument is refused.
    """
    if 0 < len(text) <= limits.MAX_NAME and text.isprintable() and "{" not in text and "}" not in text:
        return text
    name = "".join(quote(char, safe="") if char in "{}" or _unprintable(char) else char for char in text) or "%"
    if len(name) <= limits.MAX_NAME:
        return name
    digest = blake2b(text.encode(), digest_size=_NAME_DIGEST).hexdigest()
    return f"{name[: limits.MAX_NAME - len(digest) - 1]}~{digest}"


def has_digest(name: str) -> bool:
    """Return whether `filled_name` has shortened this name."""
    return len(name) == limits.MAX_NAME and name[-2 * _NAME_DIGEST - 1] == "~"


def unique_key(value: object, field: str = "unique") -> str:
    """Return a unique key: 1 to 200 printable characters."""
    return _label(value, field, MAX_UNIQUE_KEY)


def _label(value: object, field: str, most: int) -> str:
    text = _text(value, field)
    if not 1 <= len(text) <= most:
        raise invalid(field, f"1 to {most} characters", f"{len(text)} characters")
    if any(_unprintable(char) for char in text):
        raise invalid(field, "text without control characters", shown(text))
    return text


def headers(value: object, field: str = "headers") -> dict[str, str]:
    """Return headers: text to text, names without control characters, at most `MAX_HEADERS` bytes together."""
    if not isinstance(value, Mapping):
        raise invalid(field, 'text by name, such as {"tenant": "7"}', type(value).__name__)
    label = f"{field}: name"
    if PAYLOAD_HEADER in value:
        raise invalid(label, "another name: Tenure uses this one", repr(PAYLOAD_HEADER))
    checked = {_label(name, label, limits.MAX_NAME): _header(name, text, field) for name, text in value.items()}
    size = sum(len(name.encode()) + len(text.encode()) for name, text in checked.items())
    if size > MAX_HEADERS:
        raise invalid(field, f"at most {MAX_HEADERS:,} bytes, names included", f"{size:,} bytes")
    return checked


def _header(name: object, text: object, field: str) -> str:
    # The text may be a secret: the message names the header, and shows only the type.
    if not isinstance(text, str):
        raise invalid(f"{field}: {shown(name)}", "a str", type(text).__name__)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid(f"{field}: {shown(name)}", UNICODE, "other text") from None
    return str(text)


def known_id(value: object, field: str = "id") -> str:
    """Return the id of an existing job, as Redis has it. `job_id` may refuse such an id."""
    if not isinstance(value, str):
        raise invalid(field, "a str", type(value).__name__)
    try:
        value.encode("utf-8", "surrogateescape")  # an id that is not UTF-8 is shown with such surrogates
    except UnicodeEncodeError:
        raise invalid(field, UNICODE, shown(value)) from None
    return str(value)


def reason(value: object, field: str = "reason") -> str:
    """Return a reason as text that fits a record."""
    if not isinstance(value, str):
        raise invalid(field, "a str", type(value).__name__)
    return cut(value, limits.MAX_ERROR_TEXT)


def duration_ms(value: object, field: str, *, least_ms: int = 1, most_ms: int = limits.MAX_TIMEOUT_MS) -> int:
    """Convert seconds (a number or a `timedelta`) to milliseconds, if they are between the two bounds."""
    seconds: float
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = _number(value, field)
    else:
        raise invalid(field, "seconds (a number or a timedelta)", type(value).__name__)
    if not math.isfinite(seconds) or not least_ms <= seconds * limits.SECOND <= most_ms:
        least, most = least_ms / limits.SECOND, most_ms / limits.SECOND
        raise invalid(field, f"{least:g} to {most:,.0f} seconds", f"{seconds:g} s")
    return round(seconds * limits.SECOND)


def count(value: object, field: str, *, least: int = 0, most: int = limits.MAX_RETRIES) -> int:
    """Return a whole number between the two bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise invalid(field, f"a whole number from {least:,} to {most:,}", shown(value))
    return value


def flag(value: object, field: str) -> bool:
    """Return True or False, and refuse everything else: the text "no" would count as True."""
    if not isinstance(value, bool):
        raise invalid(field, "True or False", shown(value))
    return value


def due(delay: object, run_after: object) -> tuple[int, int | None]:
    """Return `delay_ms` and `run_at_ms` of a job. The caller may give at most one of the two.

    `delay`: seconds or a `timedelta`. `run_after`: a `datetime` with a time zone; a past one means now.
    """
    if delay is not None and run_after is not None:
        raise InvalidArgument("delay and run_after cannot both be given.")
    if run_after is not None:
        return 0, time_ms(run_after, "run_after")
    if delay is None:
        return 0, None
    return duration_ms(delay, "delay", least_ms=0, most_ms=limits.MAX_DELAY_MS), None


def log_format(value: object, field: str = "log_format") -> str:
    """Return the format of the log."""
    text = _text(value, field)
    if text not in LOG_FORMATS:
        raise invalid(field, f"one of {', '.join(LOG_FORMATS)}", shown(text))
    return text


def sync_on_loop(value: object, field: str = "sync_on_loop") -> str:
    """Return what a blocking call on a running event loop does."""
    text = _text(value, field)
    if text not in SYNC_ON_LOOP:
        raise invalid(field, f"one of {', '.join(SYNC_ON_LOOP)}", shown(text))
    return text


def log_errors(value: object, field: str = "log_errors") -> ErrorDetail:
    """Return how much of an error the log shows."""
    text = _text(value, field)
    for known in LOG_ERRORS:
        if text == known:
            return known
    raise invalid(field, f"one of {', '.join(LOG_ERRORS)}", shown(text))


def time_ms(value: object, field: str) -> int:
    """Return a time in ms since 1970."""
    if not isinstance(value, datetime):
        raise invalid(field, "a datetime with a time zone", type(value).__name__)
    if value.utcoffset() is None:
        raise invalid(field, "a datetime with a time zone", "one without", "Write datetime(..., tzinfo=timezone.utc).")
    # A time before 1970 is past as well; engines take numbers from 1 up.
    return max(1, round(value.timestamp() * limits.SECOND))


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise invalid(field, "a str", type(value).__name__)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid(field, UNICODE, shown(value)) from None
    return str(value)


def _number(value: int | float, field: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise invalid(field, "a number of seconds", "a huge number") from None


def _unprintable(char: str) -> bool:
    # A line or paragraph separator breaks a log line as a newline does.
    return unicodedata.category(char) in {"Cc", "Zl", "Zp"}


def shown(value: object) -> str:
    """Return a value for a message: one short line (a bad name may be a megabyte), never a number of 5,000 digits."""
    if isinstance(value, int) and value.bit_length() > 64:
        return "a huge number"
    try:
        text = repr(value)
    except Exception:  # any error of a user's class; Python also refuses to print such a number in a list
        text = ""
    if not text.isprintable() or not text:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
