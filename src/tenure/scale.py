"""Autoscaling: how many workers some queues need, from a sample of their jobs and a policy. Pure: nothing is sent.

    from tenure.scale import Policy, desired

    sample = app.inspect.load(["orders", "mails"])
    decision = desired(sample, Policy(drain_within=30, max=20))
    print(decision.workers, decision.reason)

`desired` with the decision before it also keeps `calm_down` and the steps of the policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tenure.core import limits, names
from tenure.core.errors import invalid
from tenure.core.values import replace

WORKERS_MAX: Final = 100_000
"""The most workers of a policy."""
FEEDS_MAX: Final = 1_000
"""The most jobs that one job makes, in a policy."""
DEFAULT_MAX: Final = 10
ARRIVALS_S: Final = 60.0
"""Arrivals of about the last minute count; earlier ones weigh less and less."""
_ROUNDING: Final = 1e-9

__all__ = [
    "Policy",
    "Tier",
    "Sample",
    "QueueLoad",
    "Narrow",
    "Decision",
    "desired",
    "beginning",
]


@dataclass(frozen=True, slots=True)
class Tier:
    """A group of workers of one kind. The first tier of a policy grows first, up to its `max`.

    Policy(tiers=(Tier("spot", max=20), Tier("on-demand", max=5)))
    """

    name: str
    max: int

    def __post_init__(self) -> None:
        names.task_name(self.name, "tier")
        names.count(self.max, f"tier {self.name!r}: max", least=1, most=WORKERS_MAX)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a fleet should achieve, and how far it may grow.

        Policy(drain_within=30, min=0, max=20, slots=16, feeds={"ocr": 3})

    `drain_within`: within how many seconds the jobs that wait should start. `max` None: the sum of the tiers, or 10.
    `slots`: how many jobs one worker runs at a time. `spin_up`: how many seconds a worker needs to start.
    `step_up`, `step_down`: the most workers that one decision adds or removes; None: any number. `calm_down`: a worker
    is kept for this many seconds after it was needed last. `assume`: the run time of jobs, in seconds, until one is
    known. `feeds`: how many jobs of the other queues one job of a queue makes. Raises `InvalidArgument`.
    """

    drain_within: float = 30.0
    min: int = 1
    max: int | None = None
    slots: int = limits.CONCURRENCY
    spin_up: float = 20.0
    step_up: int | None = None
    step_down: int | None = None
    calm_down: float = 300.0
    assume: float = 1.0
    feeds: Mapping[str, int] = field(default_factory=dict)
    tiers: tuple[Tier, ...] = ()

    def __post_init__(self) -> None:
        for name, least_ms in (("drain_within", 1), ("spin_up", 0), ("calm_down", 0), ("assume", 1)):
            names.duration_ms(getattr(self, name), name, least_ms=least_ms)
        names.count(self.slots, "slots", least=1, most=limits.MAX_CONCURRENCY)
        for name in ("step_up", "step_down"):
            if getattr(self, name) is not None:
                names.count(getattr(self, name), name, least=1, most=WORKERS_MAX)
        for queue, jobs in self.feeds.items():
            names.count(jobs, f"feeds: {names.queue_name(queue)}", least=1, most=FEEDS_MAX)
        named = [tier.name for tier in self.tiers]
        if len(set(named)) < len(named):
            raise invalid("tiers", "of different names", ", ".join(named))
        if self.max is not None:
            names.count(self.max, "max", least=1, most=WORKERS_MAX)
        names.count(self.min, "min", least=0, most=WORKERS_MAX)
        if self.min > self.most:
            raise invalid("min", f"at most max, which is {self.most}", str(self.min))

    @property
    def most(self) -> int:
        """The most workers: `max`, and not more than the tiers have."""
        tiers = sum(tier.max for tier in self.tiers)
        return min(self.max or tiers or DEFAULT_MAX, tiers or WORKERS_MAX)

    def split(self, workers: int) -> dict[str, int]:
        """Return how many of these workers each tier has."""
        found = {}
        for tier in self.tiers:
            found[tier.name] = min(workers, tier.max)
            workers -= found[tier.name]
        return found


