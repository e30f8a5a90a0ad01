"""Rules about single jobs: nothing lost, nothing doubled, nobody without a valid lease, tokens that grow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tests.faults.harness.chronicle import Attempt, Chronicle, Job
from tests.faults.harness.verdict import Policy, Rule, Violation

PHASES = {"completed": "ok", "failed": "fail"}
COUNTED = ("completed", "failed", "broken", "cancelled")


def phantoms(told: Chronicle) -> Iterator[Violation]:
    for event in told.unknown:
        yield Violation(Rule.PHANTOM, f"{event.op.value} of {event.job!r}, which nobody enqueued")
    for job in told.jobs.values():
        if job.attempts and min(one.start_ns for one in job.attempts) < job.asked_ns:
            yield Violation(Rule.PHANTOM, f"{job.id} began before it was enqueued")
        if job.finish is not None and job.finish.state in PHASES and job.counted is None:
            yield Violation(Rule.PHANTOM, f"{job.id} ended by token {job.finish.token}, with which nobody ran it")
        if job.refused and not job.acked and (job.attempts or job.finals):
            yield Violation(Rule.REFUSED, f"{job.id} was run {len(job.attempts)} times")


def ends(told: Chronicle, policy: Policy | None) -> Iterator[Violation]:
    """Every job has an end, and the one that it was meant to have, told by the handler that brought it about."""
    for job in told.jobs.values():
        finish, counted = job.finish, job.counted
        if finish is None:
            if job.acked and not told.may_be_gone(job):
                yield Violation(Rule.LOST, f"{job.id} has no end")
            continue
        wanted = job.meant
        if wanted == "failed" and policy not in (None, Policy.SKIP) and any(act.kind == "retry" for act in job.acts):
            wanted = "completed"
        if wanted not in ("", finish.state):
            yield Violation(Rule.LOST, f"{job.id} ended in {finish.state}, expected {wanted}")
        if counted is not None and counted.phase != PHASES.get(finish.state, counted.phase):
            told_so = counted.phase or "nothing"
            yield Violation(Rule.PHANTOM, f"{job.id} is {finish.state}, but its handler said {told_so}")


def doubled(told: Chronicle) -> Iterator[Violation]:
    for job in told.jobs.values():
        if len(job.finals) > 1 or (job.finals and job.discarded):
            yield Violation(Rule.DOUBLED, f"{job.id} has {len(job.finals)} ends{' and was discarded' * job.discarded}")
        if job.finals and any(one.token > job.finals[-1].token for one in job.attempts):
            yield Violation(Rule.DOUBLED, f"{job.id} was run again after token {job.finals[-1].token} had ended it")
        completions = sum(one.kind == "complete" and one.yes is True for one in job.settles)
        if completions > 1:
            yield Violation(Rule.DOUBLED, f"{completions} times it was said that {job.id} was completed by this call")
    finals = [job.finals[-1].state for job in told.jobs.values() if job.finals]
    for state in ("completed", "broken", "cancelled"):
        counted, there = told.totals.get(state, 0), finals.count(state)
        if counted != there:
            yield Violation(Rule.DOUBLED, f"{counted} were counted as {state}, {there} jobs are")
    seen = {(job.id, one.token) for job in told.jobs.values() for one in [*job.stands, *job.finals] if one.bad}
    failed = told.totals.get("failed", 0)
    if failed != len(seen):
        yield Violation(Rule.DOUBLED, f"{failed} failures for good were counted, {len(seen)} were seen")


def tokens(told: Chronicle) -> Iterator[Violation]:
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


def leases(told: Chronicle) -> Iterator[Violation]:
    """One valid lease of a job at a time, and none that is gone changes anything."""
    for job in told.jobs.values():
        steady = [one for one in job.attempts if not told.zombie(one)]
        yield from overlaps(steady)
        for one in job.settles:
            later = [other for other in job.attempts if other.token > one.token and other.start_ns < one.asked_ns]
            if one.yes and later:
                text = f"{one.kind} of {job.id} with token {one.token} was done, {later[0].token} had been given"
                yield Violation(Rule.STALE, text)


def overlaps(attempts: list[Attempt]) -> Iterator[Violation]:
    last: Attempt | None = None
    for one in sorted(attempts, key=lambda one: one.start_ns):
        if last is not None and one.start_ns < last.until_ns:
            yield Violation(Rule.OVERLAP, f"{one.job} ({one.token}) began while {last.job} ({last.token}) ran")
        if last is None or one.until_ns > last.until_ns:
            last = one


def stale(job: Job) -> int:
    """Attempts that reached their end after a later one had begun: what they brought was refused, if it was asked."""
    told = [one for one in job.attempts if one.phase in ("ok", "retry", "fail", "lost")]
    return sum(any(other.token > one.token and other.start_ns < one.end_ns for other in job.attempts) for one in told)
