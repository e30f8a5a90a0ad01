"""Cron expressions and intervals: what is refused, and when they are due in the nights in which clocks change."""

from __future__ import annotations

import random
import sys
import zoneinfo
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from tenure.core import limits
from tenure.core.errors import InvalidArgument
from tenure.core.schedules.when import ALIASES, MAX_EXPRESSION, Cron, Every, from_ms, interval, moment, to_ms

NEW_YORK, BERLIN, LORD_HOWE = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"


def due(expression: str, tz: str, day: str, hours: int = 24) -> list[str]:
    """When it is due on this day by the clock of the zone: the time and the offset in minutes."""
    zone = ZoneInfo(tz)
    midnight = datetime.fromisoformat(day).replace(tzinfo=zone)
    end = to_ms(midnight.astimezone(UTC)) + hours * limits.HOUR
    found = []
    for ms in islice(Cron(expression, tz).after(to_ms(midnight) - 1), 1_000):
        if ms >= end:
            break
        at = from_ms(ms).astimezone(zone)
        offset = at.utcoffset()
        assert offset is not None
        found.append(f"{at:%H:%M} {int(offset.total_seconds()) // 60:+d}")
    return found


def test_utc_needs_no_files_of_time_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.reset_tzpath([])
    ZoneInfo.clear_cache()
    try:
        with pytest.raises(InvalidArgument, match="install the zones"):
            Cron("0 9 * * *", tz="Europe/Berlin")
        at = datetime(2026, 6, 1, 9, tzinfo=UTC)
        assert next(Cron("0 9 * * *").after(to_ms(at) - 1)) == to_ms(at)
        assert next(Cron("*/5 * * * *").after(to_ms(at) - 1)) == to_ms(at)
    finally:
        zoneinfo.reset_tzpath()


@pytest.mark.parametrize(
    ("expression", "tz", "day", "expected"),
    [
        # Clocks go from 02:00 to 03:00.
        ("30 2 * * *", NEW_YORK, "2026-03-08", ["03:00 -240"]),
        ("0 30 2 * * *", NEW_YORK, "2026-03-08", ["03:00 -240"]),
        ("0,30 2,3 * * *", NEW_YORK, "2026-03-08", ["03:00 -240", "03:30 -240"]),
        ("0 * * * *", NEW_YORK, "2026-03-08", None),
        ("30 2 * * *", BERLIN, "2026-03-29", ["03:00 +120"]),
        # From 02:00 back to 01:00.
        ("30 1 * * *", NEW_YORK, "2026-11-01", ["01:30 -240"]),
        ("0 30 1 * * *", NEW_YORK, "2026-11-01", ["01:30 -240"]),
        ("0 0-4 * * *", NEW_YORK, "2026-11-01", ["00:00 -240", "01:00 -240", "02:00 -300", "03:00 -300", "04:00 -300"]),
        ("30 2 * * *", BERLIN, "2026-10-25", ["02:30 +120"]),
        # By half an hour: from 02:00 to 02:30, and from 02:00 back to 01:30.
        ("15 2 * * *", LORD_HOWE, "2026-10-04", ["02:30 +660"]),
        ("45 1 * * *", LORD_HOWE, "2026-04-05", ["01:45 +660"]),
        (
            "0 */3 * * *",
            LORD_HOWE,
            "2026-10-04",
            [f"{hour:02}:00 {'+630' if hour < 2 else '+660'}" for hour in range(0, 24, 3)],
        ),
    ],
)
def test_a_time_that_an_expression_names_is_due_once_a_day(
    expression: str, tz: str, day: str, expected: list[str] | None
) -> None:
    found = due(expression, tz, day, 24)
    if expected is not None:
        end = len(expected)
        assert found[:end] == expected
    else:
        assert len(found) == 24


def test_an_expression_with_a_star_follows_the_clock() -> None:
    assert due("*/30 * * * *", NEW_YORK, "2026-03-08", 4) == [
        *("00:00 -300", "00:30 -300", "01:00 -300", "01:30 -300", "03:00 -240", "03:30 -240"),
        *("04:00 -240", "04:30 -240"),
    ]
    assert due("*/30 * * * *", NEW_YORK, "2026-11-01", 4) == [
        *("00:00 -240", "00:30 -240", "01:00 -240", "01:30 -240", "01:00 -300", "01:30 -300"),
        *("02:00 -300", "02:30 -300"),
    ]


@pytest.mark.parametrize(
    "tz", [NEW_YORK, BERLIN, LORD_HOWE, "UTC", "Asia/Kathmandu", "America/St_Johns", "Africa/Casablanca"]
)
@pytest.mark.parametrize(
    "expression", ["30 2 * * *", "0 1,2,3 * * *", "*/15 * * * *", "0 */2 * * *", "7 4 1 * *", "59 23 * * 0"]
)
def test_it_does_not_matter_from_where_the_times_are_computed(expression: str, tz: str) -> None:
    """A worker computes the next time from the last one; another one from any time in between."""
    cron, rand = Cron(expression, tz), random.Random(f"{expression} {tz}")
    begin = to_ms(datetime(2026, rand.choice([3, 4, 9, 10]), 20, tzinfo=UTC))
    times = list(islice(cron.after(begin), 400))
    assert times == sorted(set(times))
    for n in rand.sample(range(1, len(times)), 60):
        before = rand.randrange(times[n - 1], times[n])
        assert next(cron.after(before)) == times[n]
        assert next(cron.after(times[n] - 1)) == times[n]


