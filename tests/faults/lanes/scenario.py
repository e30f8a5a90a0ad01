"""S40: lanes under kills, stops, lost replies and restarts at once, for each rule for a failed head in turn."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.faults.harness.ending import Stuck
from tests.faults.harness.scenario import Result
from tests.faults.harness.verdict import Policy, Report, Rule, Score, Violation
from tests.faults.lanes.run import SHORT, run

NAME: Final = "S40"
SUMS: Final = ("lanes", "jobs", "runs", "completed", "failed", "discarded", "kills", "held_kills", "stops", "stale")
MORE_SUMS: Final = ("restarts", "held_at_restart", "stands", "lost", "doubled", "disorder")


def play_lanes(seed: int, size: int | None, folder: Path) -> Result:
    """All rules. `size`: about so many jobs for each of them."""
    began = time.monotonic()
    form = SHORT
    if size is not None:
        form = replace(SHORT, jobs=max(SHORT.jobs, size // SHORT.lanes), limit_s=SHORT.limit_s + size / 10)
    scores: list[Score] = []
    found: list[Violation] = []
    for policy in Policy:
        part = folder / policy.value
        part.mkdir(parents=True)
        try:
            outcome = run(policy, seed, form, part)
        except Stuck as error:
            found.append(Violation(Rule.SLOW, f"stuck: {error}"))
            continue
        scores.append(outcome.report.score)
        found += outcome.report.violations
        found += [Violation(Rule.KEYS, name) for name in outcome.leftover]
    return Result(NAME, seed, time.monotonic() - began, Report(_together(scores), tuple(found)))


def _together(scores: list[Score]) -> Score:
    faults: Counter[str] = Counter()
    for one in scores:
        faults.update(one.faults)
    sums = {name: sum(getattr(one, name) for one in scores) for name in (*SUMS, *MORE_SUMS)}
    worst = max((one.worst_recovery_s for one in scores), default=0.0)
    return Score(**sums, worst_recovery_s=worst, faults=faults)
