"""The rules of schedules: which tick is next, and what becomes of ticks that were missed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Final

from msgspec import Struct

from tenure.core import limits
from tenure.core.schedules.schedule import NO_MORE, CatchUp, ScheduleSpec, encode_spec
from tenure.core.schedules.when import Every

SKIP_WINDOW_MS: Final = limits.MINUTE
"""How late a tick of a schedule that catches nothing up may be."""
LOOK_MOST: Final = 10_000
"""Ticks that one decision looks at. More missed ones are left out, and counted as this many."""
DECISIONS_KEPT: Final = 100
"""Decisions that a worker remembers, about schedules with different times: as many as one page has schedules."""
_GROWTH: Final = 4


class Decision(Struct, frozen=True):
    """What a worker does about a schedule that is due.

    `run_ms`: the tick that gets a job; None: none. `next_ms`: the tick that follows; 0: none. `missed`: how many ticks
    are left out.
    """

    run_ms: int | None
    next_ms: int
    missed: int


def fire_of(spec: ScheduleSpec, planned_ms: int) -> int:
    """When a tick is due: its planned time and its jitter, which is the same wherever it is computed."""
    if not spec.jitter_ms or not planned_ms:
        return planned_ms
    text = f"{spec.queue}\0{spec.name}\0{planned_ms}".encode()
    return planned_ms + int.from_bytes(blake2b(text, digest_size=8).digest()) % spec.jitter_ms


def digest_of(spec: ScheduleSpec) -> str:
    """Name a definition: two that differ have different digests."""
    return blake2b(encode_spec(spec), digest_size=8).hexdigest()


def ticks(spec: ScheduleSpec, after_ms: int) -> Iterator[int]:
    """Yield the planned times after `after_ms`, between the start and the end of the schedule."""
    start = 0 if spec.start_ms is None else spec.start_ms
    when = spec.when
    after_ms = max(after_ms, start - 1)
    found = when.after(after_ms, start) if isinstance(when, Every) else when.after(after_ms)
    for at in found:
        if spec.end_ms is not None and at > spec.end_ms:
            return
        yield at


def between(spec: ScheduleSpec, first_ms: int, last_ms: int) -> Iterator[int]:
    """Yield the planned times of a range, both ends included, also before the start and after the end."""
    when = spec.when
    found = when.after(first_ms - 1, spec.start_ms or 0) if isinstance(when, Every) else when.after(first_ms - 1)
    return takewhile(lambda at: at <= last_ms, found)


def following(spec: ScheduleSpec, planned_ms: int) -> int:
    """Return the tick after this time; 0 if no tick follows."""
    return next(ticks(spec, planned_ms), NO_MORE)


def first(spec: ScheduleSpec, now_ms: int, planned_ms: int = NO_MORE, last_planned_ms: int = 0) -> int:
    """Return the first tick of a new definition; 0 if it has no tick.

    `planned_ms`: of the definition that it replaces. A tick that is due and has not run belongs to the new one, if the
    new one has it. No tick up to `last_planned_ms` runs again.
    """
    after_ms = planned_ms - 1 if NO_MORE < planned_ms <= now_ms else now_ms
    return following(spec, max(after_ms, last_planned_ms))


def decide(spec: ScheduleSpec, planned_ms: int, now_ms: int) -> Decision:
    """Decide about a schedule with a tick `planned_ms` that is due at `now_ms`, by Redis' clock.

    Many schedules may be due at one moment by the same expression: one search serves them all.
    """
    times = ScheduleSpec(
        spec.name if spec.jitter_ms else "",
        spec.queue if spec.jitter_ms else "",
        spec.cron,
        spec.tz,
        spec.every_ms,
        spec.catch_up,
        spec.window_ms,
        jitter_ms=spec.jitter_ms,
        start_ms=spec.start_ms,
        end_ms=spec.end_ms,
    )
    return _decide(times, planned_ms, now_ms)


@lru_cache(maxsize=DECISIONS_KEPT)
def _decide(spec: ScheduleSpec, planned_ms: int, now_ms: int) -> Decision:
    if spec.catch_up is CatchUp.ALL:
        if now_ms - fire_of(spec, planned_ms) <= spec.window_ms:
            return Decision(planned_ms, following(spec, planned_ms), 0)
        next_ms = following(spec, max(planned_ms, now_ms - spec.window_ms - spec.jitter_ms - 1))
        return Decision(None, next_ms, 1 + count(spec, planned_ms, (next_ms or now_ms) - 1))
    window_ms = SKIP_WINDOW_MS if spec.catch_up is CatchUp.SKIP else spec.window_ms
    run_ms = latest(spec, planned_ms, now_ms)
    missed = count(spec, planned_ms - 1, run_ms - 1)
    if now_ms - fire_of(spec, run_ms) > window_ms:
        return Decision(None, following(spec, run_ms), missed + 1)
    return Decision(run_ms, following(spec, run_ms), missed)


def latest(spec: ScheduleSpec, planned_ms: int, now_ms: int) -> int:
    """Return the last tick from `planned_ms` on that is due at `now_ms`."""
    certain_ms = now_ms - spec.jitter_ms  # ticks up to here are due, with any jitter
    found, looked_ms, back_ms = planned_ms, certain_ms, limits.MINUTE
    while found == planned_ms and looked_ms > planned_ms:
        begin_ms = max(planned_ms, certain_ms - back_ms)
        for at in islice(ticks(spec, begin_ms), LOOK_MOST):
            if at > looked_ms:
                break
            found = at
        looked_ms, back_ms = begin_ms, back_ms * _GROWTH
    for at in islice(ticks(spec, found), LOOK_MOST):
        if at > now_ms or fire_of(spec, at) > now_ms:
            break
        found = at
    return found


def count(spec: ScheduleSpec, after_ms: int, until_ms: int) -> int:
    """Return how many ticks there are after one time and up to another, at most `LOOK_MOST` of a cron expression."""
    if until_ms <= after_ms:
        return 0
    if spec.every_ms:
        start = 0 if spec.start_ms is None else spec.start_ms
        until_ms = until_ms if spec.end_ms is None else min(until_ms, spec.end_ms)
        after_ms = max(after_ms, start - 1)
        return max(0, (until_ms - start) // spec.every_ms - (after_ms - start) // spec.every_ms)
    total = 0
    for at in islice(ticks(spec, after_ms), LOOK_MOST):
        if at > until_ms:
            break
        total += 1
    return total
