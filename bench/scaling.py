"""A replay of autoscaling rules: the same jobs, second by second, and how many workers each rule has at what time.

Everything is simulated, so a run gives the same numbers on every machine: `python -m bench.scaling_page`.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tenure.scale import Decision, Policy, QueueLoad, Sample, beginning, desired

HOUR: Final = 3_600
RUN_S: Final = 2
SLOTS: Final = 8
TARGET_S: Final = 30
SPIN_UP_S: Final = 20
MOST: Final = 50
EVERY_S: Final = 5
"""How often Tenure looks."""
HPA_S: Final = 15
"""How often a HorizontalPodAutoscaler looks."""
STABLE_S: Final = 300
"""For how long a HorizontalPodAutoscaler remembers the highest recommendation, and Tenure the highest need."""
ORIGINAL_S: Final = 10
"""How often the autoscaler of redis-work-queue looks."""


@dataclass(frozen=True)
class Trace:
    """`arrivals`: jobs that come in each second. `stuck`: jobs that wait in each second and may not run."""

    name: str
    about: str
    arrivals: tuple[int, ...]
    stuck: tuple[int, ...] = ()


@dataclass(frozen=True)
class Look:
    """What a rule sees. `length`: all jobs that wait, also those that may not run. `come`: a counter of all jobs."""

    at: int
    waiting: int
    length: int
    held: int
    come: int
    workers: int


class Rule(Protocol):
    """Says every `every` seconds how many workers there should be."""

    title: str
    every: int
    spin_up: int

    def __call__(self, look: Look) -> int: ...


@dataclass
class Replay:
    """`late`: seconds in which the job that was next had waited for longer than the target. `workers`: of each second,
    those that start included."""

    late: int = 0
    longest: int = 0
    workers: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)

    @property
    def hours(self) -> float:
        return sum(self.workers) / HOUR

    @property
    def changes(self) -> int:
        return sum(one != other for one, other in zip(self.workers, self.workers[1:], strict=False))


def replay(trace: Trace, rule: Rule) -> Replay:
    """Run all jobs of a trace with the workers that a rule asks for."""
    found = Replay()
    line: deque[list[int]] = deque()  # when, how many
    ends: deque[int] = deque([0] * RUN_S)  # how many running jobs end in the next seconds
    starting: deque[int] = deque()  # when a worker that starts is ready
    ready, come, waiting, stopping = 1, 0, 0, deque[int]()
    for at, arrived in enumerate(trace.arrivals):
        ends.popleft()
        while starting and starting[0] <= at:
            starting.popleft()
            ready += 1
        while stopping and stopping[0] <= at:
            stopping.popleft()
        come, waiting = come + arrived, waiting + arrived
        if arrived:
            line.append([at, arrived])
        free = max(0, ready * SLOTS - sum(ends))
        started = 0
        while line and free:
            count = min(free, line[0][1])
            line[0][1] -= count
            free, started = free - count, started + count
            if not line[0][1]:
                line.popleft()
        waiting -= started
        ends.append(started)
        waited = at - line[0][0] if line else 0
        found.late += waited > TARGET_S
        found.longest = max(found.longest, waited)
        found.workers.append(ready + len(starting) + len(stopping))
        found.waiting.append(waiting)
        if at % rule.every == 0:
            stuck = trace.stuck[at] if trace.stuck else 0
            wanted = rule(Look(at, waiting, waiting + stuck, sum(ends), come, ready + len(starting)))
            while ready + len(starting) < wanted:
                starting.append(at + rule.spin_up)
            while ready + len(starting) > wanted:
                if starting:
                    starting.pop()
                else:
                    ready -= 1
                    stopping.append(at + RUN_S)  # it finishes its jobs
    return found


class Tenure:
    """`tenure autoscale`: the code that the command runs."""

    title = "Tenure"
    every = EVERY_S
    spin_up = SPIN_UP_S

    def __init__(self) -> None:
        self._policy = Policy(TARGET_S, 1, MOST, SLOTS, SPIN_UP_S, calm_down=STABLE_S)
        self._sample: Sample | None = None
        self._last: Decision | None = None

    def __call__(self, look: Look) -> int:
        load = QueueLoad("jobs", look.waiting, held=look.held, come=look.come, run_s=RUN_S)
        sample = Sample(look.at, (load,), look.workers)
        sample = sample if self._sample is None else sample.after(self._sample)
        self._last = desired(sample, self._policy, self._last or beginning(sample, self._policy))
        self._sample = sample
        return self._last.workers


class Length:
    """KEDA's `redis` trigger, and its HorizontalPodAutoscaler with the default behaviour.

    `listLength` is what a user computes from the run time: the jobs that one worker runs within the target.
    """

    title = "length (KEDA redis)"
    every = HPA_S
    spin_up = SPIN_UP_S

    def __init__(self) -> None:
        self._wanted: deque[tuple[int, int]] = deque()

    def __call__(self, look: Look) -> int:
        each = SLOTS * TARGET_S / RUN_S
        wanted = math.ceil(look.length / each)
        if look.workers and abs(look.length / each / look.workers - 1) <= 0.1:
            wanted = look.workers
        self._wanted.append((look.at, wanted))
        while look.at - self._wanted[0][0] > STABLE_S:
            self._wanted.popleft()
        wanted = max(wanted, min(look.workers, max(one for _, one in self._wanted)))
        return _bounded(min(wanted, max(2 * look.workers, look.workers + 4)))


class Original:
    """The rule of redis-work-queue: length times run time by target time."""

    title = "redis-work-queue"
    every = ORIGINAL_S
    spin_up = SPIN_UP_S

    def __call__(self, look: Look) -> int:
        return _bounded(math.ceil((look.length + look.held) * RUN_S / TARGET_S / SLOTS))


class Afterwards:
    """The best known afterwards: the jobs of each half target run in the next half, on as few workers as can. These
    have been started in time."""

    title = "known afterwards"
    every = TARGET_S // 2
    spin_up = 0

    def __call__(self, look: Look) -> int:
        rounds = self.every // RUN_S  # the jobs that one slot runs in that time
        return _bounded(math.ceil(look.waiting / rounds / SLOTS))


def _bounded(workers: int) -> int:
    return min(max(workers, 1), MOST)


RULES: Final[tuple[Callable[[], Rule], ...]] = (Tenure, Length, Original, Afterwards)


def traces() -> Sequence[Trace]:
    """Return five traces, always the same."""
    hours = 24 * HOUR
    poison = tuple(2_000 if at >= HOUR // 4 else 0 for at in range(HOUR))
    return (
        _trace("steady", "20 jobs a second", HOUR, lambda at: 20),
        _trace("burst", "2 jobs a second, and every 20 minutes 3,000 within 10 s", HOUR, _burst),
        _trace("ramp", "from 0 to 120 jobs a second within an hour", HOUR, lambda at: 120 * at / HOUR),
        _trace("daily wave", "2 to 100 jobs a second", hours, lambda at: 51 - 49 * math.cos(2 * math.pi * at / hours)),
        _trace("poison", "8 jobs a second, and 2,000 that wait and may not run", HOUR, lambda at: 8, poison),
    )


def _burst(at: int) -> float:
    return 300 if at % 1_200 in range(300, 310) else 2


def _trace(name: str, about: str, seconds: int, rate: Callable[[int], float], stuck: tuple[int, ...] = ()) -> Trace:
    """Draw how many jobs come: about `rate` in each second."""
    chance = random.Random(name)  # noqa: S311
    return Trace(name, about, tuple(_drawn(chance, rate(at)) for at in range(seconds)), stuck)


def _drawn(chance: random.Random, mean: float) -> int:
    """Draw from a Poisson distribution, by its normal approximation where it is wide."""
    if mean > 30:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    most, count, product = math.exp(-mean), 0, chance.random()
    while product > most:
        count, product = count + 1, product * chance.random()
    return count
