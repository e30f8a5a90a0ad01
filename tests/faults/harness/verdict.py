"""What a checker says: rules, violations of them, bounds, and a run in numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

SECOND_NS: Final = 1_000_000_000


class Policy(StrEnum):
    """What a lane does when one of its jobs fails for good."""

    SKIP = "skip"
    BLOCK = "block"
    PARK = "park"


class Rule(StrEnum):
    EXPECTED = "C0 what the scenario itself demands is not so"
    LOST = "C1 an acknowledged job has no end, or not the one it was meant to have"
    DOUBLED = "C2 a job ended twice"
    PHANTOM = "C3 something ran or ended that never began"
    REFUSED = "C4 a job ran whose enqueue had been refused"
    OVERLAP = "C5 two had one job or one lane at one time, and neither process had been stopped"
    STALE = "C5 a lease that was gone was still good for something"
    ORDER = "C6 a job of a lane began before the one before it had ended"
    STOOD = "C6 a lane did not stand still behind a job that had failed"
    REPEATED = "C7 jobs were run more often than the faults explain, or than they may be"
    SLOW = "C8 it took too long until all was done again"
    DIED = "C9 a worker ended by itself"
    DEAF = "C9 nothing went on after the faults were over"
    KEYS = "C10 a key was left behind"
    PLACES = "C11 a job was in two places or in none, or the counters are wrong"
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
    """What a run must keep to. None: that is not looked at.

    wanted: how often which fault has to have hit. recovery_s: from the death of a worker to the next start of its
    jobs. drained_s: from the end of the faults until nothing is left. awake_s: from there until something goes on.
    repeats: runs of all jobs together that no attempt had asked for; repeats_a_hit: so many more for each worker that
    was killed or stopped. deliveries: attempts of one job.
    """

    wanted: Mapping[str, int] = field(default_factory=dict)
    recovery_s: float = 20.0
    drained_s: float | None = None
    awake_s: float | None = None
    repeats: int | None = None
    repeats_a_hit: int = 0
    deliveries: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """A run in numbers.

    `held_kills`: of workers with a job in their hands. `stale`: attempts that went to their end in a worker that had
    lost its lease meanwhile, none of which counted. `unknown`: enqueues that had no clear answer. `gone`: acknowledged
    jobs that a failover has taken, as it may. `faults`: all others, by kind.
    `worst_recovery_s`: from the kill or stop of a worker to the next start of a job that it held. `went_on_s`: from the
    end of the faults until something began or ended; infinite when nothing was left to do."""

    lanes: int = 0
    jobs: int = 0
    runs: int = 0
    completed: int = 0
    failed: int = 0
    discarded: int = 0
    refused: int = 0
    unknown: int = 0
    gone: int = 0
    kills: int = 0
    held_kills: int = 0
    stops: int = 0
    stale: int = 0
    restarts: int = 0
    held_at_restart: int = 0
    stands: int = 0
    lost: int = 0
    doubled: int = 0
    disorder: int = 0
    worst_recovery_s: float = 0.0
    went_on_s: float = math.inf
    faults: Mapping[str, int] = field(default_factory=dict)

    def hits(self) -> Counter[str]:
        """Everything that `Bounds.wanted` may ask for."""
        own = {
            "kills": self.kills,
            "held kills": self.held_kills,
            "stops": self.stops,
            "stale": self.stale,
            "restarts": self.restarts,
            "held restarts": self.restarts if self.held_at_restart else 0,
            "stands": self.stands,
            "refused": self.refused,
            "gone": self.gone,
            "unknown": self.unknown,
        }
        return Counter({**own, **self.faults})

    @property
    def all_faults(self) -> int:
        return self.kills + self.stops + self.restarts + sum(self.faults.values())


@dataclass(frozen=True, slots=True)
class Report:
    score: Score
    violations: tuple[Violation, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return not self.violations

    def broken(self) -> set[Rule]:
        return {one.rule for one in self.violations}
