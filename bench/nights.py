"""Which schedulers run a job twice, or not at all, in the nights in which clocks change.

    pip install celery APScheduler croniter arq crontab
    python -m bench.nights

Prints a table in Markdown: for each night and expression when the job would run, by the arithmetic of each library that
is installed. None of them waits: each is asked for the next time, from the last one on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from importlib.util import find_spec
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from tenure.core.schedules.when import Cron, from_ms, to_ms

MOST: Final = 100
"""Runs of one night that are looked at."""
STEP: Final = timedelta(seconds=30)
"""How often the loop of celery's beat looks."""


@dataclass(frozen=True, slots=True)
class Night:
    """One expression in one night. `right`: when it should run, by the wall clock of the zone, with its offset."""

    zone: str
    day: str
    change: str
    expression: str
    right: tuple[str, ...]


_STAR: Final = ("01:00-0400", "01:30-0400", "01:00-0500", "01:30-0500")
NIGHTS: Final = (
    Night("America/New_York", "2026-03-08", "02:00 → 03:00", "30 2 * * *", ("03:00-0400",)),
    Night("America/New_York", "2026-03-08", "02:00 → 03:00", "0 3 * * *", ("03:00-0400",)),
    Night("America/New_York", "2026-11-01", "02:00 → 01:00", "30 1 * * *", ("01:30-0400",)),
    Night("America/New_York", "2026-11-01", "02:00 → 01:00", "*/30 1 * * *", _STAR),
    Night("Europe/Berlin", "2026-03-29", "02:00 → 03:00", "30 2 * * *", ("03:00+0200",)),
    Night("Europe/Berlin", "2026-10-25", "03:00 → 02:00", "30 2 * * *", ("02:30+0200",)),
    Night("Australia/Lord_Howe", "2026-10-04", "02:00 → 02:30", "15 2 * * *", ("02:30+1100",)),
    Night("Australia/Lord_Howe", "2026-04-05", "02:00 → 01:30", "45 1 * * *", ("01:45+1100",)),
)
Runs = Callable[[str, ZoneInfo, datetime, datetime], Iterator[datetime]]


def tenure(expression: str, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    return map(from_ms, Cron(expression, zone.key).after(to_ms(begin)))


def croniter(expression: str, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    from croniter import croniter as iterator

    times = iterator(expression, begin.astimezone(zone))
    while True:
        yield times.get_next(datetime)


def apscheduler(expression: str, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    from apscheduler.triggers.cron import CronTrigger

    trigger = CronTrigger.from_crontab(expression, timezone=zone)
    at: datetime | None = None
    now = begin.astimezone(zone)
    while (at := trigger.get_next_fire_time(at, now)) is not None:
        yield at
        now = at


def crontab(expression: str, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    from crontab import CronTab

    times, now = CronTab(expression), begin
    while True:
        now += timedelta(seconds=times.next(now=now.astimezone(zone), default_utc=False))
        yield now


def arq(expression: str, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    from arq.cron import next_cron

    minute, hour, *_ = expression.split()
    minutes = {0, 30} if minute == "*/30" else int(minute)
    now = begin.astimezone(zone)
    while True:
        at = next_cron(now, hour=int(hour), minute=minutes, second=0, microsecond=0)
        # As its worker does: it runs the job as soon as the time is past, and asks again from then on.
        now = max(at.astimezone(UTC), now.astimezone(UTC) + timedelta(milliseconds=1)).astimezone(zone)
        yield at


def celery(expression: str, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    from celery import Celery
    from celery.schedules import crontab as crontab_of_celery

    minute, hour, *_ = expression.split()
    app = Celery("nights")
    app.conf.update(timezone=zone.key, enable_utc=True)
    now = last = begin.astimezone(zone)
    due = crontab_of_celery(minute=minute, hour=hour, app=app, nowfun=lambda: now)
    while now < end:
        if due.is_due(last).is_due:
            yield now
            last = now
        now = (now.astimezone(UTC) + STEP).astimezone(zone)


SCHEDULERS: Final[dict[str, Runs]] = {
    "Tenure": tenure,
    "celery": celery,
    "APScheduler": apscheduler,
    "croniter": croniter,
    "arq": arq,
    "crontab": crontab,
}


def runs_of(night: Night, runs: Runs) -> tuple[str, ...]:
    """When the job runs on this day, by the wall clock."""
    zone = ZoneInfo(night.zone)
    begin = datetime.fromisoformat(night.day).replace(tzinfo=zone).astimezone(UTC)
    end = begin + timedelta(hours=22)
    found: list[datetime] = []
    for at in islice(runs(night.expression, zone, begin, end), MOST):
        if at.astimezone(UTC) >= end:
            break
        found.append(at.astimezone(UTC))
    return tuple(f"{at.astimezone(zone):%H:%M%z}" for at in found)


def verdict(night: Night, found: tuple[str, ...]) -> str:
    """The result in words: right, or what is wrong."""
    shown = ", ".join(found) or "never"
    if found == night.right:
        return "right"
    if len(found) > len(night.right):
        return f"**{len(found)} runs**: {shown}"
    if len(found) < len(night.right):
        return f"**{len(found)} of {len(night.right)} runs**: {shown}" if found else "**no run**"
    return f"{shown}"


def versions(known: dict[str, Runs]) -> str:
    """The versions of the libraries in the table."""
    return ", ".join(f"{name} {metadata.version(name)}" for name in known if name != "Tenure")


def main() -> None:
    """Print the table, with the libraries that are installed."""
    known: dict[str, Runs] = {}
    for name, runs in SCHEDULERS.items():
        if find_spec(name.lower()) is None:
            sys.stderr.write(f"{name} is not installed\n")
        else:
            known[name] = runs
    out = sys.stdout.write
    out(f"| night | expression | should run at | {' | '.join(known)} |\n|{'---|' * (len(known) + 3)}\n")
    for night in NIGHTS:
        cells = [verdict(night, runs_of(night, runs)) for runs in known.values()]
        place = f"{night.zone.split('/')[1].replace('_', ' ')} {night.day}, {night.change}"
        out(f"| {place} | `{night.expression}` | {', '.join(night.right)} | {' | '.join(cells)} |\n")
    out(f"\n{versions(known)}, Python {sys.version.split()[0]}\n")


if __name__ == "__main__":
    main()
