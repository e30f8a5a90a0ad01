"""Schedules in tests: the code's schedules are stored, and ticks come as a test lets time pass."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from tenure.client.client import new_id
from tenure.core import limits
from tenure.core.schedules import rules
from tenure.core.schedules.schedule import NO_MORE, SchedulePort, ScheduleSpec, StoredSchedule
from tenure.core.steps import Steps

if TYPE_CHECKING:
    from tenure.client.client import Client

SOURCE: Final = "tests"
"""The app that schedules of the code belong to, in a test."""
TICKS_MOST: Final = 10_000
"""Ticks of one schedule that one test lets pass at a time."""


class PassedTime:
    """How far `app.testing().advance` has moved the jobs of an app. Schedules are by the calendar, so theirs stay.

    `until_ms`: up to here ticks have come, by Redis' clock. A schedule that was added or resumed since has no tick
    before that.
    """

    ms = 0
    until_ms = 0

    def reset(self) -> None:
        self.ms = self.until_ms = 0


def pass_ticks(client: Client, specs: Iterable[ScheduleSpec], passed: PassedTime) -> Steps[None]:
    """Enqueue the job of each tick up to the time that has passed. Before, store the schedules that Redis lacks.

    Each tick comes, as if a worker had been there; neither `catch_up` nor `overlap` leaves one out. The planned time
    of a schedule moves on to the first tick that has not come. Raises `AssertionError` for too many ticks.
    """
    until_ms = 0
    schedules = client.engine.schedules
    if schedules is None:
        return
    for spec in specs:
        now_ms, known = yield from schedules.schedule(spec.queue, spec.name)
        if known is None:
            yield from _put(schedules, spec, "", rules.first(spec, now_ms))
    for queue in (yield from client.engine.queues()):
        cursor = 0
        for _ in range(limits.PURGE_ROUNDS):
            page = yield from schedules.schedule_page(queue, cursor)
            for stored in page.schedules:
                yield from _pass(client, schedules, stored, passed.until_ms, page.now_ms + passed.ms)
            until_ms = page.now_ms + passed.ms
            cursor = page.cursor
            if not cursor:
                break
    passed.until_ms = max(passed.until_ms, until_ms)


def _pass(client: Client, schedules: SchedulePort, stored: StoredSchedule, after_ms: int, until_ms: int) -> Steps[None]:
    spec, state = stored.spec, stored.state
    if spec is None or state.paused_ms or not NO_MORE < state.fire_ms <= until_ms:
        return
    begin_ms = max(state.planned_ms - 1, after_ms - spec.jitter_ms)
    found = (at for at in rules.ticks(spec, begin_ms) if rules.fire_of(spec, at) > after_ms)
    due = list(islice(takewhile(lambda at: rules.fire_of(spec, at) <= until_ms, found), TICKS_MOST + 1))
    if len(due) > TICKS_MOST:
        raise AssertionError(
            f"Schedule {spec.name!r} has more than {TICKS_MOST:,} ticks in this time. Advance in steps."
        )
    if (yield from _put(schedules, spec, stored.digest, rules.following(spec, due[-1] if due else after_ms))):
        yield from client.engine.enqueue([spec.job(new_id(), at) for at in due])


def _put(schedules: SchedulePort, spec: ScheduleSpec, expected: str, planned_ms: int) -> Steps[bool]:
    fire_ms = rules.fire_of(spec, planned_ms)
    return schedules.put_schedule(spec, rules.digest_of(spec), expected, planned_ms, fire_ms)
