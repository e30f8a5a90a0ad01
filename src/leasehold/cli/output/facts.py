"""What is known of one thing as lines of text, a name and a value each; and times and amounts as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from leasehold.cli.errors import visible
from leasehold.cli.output.tables import ago
from leasehold.core import limits

_NAME: Final = 12
_WHOLE: Final = 1e15
"""Above it, a float says nothing about single units."""


def facts(known: Sequence[tuple[str, str | None]]) -> str:
    """A line for each fact that is not None. What may quote a URL with a password is to be masked before."""
    return "\n".join(f"{name:<{_NAME}}{indented(value, _NAME)}" for name, value in known if value is not None)


def indented(text: str, by: int) -> str:
    """Text of several lines below a name: no line of it can be taken for one of ours."""
    return visible(text).rstrip("\n").replace("\n", "\n" + " " * by)


def distance(at_ms: int, now_ms: float) -> str:
    return f"in {ago(at_ms - now_ms)}" if at_ms > now_ms else f"{ago(now_ms - at_ms)} ago"


def time_of(at_ms: int | None, now_ms: float) -> str | None:
    """A time and how far it is, as in `2024-05-01 10:00:00+0000 (5m ago)`."""
    if at_ms is None:
        return None
    try:
        shown = datetime.fromtimestamp(at_ms / limits.SECOND).astimezone().strftime("%Y-%m-%d %H:%M:%S%z")
    except (OverflowError, ValueError, OSError):  # a number that another program wrote
        return str(at_ms)
    return f"{shown} ({distance(at_ms, now_ms)})"


def amount(current: float, total: float | None) -> str:
    """How much of how much.

    >>> amount(37.0, 120.0)
    '37 of 120 (30%)'
    """
    if total is None:
        return _number(current)
    share = percent(current, total)
    return f"{_number(current)} of {_number(total)}" + ("" if share is None else f" ({share}%)")


def percent(current: float, total: float | None) -> int | None:
    """Rounded down: 100 is said of what is done only. None where it means nothing."""
    if total is None or not total > 0:
        return None
    share = 100 * (current / total)
    return math.floor(share) if math.isfinite(share) else None


def _number(value: float) -> str:
    return f"{int(value):,}" if abs(value) < _WHOLE and value == int(value) else f"{value:,.6g}"
