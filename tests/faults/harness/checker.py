"""Whether a history keeps what is promised. Pure; knows nothing of Tenure, only what was written down.

A rule that is broken gives a `Violation`; a run in which the faults did not hit is void, which is a violation too. The
time it takes grows with the number of events (and the sorting of them).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from tests.faults.harness import job_rules, lane_rules, run_rules
from tests.faults.harness.chronicle import Chronicle, chronicle
from tests.faults.harness.history import Event
from tests.faults.harness.verdict import Bounds, Policy, Report, Rule, Score, Violation


def check(events: Iterable[Event], policy: Policy | None = None, bounds: Bounds | None = None) -> Report:
    """Judge a whole run. `policy`: of its lanes; None: their order is not looked at."""
    bounds = bounds or Bounds()
    told = chronicle(events)
    late = list(run_rules.recoveries(told))
    found = [
        *run_rules.expected(told),
        *job_rules.phantoms(told),
        *job_rules.ends(told, policy),
        *job_rules.doubled(told),
        *job_rules.tokens(told),
        *job_rules.leases(told),
        *(lane_rules.lanes(told, policy) if policy is not None else ()),
        *(run_rules.too_late(one, seconds) for one, seconds in late if seconds > bounds.recovery_s),
        *run_rules.recovered(told, bounds),
        *run_rules.repeated(told, bounds),
        *run_rules.kept(told),
    ]
    score = _score(told, found, max((seconds for _, seconds in late if seconds < math.inf), default=0.0))
    found += run_rules.void(score, bounds)
    return Report(score, tuple(found))


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
        refused=sum(job.refused and not job.acked for job in jobs),
        unknown=sum(not job.acked and not job.refused for job in jobs),
        gone=sum(job.acked and job.finish is None and told.may_be_gone(job) for job in jobs),
        kills=len(told.killed),
        held_kills=len(cut_off),
        stops=sum(map(len, told.stopped.values())),
        stale=sum(job_rules.stale(job) for job in jobs),
        restarts=len(told.restarts),
        held_at_restart=sum(one.held for one in told.restarts),
        stands=sum(len(job.stands) for job in jobs),
        lost=rules[Rule.LOST],
        doubled=rules[Rule.DOUBLED],
        disorder=rules[Rule.ORDER] + rules[Rule.STOOD] + rules[Rule.OVERLAP],
        worst_recovery_s=worst,
        went_on_s=run_rules.went_on(told),
        faults=told.faults,
    )
