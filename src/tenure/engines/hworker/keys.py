"""The names of keys. The original's keys end in the name of the pool: `hworker-jobs-printer`."""

from __future__ import annotations

from typing import Final

from tenure.core import limits, names
from tenure.core.errors import InvalidArgument, invalid

DEFAULT_QUEUE: Final = "default"
"""The one queue of a pool."""
JOBS: Final = "hworker-jobs-"
PROGRESS: Final = "hworker-progress-"
BROKEN: Final = "hworker-broken-"
FAILED: Final = "hworker-failed-"
OURS: Final = "hworker-tenure-"
"""How the keys of Tenure begin; the name of the pool, a colon and a suffix follow."""


def check_name(name: object) -> str:
    """Return the name of a pool. Raises `InvalidArgument` for what is no text, empty, or too long, or has a `?`."""
    if not isinstance(name, str) or not 0 < len(name) <= limits.MAX_NAME or "?" in name:
        raise invalid("name", f"a text of 1 to {limits.MAX_NAME} characters without question marks", names.shown(name))
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise invalid("name", "text that UTF-8 can encode", names.shown(name)) from None
    return name


def other_queue(queue: str, name: str) -> InvalidArgument:
    return InvalidArgument(
        f"queue must be {DEFAULT_QUEUE!r} with the protocol hworker, got {names.shown(queue)}. A pool "
        f"has one queue: give other jobs a pool of their own, beside {names.shown(name)}."
    )