def test_aliases() -> None:
    begin = to_ms(datetime(2026, 5, 13, 12, 30, tzinfo=UTC))
    found = {alias: f"{from_ms(next(Cron(alias).after(begin))):%m-%d %H:%M}" for alias in ALIASES}
    assert found == {
        "@hourly": "05-13 13:00",
        "@daily": "05-14 00:00",
        "@weekly": "05-17 00:00",
        "@monthly": "06-01 00:00",
        "@yearly": "01-01 00:00",
    }
    assert Cron("@DAILY ").explain() == "At 00:00 every day (UTC)"


@pytest.mark.parametrize(
    ("weekdays", "days"),
    [("mon-sun", "18 19 20 21 22 23 24"), ("SAT-SUN", "23 24"), ("sun-sun", "24"), ("mon,fri-sun", "18 22 23 24")],
)
def test_a_range_of_weekdays_may_end_on_sunday(weekdays: str, days: str) -> None:
    monday = to_ms(datetime(2026, 5, 18, tzinfo=UTC))
    week = [from_ms(ms) for ms in islice(Cron(f"0 0 * * {weekdays}").after(monday - 1), 7)]
    assert " ".join(f"{at:%d}" for at in week if at < from_ms(monday + 7 * limits.DAY)) == days


BAD = [
    *("", "* * * *", "* * * * * * *", "60 * * * *", "a b c d e", "@never", "0 0 31 2 *", "0 0 */29 2 mon#5"),
    *("*/0 * * * *", "٣ * * * *", "0 0 * * 1L2", "1-0 * * * *", "0 0 0 * *", "x" * (MAX_EXPRESSION + 1)),
    *(",".join("1" * MAX_EXPRESSION) + " * * * *", 7, None, "*/61 * * * *", "0 1-5/25 * * *", "0 0 * * */8"),
]


@pytest.mark.parametrize("expression", BAD)
def test_bad_expressions_are_refused(expression: object) -> None:
    with pytest.raises(InvalidArgument, match="Cron: expression must be"):
        Cron(expression)  # type: ignore[arg-type]


@pytest.mark.parametrize("tz", ["", "Mars/Phobos", "../../etc/passwd", "Europe", "europe\0", None, 1, "/etc/localtime"])
def test_bad_time_zones_are_refused(tz: object) -> None:
    with pytest.raises(InvalidArgument, match="Cron: tz must be the name of a time zone"):
        Cron("@daily", tz)  # type: ignore[arg-type]


def test_any_text_is_either_refused_or_due_soon() -> None:
    """No expression raises another error, or takes long."""
    rand = random.Random(5)
    parts = ["*", "1", "31", "L", "LW", "mon", "jan", "0", "99", "*/7", "5", "2", "1-5", "2,3", "5L", "1#2", "1/9"]
    glue = ["", ",", "/", "-", "#", " "]
    refused = 0
    for _ in range(3_000):
        words = [rand.choice(["*", "1", "2", rand.choice(parts)]) for _ in range(rand.choice([5, 5, 6]))]
        if rand.random() < 0.3:
            words[rand.randrange(5)] += rand.choice(glue) + rand.choice(parts)
        try:
            cron = Cron(" ".join(words))
        except InvalidArgument:
            refused += 1
        else:
            assert next(cron.after(1_700_000_000_000)) > 1_700_000_000_000
            assert cron.explain()
    assert 0 < refused < 3_000


def test_every_counts_from_1970_or_from_an_anchor() -> None:
    minutes = Every(minutes=5)
    assert list(islice(minutes.after(1), 2)) == [300_000, 600_000]
    assert next(minutes.after(300_000)) == 600_000
    assert list(islice(minutes.after(0, anchor_ms=7_000), 2)) == [7_000, 307_000]
    assert next(minutes.after(7_000, anchor_ms=7_000)) == 307_000
    assert Every(hours=1) == Every(minutes=60) == Every(seconds=3600)
    assert len({Every(hours=1), Every(minutes=60)}) == 1


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"seconds": 0.5},
        {"seconds": -60},
        {"days": 4000},
        {"minutes": float("nan")},
        {"hours": "1"},
        {"weeks": True},
    ],
)
def test_bad_intervals_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="Every"):
        Every(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ms", "words"),
    [(1_000, "1 second"), (90_500, "1 minute 30.5 seconds"), (300_000, "5 minutes"), (90_000_000, "1 day 1 hour")],
)
def test_intervals_in_words(ms: int, words: str) -> None:
    assert interval(ms) == words


def test_explain() -> None:
    assert Cron("0 9 * * mon-fri", BERLIN).explain() == "At 09:00 on Monday through Friday (Europe/Berlin)"
    assert Every(minutes=5).explain() == "Every 5 minutes"


def test_moments_have_a_zone() -> None:
    assert moment(datetime(1970, 1, 2, tzinfo=UTC), "start") == limits.DAY
    assert moment(None, "start") is None
    for value in (datetime(2026, 1, 1), "2026-01-01", datetime(1969, 1, 1, tzinfo=UTC)):
        with pytest.raises(InvalidArgument, match="start must be a"):
            moment(value, "start")  # type: ignore[arg-type]


def test_a_day_of_the_month_or_a_weekday_that_begins_with_a_star_narrows_the_other() -> None:
    def days(expression: str) -> list[int]:
        first, last = (to_ms(datetime(2026, month, 1, tzinfo=UTC)) for month in (11, 12))
        return [from_ms(at).day for at in islice(Cron(expression).after(first - 1), 31) if at < last]

    assert days("0 0 */2 * mon") == [9, 23]
    assert days("0 0 1 * mon") == [1, 2, 9, 16, 23, 30]
    assert days("0 0 2,5,10 * */2") == [5, 10]
