"""When a schedule is due: cron expressions in a time zone, and fixed intervals. Pure: the time is a parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, TypeAlias

from tenure.core import limits, names
from tenure.core.errors import invalid

ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
MAX_EXPRESSION: Final = 200
"""The most characters of a cron expression. With at most 50 years to search, this bounds the work for one."""
MIN_EVERY_MS: Final = limits.SECOND
"""The shortest interval of a schedule."""
LAST_YEAR: Final = 2999
"""A schedule has no time after this year."""
_LAST_MS: Final = 32_503_680_000_000
"""The end of that year, in milliseconds since 1970."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = datetime(2024, 1, 1)
"""Expressions are tried from here on. The calendar repeats after 28 years, and cronsim searches 50."""
_FIELDS: Final = "five fields (minute, hour, day, month, weekday) or six (second first), or one of "
_SIZES: Final = {"weekday": 7, "month": 12, "day": 31, "hour": 24, "minute": 60, "second": 60}
"""The fields from the last one on, and how many values each has: a longer step would not be one."""
_KEPT: Final = 1_024
"""Expressions that stay checked."""


@dataclass(frozen=True, slots=True)
class Cron:
    """Due by a cron expression, by the wall clock of a time zone.

        Cron("0 9 * * mon-fri", tz="Europe/Berlin")
        Cron("@daily")

    `expression`: five fields, or six with the second first; or "@hourly", "@daily", "@weekly", "@monthly", "@yearly".
    When clocks change: a time that the expression names (`30 2 * * *`) is due exactly once a day, also if the clock
    shows it twice (the first counts) or never (the moment of the change counts). An expression with a minute or hour
    begins with `*` is due whenever the clock shows a time that fits. Raises `InvalidArgument`, also for an expression
    that is never due and for an unknown time zone.
    """

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        _parsed(_text(self.expression))
        _zone(self.tz)

    def explain(self) -> str:
        """Describe it in English: "At 09:00 on Monday through Friday (Europe/Berlin)"."""
        from cronsim import CronSim

        return f"{CronSim(_parsed(self.expression), _FIRST).explain()} ({self.tz})"

    def after(self, ms: int) -> Iterator[int]:
        """Yield the due times after `ms`, in order, in milliseconds since 1970."""
        expression, zone = _parsed(self.expression), _zone(self.tz)
        *_, minute, hour, _, _, _ = expression.split()
        if ms >= _LAST_MS:
            return iter(())
        follows_clock = minute.startswith("*") or hour.startswith("*")
        return (_shown if follows_clock else _named)(expression, zone, ms)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Every:
    """Due at a fixed interval, counted from 1970 (UTC) or from the `start` of the schedule.

        Every(minutes=5)
        Every(hours=1, minutes=30)

    The interval is real time: `Every(days=1)` moves by an hour when clocks change, `Cron("0 9 * * *", tz=...)` does
    not. Raises `InvalidArgument` for less than a second and for more than ten years.
    """

    weeks: float = 0
    days: float = 0
    hours: float = 0
    minutes: float = 0
    seconds: float = 0

    def __post_init__(self) -> None:
        _ = self.ms

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Every) and self.ms == other.ms

    def __hash__(self) -> int:
        return hash(self.ms)

    @property
    def ms(self) -> int:
        """The interval in milliseconds."""
        parts = {"weeks": 7 * 86_400, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
        total = 0.0
        for name, seconds in parts.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise invalid(f"Every: {name}", "a number", type(value).__name__)
            total += value * seconds
        return names.duration_ms(total, "Every", least_ms=MIN_EVERY_MS, most_ms=limits.MAX_DELAY_MS)

    def explain(self) -> str:
        """Describe it in English: "Every 5 minutes"."""
        return f"Every {interval(self.ms)}"

    def after(self, ms: int, anchor_ms: int = 0) -> Iterator[int]:
        """Yield the due times after `ms`, in order, in milliseconds since 1970. `anchor_ms` is one of them."""
        step = self.ms
        at = anchor_ms + ((ms - anchor_ms) // step + 1) * step
        while at < _LAST_MS:
            yield at
            at += step


When: TypeAlias = Cron | Every


def interval(ms: int) -> str:
    """Return an interval in words: "5 minutes", "1 hour 30 minutes"."""
    words = []
    for unit, size in (("day", limits.DAY), ("hour", limits.HOUR), ("minute", limits.MINUTE)):
        count, ms = divmod(ms, size)
        words += [f"{count:,} {unit}{'s' * (count != 1)}"] if count else []
    if ms:
        seconds = ms / limits.SECOND
        words.append(f"{seconds:g} second{'s' * (seconds != 1)}")
    return " ".join(words)


def moment(value: datetime | None, field: str) -> int | None:
    """Return a time as milliseconds since 1970. Raises `InvalidArgument` for one without a time zone."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise invalid(field, "a datetime with a time zone", type(value).__name__)
    if value.utcoffset() is None:
        raise invalid(field, "a datetime with a time zone", "one without", "Write datetime(..., tzinfo=timezone.utc).")
    ms = to_ms(value)
    if not 0 <= ms < _LAST_MS:
        raise invalid(field, f"a time from 1970 to {LAST_YEAR}", f"the year {value.year}")
    return ms


def to_ms(value: datetime) -> int:
    """Return a time with a zone as milliseconds since 1970."""
    return (value - _EPOCH) // timedelta(milliseconds=1)


def from_ms(ms: int) -> datetime:
    """Return milliseconds since 1970 as a time in UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


def _text(expression: object) -> str:
    if not isinstance(expression, str):
        raise invalid("Cron: expression", f"text with {_FIELDS}{', '.join(ALIASES)}", type(expression).__name__)
    if len(expression) > MAX_EXPRESSION:
        raise invalid("Cron: expression", f"at most {MAX_EXPRESSION} characters", f"{len(expression):,}")
    return expression


@lru_cache(maxsize=_KEPT)
def _parsed(expression: str) -> str:
    """Return the fields of an expression or an alias. Raises `InvalidArgument`."""
    fields = ALIASES.get(expression.strip().lower(), expression).split()
    rule = f"{_FIELDS}{', '.join(ALIASES)}"
    if len(fields) not in (5, 6):
        raise invalid("Cron: expression", rule, names.shown(expression))
    for field, (unit, size) in zip(reversed(fields), _SIZES.items(), strict=False):
        if any(int(step) > size for step in re.findall(r"/([0-9]+)", field)):
            raise invalid("Cron: expression", f"at most /{size} in its {unit}s", names.shown(expression))
    # As the last day of a range (`mon-sun`), Sunday is 7.
    fields[-1] = re.sub("(?<!sun)-sun", "-7", fields[-1], flags=re.IGNORECASE)
    text = " ".join(fields)
    from cronsim import CronSim, CronSimError  # here: most programs have no cron expression

    try:
        due = next(CronSim(text, _FIRST), None)
    except CronSimError as error:
        raise invalid("Cron: expression", rule, f"{names.shown(expression)} ({error})") from None
    except (ValueError, AssertionError, OverflowError, TypeError):
        raise invalid("Cron: expression", rule, names.shown(expression)) from None
    if due is None:
        raise invalid("Cron: expression", "due on a day that exists", f"{names.shown(expression)}, which never is")
    return text


def _zone(tz: object) -> tzinfo:
    if tz == "UTC":
        return UTC  # also on a machine without the files of time zones
    rule = "the name of a time zone that this machine knows, such as Europe/Berlin"
    if not isinstance(tz, str):
        raise invalid("Cron: tz", rule, type(tz).__name__)
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(tz)
    except (OSError, ValueError, LookupError):
        advice = "If the name is right, install the zones: `pip install tzdata`."
        raise invalid("Cron: tz", rule, names.shown(tz), advice) from None


def _named(expression: str, zone: tzinfo, ms: int) -> Iterator[int]:
    """The times that an expression names, each once: in the order of the wall clock, which is read as one that never
    changes."""
    from cronsim import CronSim

    local = from_ms(ms).astimezone(zone).replace(tzinfo=None)
    for wall in CronSim(expression, local):
        if wall.year > LAST_YEAR:
            return
        at = _instant(wall, zone)
        if at > ms:
            ms = at
            yield at


def _instant(wall: datetime, zone: tzinfo) -> int:
    """When the clock shows this time first; if it never does, when it is set ahead past it."""
    at = wall.replace(tzinfo=zone).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) == wall:
        return to_ms(at)
    return to_ms(_change(zone, wall.replace(tzinfo=zone, fold=1).astimezone(UTC), at))


def _shown(expression: str, zone: tzinfo, ms: int) -> Iterator[int]:
    """Whenever the wall clock shows a time that fits. Between two changes of the clock, both differ by a constant."""
    from cronsim import CronSim

    at = from_ms(ms).replace(microsecond=0)
    offset = _offset(zone, at)
    while True:
        changed = None
        for wall in CronSim(expression, (at + offset).replace(tzinfo=None)):
            due = wall.replace(tzinfo=UTC) - offset
            if wall.year > LAST_YEAR:
                return
            if _offset(zone, due) != offset:
                changed = _change(zone, at, due)
                break
            at = due
            yield to_ms(due)
        if changed is None:
            return
        at, offset = changed - timedelta(seconds=1), _offset(zone, changed)


def _offset(zone: tzinfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def _change(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """The second at which the clock is changed, between two times with different offsets."""
    old = _offset(zone, before)
    while (seconds := (after - before) // timedelta(seconds=1)) > 1:
        middle = before + timedelta(seconds=seconds // 2)
        if _offset(zone, middle) == old:
            before = middle
        else:
            after = middle
    return after