@dataclass(frozen=True, slots=True)
class Narrow:
    """Jobs that may not all run at one time: of a lane, or under a limit. At most `most` of them may."""

    waiting: int
    held: int
    most: int


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """The jobs of one queue, as far as they matter for the number of workers.

    `waiting`: jobs that may all run at one time. `narrow`: the others that may run. `held`: jobs that workers hold,
    also those in `narrow`. `due`: scheduled jobs and schedules that are due soon. `come`: a counter of the jobs that
    became ready. `arrivals`: how many become ready a second. `run_s`: the mean run time; None: not known.
    `ages`: for how many seconds some of the held jobs have run. `is_known`: whether Redis has the queue. `batch`: how
    many jobs one slot runs together; `run_s` and `ages` are times of the call.
    """

    name: str
    waiting: int = 0
    narrow: tuple[Narrow, ...] = ()
    held: int = 0
    due: int = 0
    come: int = 0
    arrivals: float = 0.0
    run_s: float | None = None
    ages: tuple[float, ...] = ()
    is_known: bool = True
    batch: int = 1

    @property
    def runnable(self) -> int:
        """How many jobs that wait may run, now or after others of their lane or limit."""
        return self.waiting + sum(one.waiting for one in self.narrow)

    @property
    def at_once(self) -> int:
        """How many jobs may run at one time, with those that run now."""
        return self._in_calls_of(1)

    @property
    def places(self) -> int:
        """How many slots the jobs may take at one time, with those that run now."""
        return self._in_calls_of(self.batch)

    @property
    def plainly_held(self) -> int:
        """How many held jobs are not in `narrow`."""
        return max(0, self.held - sum(one.held for one in self.narrow))

    def _in_calls_of(self, jobs: int) -> int:
        narrow = sum(min(math.ceil((one.waiting + one.held) / jobs), one.most) for one in self.narrow)
        return math.ceil((self.waiting + self.due + self.plainly_held) / jobs) + narrow

    def expected_s(self, assume: float) -> float:
        """Return the run time to expect. While no job has ended, jobs that run show whether `assume` is too short."""
        if self.run_s is not None:
            return self.run_s
        return max(assume, 2 * sum(self.ages) / len(self.ages)) if self.ages else assume


@dataclass(frozen=True, slots=True)
class Sample:
    """Queues and their workers at one moment.

    `at_s`: in seconds, by a monotonic clock. `workers`: the worker processes that live. `slots`: how many jobs these
    run at one time; None: not known, because other programs may work, too.
    """

    at_s: float
    queues: tuple[QueueLoad, ...]
    workers: int = 0
    slots: int | None = None

    def after(self, before: Sample) -> Sample:
        """Return this sample with the arrivals since an earlier one, and the run times that this one lacks."""
        old = {load.name: load for load in before.queues}
        passed = self.at_s - before.at_s
        return replace(self, queues=tuple(_after(load, old.get(load.name), passed) for load in self.queues))


@dataclass(frozen=True, slots=True)
class Decision:
    """How many workers there should be, and why.

    `limits`: the rules that bound the number: "max", "min", "held", "places", "calm_down", "step_up", "step_down".
    `tiers`: the number of each tier. `needs`: what was needed lately, the highest first, with the times of the samples.
    """

    workers: int
    reason: str
    limits: tuple[str, ...] = ()
    tiers: Mapping[str, int] = field(default_factory=dict)
    needs: tuple[tuple[float, int], ...] = field(default=(), repr=False)


def beginning(sample: Sample, policy: Policy) -> Decision:
    """Return the decision that keeps the workers that live, for an autoscaler that has just started."""
    # A worker of the policy may be several processes.
    live = sample.workers if sample.slots is None else math.ceil(sample.slots / policy.slots)
    workers = min(max(live, policy.min), policy.most)
    return Decision(workers, f"{_amount(live, 'worker')} live", (), policy.split(workers), ((sample.at_s, workers),))


