"""Rules about lanes: one job at a time, in the order of their enqueue, and still behind one that failed.

Why the order can be told from outside: a handler writes its start after its worker has claimed, and its end before its
worker can settle. So if n+1 was claimed after n was settled, every start of n+1 comes after the end of n that counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tests.faults.harness.chronicle import Chronicle, Job
from tests.faults.harness.job_rules import overlaps
from tests.faults.harness.verdict import SECOND_NS, Policy, Rule, Violation


def lanes(told: Chronicle, policy: Policy) -> Iterator[Violation]:
    for lane in told.lanes.values():
        yield from _order(lane)
        yield from overlaps([one for job in lane for one in job.attempts if not told.zombie(one)])
        if policy is not Policy.SKIP:
            yield from _stood(lane)


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


def _stood(lane: list[Job]) -> Iterator[Violation]:
    """From the failure to what was done about it, nothing behind the job ran."""
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
