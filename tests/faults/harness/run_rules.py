"""Rules about a run as a whole: it recovers in time and by itself, leaves nothing behind, and its faults have hit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from tests.faults.harness.chronicle import Attempt, Chronicle
from tests.faults.harness.verdict import SECOND_NS, Bounds, Rule, Score, Violation

STAYS: Final = re.compile(r".*\}:(meta|settings|in|ended|kept|completed|failed|broken|cancelled)")
"""Keys that a queue may have without a time to live when nothing is left to do."""


def expected(told: Chronicle) -> Iterator[Violation]:
    for event in told.expected:
        if event.phase != "ok":
            yield Violation(Rule.EXPECTED, event.note)


def recoveries(told: Chronicle) -> Iterator[tuple[Attempt, float]]:
    """Attempts that were cut off by a kill or a stop, and the seconds until their job was begun again."""
    for job in told.jobs.values():
        again = math.inf  # the first start with a later token
        for one in reversed(job.attempts):
            stopped = _stopped_ns(told, one)
            if not one.phase and one.pid in told.killed:
                if not (job.finish is not None and job.finish.token == one.token):
                    yield one, max(0.0, (again - told.killed[one.pid]) / SECOND_NS)
            elif stopped is not None and again < one.end_ns:
                yield one, max(0.0, (again - stopped) / SECOND_NS)
            again = min(again, one.start_ns)


def _stopped_ns(told: Chronicle, one: Attempt) -> int | None:
    """When its process was stopped while it ran."""
    spans = told.stopped.get(one.pid, ())
    return next((begin for begin, _ in spans if one.start_ns <= begin <= one.end_ns), None)


def too_late(one: Attempt, seconds: float) -> Violation:
    when = "never" if math.isinf(seconds) else f"{seconds:.1f} s later"
    return Violation(Rule.SLOW, f"{one.job} (token {one.token}) was begun again {when}")


def recovered(told: Chronicle, bounds: Bounds) -> Iterator[Violation]:
    """After the last fault everything goes on soon, and is done in time."""
    for pid, event in told.died.items():
        if pid not in told.killed:
            yield Violation(Rule.DIED, f"process {pid}, status {event.n}: {event.note}")
    if not told.healed:
        return
    healed = told.healed[-1]
    if bounds.drained_s is not None:
        seconds = min((at - healed for at in told.drained if at >= healed), default=math.inf) / SECOND_NS
        if seconds > bounds.drained_s:
            yield Violation(Rule.SLOW, f"drained {seconds:.1f} s after the faults, expected {bounds.drained_s:.1f} s")
    if bounds.awake_s is not None:
        seconds = went_on(told)
        if seconds > bounds.awake_s:
            yield Violation(Rule.DEAF, f"something went on after {seconds:.1f} s, expected {bounds.awake_s:.1f} s")


def went_on(told: Chronicle) -> float:
    """Seconds from the end of the faults until something began or ended; infinite when nothing did."""
    if not told.healed:
        return math.inf
    healed = told.healed[-1]
    times = (at for one in told.attempts for at in (one.start_ns, one.end_ns) if at >= healed)
    return (min(times, default=math.inf) - healed) / SECOND_NS


def repeated(told: Chronicle, bounds: Bounds) -> Iterator[Violation]:
    if bounds.deliveries is not None:
        for job in told.jobs.values():
            if len(job.attempts) > bounds.deliveries:
                yield Violation(
                    Rule.REPEATED, f"{job.id} was run {len(job.attempts)} times, at most {bounds.deliveries}"
                )
    if bounds.repeats is not None:
        hits = len(told.killed) + sum(map(len, told.stopped.values()))
        most = bounds.repeats + hits * bounds.repeats_a_hit
        repeats = sum(job.repeats for job in told.jobs.values())
        if repeats > most:
            yield Violation(Rule.REPEATED, f"{repeats} runs that nobody had asked for, at most {most} are explained")


def kept(told: Chronicle) -> Iterator[Violation]:
    """What the keys looked like, meanwhile and when all was over."""
    for event in told.samples:
        if event.n > 0:
            yield Violation(Rule.PLACES, event.note)
    for event in told.keys:
        if event.n < 0 and not STAYS.fullmatch(event.note):
            yield Violation(Rule.KEYS, event.note)


def void(score: Score, bounds: Bounds) -> Iterator[Violation]:
    hits = score.hits()
    for what, least in bounds.wanted.items():
        if hits[what] < least:
            yield Violation(Rule.VOID, f"{what}: {hits[what]}, expected at least {least}")