def desired(sample: Sample, policy: Policy, last: Decision | None = None) -> Decision:
    """Return how many workers these queues need. `last`: the decision before, if there was one.

    More work never gives fewer workers. See `Policy` for the bounds.
    """
    slots, reason, found = _slots(sample.queues, policy)
    need = math.ceil(slots / policy.slots - _ROUNDING)
    taken = sum(math.ceil(load.held / load.batch) for load in sample.queues)
    # Workers also hold jobs that they have claimed ahead of their slots.
    held = math.ceil(min(taken, taken if sample.slots is None else sample.slots) / policy.slots)
    any_job = int(any(load.at_once for load in sample.queues))
    least = max(held, any_job, policy.min)
    if need < least:
        found.append("min" if policy.min == least else "held")
        need = least
    need = min(need, policy.most)
    needs = _needs(sample.at_s, need, policy.calm_down, () if last is None else last.needs)
    # What was needed before keeps workers, and starts none.
    workers = needs[0][1] if last is None else max(need, min(needs[0][1], last.workers))
    if workers > need:
        found.append("calm_down")
    if last is not None:
        up, down = policy.step_up or WORKERS_MAX, policy.step_down or WORKERS_MAX
        if not last.workers - down <= workers <= last.workers + up:
            found.append("step_up" if workers > last.workers else "step_down")
            workers = min(max(workers, last.workers - down), last.workers + up)
    workers = min(max(workers, least), policy.most)
    if workers == policy.most < math.ceil(slots / policy.slots - _ROUNDING):
        found.append("max")
    text = f"{reason}: {_amount(workers, 'worker')} of {_amount(policy.slots, 'slot')}"
    if found:
        text += f" ({', '.join(_BOUNDS[one] for one in found)})"
    return Decision(workers, text, tuple(found), policy.split(workers), needs)


_BOUNDS: Final = {
    "places": "lanes and limits let no more jobs run at one time",
    "held": "running jobs hold them",
    "min": "the least",
    "calm_down": "needed a short time ago",
    "step_up": "growing in steps",
    "step_down": "shrinking in steps",
    "max": "the most",
}


def _slots(loads: Sequence[QueueLoad], policy: Policy) -> tuple[float, str, list[str]]:
    """Return how many slots the jobs need, why, and the bounds that apply."""
    run_s = {load.name: load.expected_s(policy.assume) for load in loads}
    # A slot runs several short jobs in that time. A job that takes longer needs a slot of its own.
    shares = {load.name: min(1.0, run_s[load.name] / policy.drain_within) / load.batch for load in loads}
    work, wanted, possible = 0.0, 0.0, 0
    for load in loads:
        share = shares[load.name]
        # On average, a running job takes as long again as it has run.
        ages = load.ages or (run_s[load.name] / 2,)
        rest = sum(min(1.0, age / policy.drain_within) for age in ages) / len(ages) / load.batch
        makes = policy.feeds.get(load.name, 0)
        others = [one for name, one in shares.items() if name != load.name] or [share]
        fed = (load.runnable + load.due + load.held) * makes * sum(others) / len(others)
        plain = (load.waiting + load.due) * share + load.plainly_held * rest + fed
        each = [(one.waiting * share + one.held * rest, one.most) for one in load.narrow]
        work += plain + sum(min(slots, most) for slots, most in each)
        wanted += plain + sum(slots for slots, _ in each)
        possible += load.places + load.at_once * makes
    arriving = sum(load.arrivals * run_s[load.name] / load.batch for load in loads)
    found = ["places"] if work < wanted or work < possible < arriving else []
    if work >= min(arriving, possible):
        return min(work, possible), _work_text(loads, run_s, policy), found
    rate = sum(load.arrivals for load in loads)
    return min(arriving, possible), f"{rate:,.3g} jobs a second arrive and keep {arriving:,.1f} slots busy", found


def _work_text(loads: Sequence[QueueLoad], run_s: Mapping[str, float], policy: Policy) -> str:
    waiting, held, due = (sum(getattr(load, name) for load in loads) for name in ("runnable", "held", "due"))
    soon = f", {due:,} due within {policy.spin_up:g} s" if due else ""
    if not waiting:
        return f"no job waits, {held:,} held{soon}"
    mean = sum(load.runnable * run_s[load.name] / load.batch for load in loads) / waiting
    which = f"{_amount(waiting, 'job')} waiting, {mean:,.3g} s each, to start within {policy.drain_within:g} s"
    return f"{which}, {held:,} held{soon}"


def _needs(
    at_s: float, need: int, calm_down: float, before: Sequence[tuple[float, int]]
) -> tuple[tuple[float, int], ...]:
    """Return the needs that still count: each is higher than all after it."""
    return (*(one for one in before if one[1] > need and at_s - one[0] < calm_down), (at_s, need))


def _after(load: QueueLoad, before: QueueLoad | None, passed_s: float) -> QueueLoad:
    if before is None:
        return load
    run_s = before.run_s if load.run_s is None else load.run_s
    if passed_s <= 0:
        return replace(load, arrivals=before.arrivals, run_s=run_s)
    weight = math.exp(-passed_s / ARRIVALS_S)
    rate = max(0, load.come - before.come) / passed_s
    return replace(load, arrivals=weight * before.arrivals + (1 - weight) * rate, run_s=run_s)


def _amount(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
