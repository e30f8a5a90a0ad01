"""How the pages show values: times, numbers, small charts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from tenure.core import limits

BYTES: Final = "surrogateescape"
"""How bytes that are no UTF-8 are kept in a text: ids of other programs may have some."""
SQUARE: Final = 10
"""The side of a member in a map of a flow, with the space behind it."""
GAP: Final = 5
ROW: Final = 50
"""Members in a row of a map."""
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def span(ms: float | None) -> str:
    """Return a duration in one or two units: "1h 30m"."""
    if ms is None:
        return ""
    if 0 <= ms < limits.SECOND:
        return f"{ms:.0f}ms"
    rest, words = max(0, int(ms)) // limits.SECOND, []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        words += [f"{count}{unit}"] if count else []
    return " ".join(words[:2]) or "0s"


def seconds(value: float | None) -> str:
    """Return seconds as a duration."""
    if value is not None and 1 <= value < 10:
        return f"{value:.1f}s"
    return "" if value is None else span(value * limits.SECOND)


def moment(ms: int | None, kind: str = "ago") -> Markup:
    """Return a `time` element. The script writes it in the local time zone; without one it is in UTC.

    `kind`: `ago` for the distance from now, `at` for the time itself.
    """
    if ms is None:
        return Markup("")
    try:
        at = datetime.fromtimestamp(ms / limits.SECOND, UTC)
    except (OverflowError, ValueError, OSError):  # a number that another program wrote
        return escape(str(ms))
    text = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    distance = ms - time.time() * limits.SECOND
    words = f"in {span(distance)}" if distance > 0 else f"{span(-distance)} ago"
    return Markup('<time datetime="{}" data-ms="{}" data-kind="{}" title="{}">{}</time>').format(
        at.isoformat(), ms, kind, text, words if kind == "ago" else text
    )


def number(value: float | None) -> str:
    """Return a number with commas."""
    return "" if value is None else f"{value:,}"


def path(*parts: str) -> str:
    """Return the parts of a path, encoded."""
    return "/".join(quote(part, safe="", errors=BYTES) for part in parts)


def query(**values: Any) -> str:
    """Return a query string of the values that are set."""
    return urlencode({name: value for name, value in values.items() if value not in (None, "")}, errors=BYTES)


def flow_map(flow: dict[str, Any]) -> Markup:
    """Return a flow as SVG: a square for each member, in rows; a frame around each flow; a chain goes to the right."""
    width, height, parts = _drawn(flow)
    text = Markup(
        '<svg class="flow" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">{3}</svg>'
    )
    label = f"{flow['completed']:,} of {flow['total']:,} members have completed"
    return text.format(width, height, label, Markup("").join(parts))


def _drawn(flow: dict[str, Any], x: int = 0, y: int = 0) -> tuple[int, int, list[Markup]]:
    """The width and height of a flow at a place, and what is drawn."""
    parts: list[Markup] = []
    at, below, right, bottom = x + GAP, y + GAP, x + GAP, y + GAP
    for one in flow["members"]:
        if "members" in one:
            wide, high, inner = _drawn(one, at, below)
            parts += inner
        else:
            count = one["last"] - one["first"] + 1
            in_row = min(count, ROW)
            wide, high = in_row * SQUARE, -(-count // ROW) * SQUARE
            parts += [
                Markup('<rect class="{}" x="{}" y="{}" width="8" height="8"><title>{}: {}</title></rect>').format(
                    one["state"], at + n % ROW * SQUARE, below + n // ROW * SQUARE, one["first"] + n, one["state"]
                )
                for n in range(count)
            ]
        right, bottom = max(right, at + wide), max(bottom, below + high)
        if flow["is_chain"]:
            at = right + GAP
        else:
            below = bottom + GAP
    width, height = right + GAP - x, bottom + GAP - y
    frame = Markup('<rect class="frame {}" x="{}" y="{}" width="{}" height="{}" rx="3"/>')
    return width, height, [frame.format(flow["state"], x + 1, y + 1, width - 2, height - 2), *parts]


def spark(values: Sequence[float], label: str) -> Markup:
    """Return a small chart as SVG: a bar for each value."""
    width, height, top = 3 * len(values), 24, max(values, default=0) or 1
    bars = "".join(
        f"M{3 * n} {height}v-{height * value / top:.0f}h2V{height}" for n, value in enumerate(values) if value
    )
    text = Markup('<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}"><path d="{}"/></svg>')
    return text.format(max(1, width), height, label, bars)
