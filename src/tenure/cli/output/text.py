"""Values as text: facts of one thing, a name and a value in each line; counts, times, amounts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from tenure.cli.errors import visible
from tenure.core import limits
from tenure.manage.documents import percent

_NAME: Final = 12
"""The width of names, unless one is longer."""
_WHOLE: Final = 1e15
"""Above it, a float has no single units."""


def facts(known: Sequence[tuple[str, str | None]]) -> str:
    """Format a line for each fact that is not None. The caller masks texts that may quote a URL."""
    shown = [(name, value) for name, value in known if value is not None]
    width = max(_NAME, *(len(name) + 2 for name, _ in shown))
    return "\n".join(f"{name:<{width}}{indented(value, width)}" for name, value in shown)


def indented(text: str, by: int) -> str:
    """Indent all lines but the first, so that none looks like a fact of its own."""
    return visible(text).rstrip("\n").replace("\n", "\n" + " " * by)


def jobs_text(count: int) -> str:
    """Format a number of jobs.

    >>> jobs_text(1), jobs_text(1_200)
    ('1 job', '1,200 jobs')
    """
    return "1 job" if count == 1 else f"{count:,} jobs"


def ago(ms: float) -> str:
    """Format a duration in one unit. A clock behind the clock of Redis gives 0s.

    >>> ago(5_400_000)
    '1h'
    """
    seconds = max(0, int(ms)) // limits.SECOND
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def took(seconds: float) -> str:
    """Format a measured time, with two or three digits.

    >>> took(0.0042), took(3.14159), took(95.0)
    ('4ms', '3.1s', '1m')
    """
    if seconds < 1:
        return f"{seconds * limits.SECOND:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 60 else ago(seconds * limits.SECOND)


def distance(at_ms: int, now_ms: float) -> str:
    return f"in {ago(at_ms - now_ms)}" if at_ms > now_ms else f"{ago(now_ms - at_ms)} ago"


def time_of(at_ms: int | None, now_ms: float) -> str | None:
    """Format a time and its distance, as in `2024-05-01 10:00:00+0000 (5m ago)`."""
    if at_ms is None:
        return None
    try:
        shown = datetime.fromtimestamp(at_ms / limits.SECOND).astimezone().strftime("%Y-%m-%d %H:%M:%S%z")
    except (OverflowError, ValueError, OSError):  # a number that another program wrote
        return str(at_ms)
    return f"{shown} ({distance(at_ms, now_ms)})"


def amount(current: float, total: float | None) -> str:
    """Format a progress.

    >>> amount(37.0, 120.0)
    '37 of 120 (30%)'
    """
    if total is None:
        return _number(current)
    share = percent(current, total)
    return f"{_number(current)} of {_number(total)}" + ("" if share is None else f" ({share}%)")


def _number(value: float) -> str:
    return f"{int(value):,}" if abs(value) < _WHOLE and value == int(value) else f"{value:,.6g}"
