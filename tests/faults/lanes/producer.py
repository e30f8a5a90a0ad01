"""Puts the jobs of all lanes into the queue, wave by wave: a wave is the next job of every lane."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tenure.core.errors import Unreachable
from tests.faults.harness import jobs
from tests.faults.harness.history import Diary, Event, Op

CHUNK: Final = 500
"""Jobs in one call at the most."""
BLOCK: Final = 5
"""Waves in one call at the most."""
TRIES: Final = 10
IN_THREAD: Final = 0.3
"""How many of the calls are for handlers that run in a thread."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Of what kind the jobs are: their usual time in ms; how many of a hundred are slow, are retried, fail for good."""

    ms: tuple[int, int] = (1, 8)
    slow_ms: tuple[int, int] = (150, 400)
    slow: float = 2.0
    retried: float = 4.0
    fatal: float = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One job of the run."""

    lane: str
    n: int
    ms: int
    failures: int
    fatal: bool

    @property
    def id(self) -> str:
        return f"{self.lane}.{self.n:04}"

    def offered(self) -> Event:
        meant = "failed" if self.fatal else "completed"
        return Event(Op.ENQUEUE, phase="invoke", job=self.id, lane=self.lane, n=self.n, note=meant)

    def taken(self) -> Event:
        return Event(Op.ENQUEUE, phase="ok", job=self.id, lane=self.lane, n=self.n)


class Producer:
    """Enqueues in order. A call whose answer is unknown is made again before the next: the ids are its own."""

    def __init__(self, url: str, lanes: int, waves: int, mixture: Mixture, draw: random.Random, diary: Diary) -> None:
        self._app = jobs.make_app(url)
        self._lanes = [f"lane{number:04}" for number in range(lanes)]
        self._mixture = mixture
        self._draw = draw
        self._diary = diary
        self._waves = waves
        self._next = 0

    @property
    def left(self) -> int:
        """Waves that have not been enqueued."""
        return self._waves - self._next

    @property
    def enqueued(self) -> int:
        return self._next * len(self._lanes)

    def put(self, waves: int) -> None:
        """Enqueue the next waves, as many as there are, some of them in one call."""
        waves = min(waves, self.left)
        while waves > 0:
            block = self._draw.randint(1, max(1, min(waves, BLOCK, CHUNK // len(self._lanes))))
            waves -= block
            task = jobs.STEP_IN_THREAD if self._draw.random() < IN_THREAD else jobs.STEP
            self._put(task, [step for _ in range(block) for step in self._wave()])

    def put_for_fault(self) -> None:
        """Enqueue a wave, one more than planned if all are in the queue: a fault has found no job to hit."""
        self._waves = max(self._waves, self._next + 1)
        self.put(1)

    def close(self) -> None:
        self._app.close()

    def _put(self, name: str, steps: list[Step]) -> None:
        task = self._app.tasks[name]
        calls = [task.using(id=one.id, lane=one.lane).call(one.n, one.ms, one.failures, one.fatal) for one in steps]
        self._diary.write_all([one.offered() for one in steps])
        for attempt in range(TRIES):
            try:
                task.enqueue_many(calls)
                break
            except Unreachable:
                if attempt == TRIES - 1:
                    raise
        self._diary.write_all([one.taken() for one in steps])

    def _wave(self) -> Iterator[Step]:
        n, self._next = self._next, self._next + 1
        for lane in self._draw.sample(self._lanes, len(self._lanes)):
            yield self._step(lane, n)

    def _step(self, lane: str, n: int) -> Step:
        draw, mixture = self._draw, self._mixture
        kind = draw.random() * 100
        slow = draw.random() * 100 < mixture.slow
        fatal = kind < mixture.fatal
        retried = mixture.fatal <= kind < mixture.fatal + mixture.retried
        ms = draw.randint(*(mixture.slow_ms if slow else mixture.ms))
        return Step(lane, n, ms, draw.randint(1, 3) if retried else 0, fatal)
