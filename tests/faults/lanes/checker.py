"""Whether a history keeps what is promised of lanes. Pure; knows nothing of Leasehold, only what was written down.

A rule that is broken gives a `Violation`; a run in which the faults did not hit is void, which is a violation too. The
time it takes grows with the number of events (and the sorting of them).

Why the order can be told from outside: a handler writes its start after its worker has claimed, and its end before its
worker can settle. So if n+1 was claimed after n was settled, every start of n+1 comes after the end of n that counted.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tests.faults.lanes.chronicle import Attempt, Chronicle, Job, chronicle
from tests.faults.lanes.history import Event

SECOND_NS: Final = 1_000_000_000


class Policy(StrEnum):
    """What a lane does when one of its jobs fails for good."""

    SKIP = "skip"
    BLOCK = "block"
    PARK = "park"


class Rule(StrEnum):
    LOST = "C1 an acknowledged job has no end, or not the one it was meant to have"
    DOUBLED = "C2 a job ended twice"
    PHANTOM = "C3 something ran or ended that never began"
    OVERLAP = "C5 two attempts of one lane ran at one time, and neither process had been stopped"
    ORDER = "C6 a job of a lane began before the one before it had ended"
    STOOD = "C6 a lane did not stand still behind a job that had failed"
    SLOW = "C8 the jobs of a dead worker came back too late"
    DIED = "C9 a worker ended by itself"
    TOKENS = "C12 tokens did not grow"
    VOID = "C13 the faults did not hit: the run proves nothing"


@dataclass(frozen=True, slots=True)
class Violation:
    rule: Rule
    text: str

    def __str__(self) -> str:
        return f"{self.rule.value}: {self.text}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How often each fault has to have hit, and how late a dead worker's jobs may be back."""

    held_kills: int = 1
    stale: int = 1
    cuts: int = 1
    restarts: int = 1
    stands: int = 1
    recovery_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Score:
    """A run in numbers. `held_kills`: of workers with a job in their hands. `stale`: attempts that went to their end in
    a worker that had lost its lease meanwhile, none of which counted. `worst_recovery_s`: from the kill or stop of a
    worker to the next start of a job that it held."""

    lanes: int = 0
    jobs: int = 0
    runs: int = 0
    completed: int = 0
    failed: int = 0
    discarded: int = 0
    kills: int = 0
    held_kills: int = 0
    stops: int = 0
    stale: int = 0
    cuts: int = 0
    restarts: int = 0
    held_at_restart: int = 0
    stands: int = 0
    lost: int = 0
    doubled: int = 0
    disorder: int = 0
    worst_recovery_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    score: Score
    violations: tuple[Violation, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return not self.violations

    def broken(self) -> set[Rule]:
        return {one.rule for one in self.violations}


def check(events: Iterable[Event], policy: Policy, bounds: Bounds | None = None) -> Report:
    """Judge a whole run."""
    bounds = bounds or Bounds()
    told = chronicle(events)
    late = list(_recoveries(told))
    found = [
        *_phantoms(told),
        *_ends(told, policy),
        *_doubled(told),
        *_tokens(told),
        *(one for lane in told.lanes.values() for one in _order(lane)),
        *(one for lane in told.lanes.values() for one in _overlaps(told, lane)),
        *(_too_late(one, seconds) for one, seconds in late if seconds > bounds.recovery_s),
        *(Violation(Rule.DIED, f"process {pid}") for pid in told.died),
    ]
    if policy is not Policy.SKIP:
        found += _stood(told)
    score = _score(told, found, max((seconds for _, seconds in late if seconds < math.inf), default=0.0))
    found += _void(score, policy, bounds)
    return Report(score, tuple(found))


def _phantoms(told: Chronicle) -> Iterator[Violation]:
    for event in told.unknown:
        yield Violation(Rule.PHANTOM, f"{event.op.value} of {event.job!r}, which nobody enqueued")
    for job in told.jobs.values():
        if job.attempts and min(one.start_ns for one in job.attempts) < job.asked_ns:
            yield Violation(Rule.PHANTOM, f"{job.id} began before it was enqueued")
        if job.finish is not None and job.counted is None:
            yield Violation(Rule.PHANTOM, f"{job.id} ended by token {job.finish.token}, with which nobody ran it")


def _ends(told: Chronicle, policy: Policy) -> Iterator[Violation]:
    """Every job has an end, and the one that it was meant to have, told by the handler that brought it about."""
    phases = {"completed": "ok", "failed": "fail"}
    for job in told.jobs.values():
        finish, counted = job.finish, job.counted
        if finish is None:
            if job.acked:
                yield Violation(Rule.LOST, f"{job.id} has no end")
            continue
        wanted = {job.meant}
        if job.meant == "failed" and policy is not Policy.SKIP and any(act.kind == "retry" for act in job.acts):
            wanted = {"completed"}
        if finish.state not in wanted:
            yield Violation(Rule.LOST, f"{job.id} ended in {finish.state}, expected {'/'.join(wanted)}")
        if counted is not None and counted.phase != phases.get(finish.state):
            told_so = counted.phase or "nothing"
            yield Violation(Rule.PHANTOM, f"{job.id} is {finish.state}, but its handler said {told_so}")


def _doubled(told: Chronicle) -> Iterator[Violation]:
    finals = [job.finals[-1].state for job in told.jobs.values() if job.finals]
    for job in told.jobs.values():
        if len(job.finals) > 1 or (job.finals and job.discarded):
            yield Violation(Rule.DOUBLED, f"{job.id} has {len(job.finals)} ends{' and was discarded' * job.discarded}")
        if job.finals and any(one.token > job.finals[-1].token for one in job.attempts):
            yield Violation(Rule.DOUBLED, f"{job.id} was run again after token {job.finals[-1].token} had ended it")
    counted, there = told.totals.get("completed", 0), finals.count("completed")
    if counted != there:
        yield Violation(Rule.DOUBLED, f"{counted} completions were counted, {there} jobs are completed")
    seen = {(job.id, one.token) for job in told.jobs.values() for one in [*job.stands, *job.finals] if one.bad}
    failed = told.totals.get("failed", 0)
    if failed != len(seen):
        yield Violation(Rule.DOUBLED, f"{failed} failures for good were counted, {len(seen)} were seen")


def _tokens(told: Chronicle) -> Iterator[Violation]:
    """A token is given once. What an earlier token ended by itself, a later one began afterwards."""
    owners: dict[int, str] = {}
    for job in told.jobs.values():
        for one in job.attempts:
            if one.runs > 1:
                yield Violation(Rule.TOKENS, f"{job.id} was run {one.runs} times with token {one.token}")
            if owners.setdefault(one.token, job.id) != job.id:
                yield Violation(Rule.TOKENS, f"{job.id} and {owners[one.token]} have both had token {one.token}")
        steady = [one for one in job.attempts if not told.zombie(one)]
        for earlier, later in itertools.pairwise(steady):
            if later.start_ns < earlier.start_ns:
                yield Violation(Rule.TOKENS, f"{job.id}: token {later.token} began before token {earlier.token}")


def _order(lane: list[Job]) -> Iterator[Violation]:
    """No attempt of a job, not even one of a zombie, before the end of those before it."""
    barrier: float = -math.inf
    token, before = 0, ""
    for job in lane:
        for one in job.attempts:
            if one.start_ns < barrier:
                early = (barrier - one.start_ns) / SECOND_NS
                yield Violation(
                    Rule.ORDER, f"{job.id} (token {one.token}) began {early:.3f} s before {before} had ended"
                )
            elif one.token <= token:
                yield Violation(Rule.TOKENS, f"{job.id} got token {one.token}, {before} ended with {token}")
        if (counted := job.counted) is not None:
            if counted.end_ns > barrier:
                barrier, before = counted.end_ns, job.id
            token = max(token, counted.token)


def _overlaps(told: Chronicle, lane: list[Job]) -> Iterator[Violation]:
    steady = (one for job in lane for one in job.attempts if not told.zombie(one))
    last: Attempt | None = None
    for one in sorted(steady, key=lambda one: one.start_ns):
        if last is not None and one.start_ns < last.end_ns:
            yield Violation(Rule.OVERLAP, f"{one.job} ({one.token}) began while {last.job} ({last.token}) ran")
        if last is None or one.end_ns > last.end_ns:
            last = one


def _stood(told: Chronicle) -> Iterator[Violation]:
    """From the failure to what was done about it, nothing behind the job ran."""
    for lane in told.lanes.values():
        starts = [min((one.start_ns for one in job.attempts), default=math.inf) for job in lane]
        earliest_after: float = math.inf
        for job, first in zip(reversed(lane), reversed(starts), strict=True):
            if job.meant == "failed" and job.finish is not None:
                if not job.stands or not job.acts:
                    yield Violation(Rule.STOOD, f"{job.id} failed and nobody saw its lane stand still")
                elif earliest_after < (asked := job.acts[0].ns):
                    early = (asked - earliest_after) / SECOND_NS
                    yield Violation(Rule.STOOD, f"{job.lane} went on behind {job.id}, {early:.3f} s before it might")
            earliest_after = min(earliest_after, first)


def _recoveries(told: Chronicle) -> Iterator[tuple[Attempt, float]]:
    """Attempts that were cut off by a kill or a stop, and the seconds until their job was begun again."""
    for job in told.jobs.values():
        again = math.inf  # the first start with a later token
        for one in reversed(job.attempts):
            stopped = _stopped_ns(told, one)
            if not one.phase and one.pid in told.killed:
                yield one, max(0.0, (again - told.killed[one.pid]) / SECOND_NS)
            elif stopped is not None and again < one.end_ns:
                yield one, max(0.0, (again - stopped) / SECOND_NS)
            again = min(again, one.start_ns)


def _stopped_ns(told: Chronicle, one: Attempt) -> int | None:
    """When its process was stopped while it ran."""
    spans = told.stopped.get(one.pid, ())
    return next((begin for begin, _ in spans if one.start_ns <= begin <= one.end_ns), None)


def _too_late(one: Attempt, seconds: float) -> Violation:
    when = "never" if math.isinf(seconds) else f"{seconds:.1f} s later"
    return Violation(Rule.SLOW, f"{one.job} (token {one.token}) was begun again {when}")


def _score(told: Chronicle, found: list[Violation], worst: float) -> Score:
    rules = Counter(one.rule for one in found)
    jobs = told.jobs.values()
    states = Counter(job.finals[-1].state for job in jobs if job.finals)
    cut_off = {one.pid for one in told.attempts if not one.phase and one.pid in told.killed}
    return Score(
        lanes=len(told.lanes),
        jobs=len(told.jobs),
        runs=sum(len(job.attempts) for job in jobs),
        completed=states["completed"],
        failed=states["failed"],
        discarded=sum(job.discarded for job in jobs),
        kills=len(told.killed),
        held_kills=len(cut_off),
        stops=sum(map(len, told.stopped.values())),
        stale=sum(_stale(job) for job in jobs),
        cuts=told.cuts,
        restarts=len(told.restarts),
        held_at_restart=sum(one.held for one in told.restarts),
        stands=sum(len(job.stands) for job in jobs),
        lost=rules[Rule.LOST],
        doubled=rules[Rule.DOUBLED],
        disorder=rules[Rule.ORDER] + rules[Rule.STOOD] + rules[Rule.OVERLAP],
        worst_recovery_s=worst,
    )


def _stale(job: Job) -> int:
    """Attempts that reached their end after a later one had begun: what they brought was refused, if it was asked."""
    told = [one for one in job.attempts if one.phase in ("ok", "retry", "fail")]
    return sum(any(other.token > one.token and other.start_ns < one.end_ns for other in job.attempts) for one in told)


def _void(score: Score, policy: Policy, bounds: Bounds) -> Iterator[Violation]:
    wanted = {
        "workers killed with a job in their hands": (score.held_kills, bounds.held_kills),
        "stale completions": (score.stale, bounds.stale),
        "lost or cut replies": (score.cuts, bounds.cuts),
        "restarts of Redis with jobs held": (score.restarts if score.held_at_restart else 0, bounds.restarts),
        "lanes that stood still": (score.stands, 0 if policy is Policy.SKIP else bounds.stands),
    }
    for what, (got, least) in wanted.items():
        if got < least:
            yield Violation(Rule.VOID, f"{what}: {got}, expected at least {least}")
