"""Random histories of unique tasks, with an original beside: a task has its marker exactly while it lives.

TENURE_WALKS sets how many walks there are.
"""

from __future__ import annotations

import os
import random
from typing import Final

import pytest

from tenure.compat.worqr.raw import RawEngine
from tenure.core.job import JobView, Lease, State
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Released, Retried
from tests.wire.worqr.bench import BOOM, UNIQUE, Bench
from tests.wire.worqr.original import R

WALKS: Final = int(os.environ.get("TENURE_WALKS", "4"))
STEPS: Final = 120
TASKS: Final = ("a", "b", "c")
OUTCOMES: Final = (
    Completed(b""),
    Retried(BOOM),
    Retried(BOOM, 10**6),
    Failed(BOOM),
    Broken(BOOM),
    Released(),
    Crashed(),
    Cancelled("x"),
)
LIVE: Final = (State.READY, State.ACTIVE, State.SCHEDULED, State.UNROUTABLE)
ENDED: Final = (State.FAILED, State.BROKEN, State.CANCELLED)


class Walk:
    """Two workers of Tenure, and one of the original."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.raw = RawEngine(R, bench.config)
        self.original = bench.original("original", "q")
        self.held: dict[str, list[Lease]] = {"w1": [], "w2": []}
        self.theirs: list[str] = []

    def jobs(self, *states: State) -> list[JobView]:
        return [job for state in states for job in self.bench.run(self.bench.engine.page("q", state)).jobs]

    def check(self) -> None:
        if self.bench.db.llen(f"{self.bench.engine.prefix('q')}:removed"):
            self.bench.maintain()
        live = {job.payload.decode() for job in self.jobs(*LIVE) if job.payload is not None}
        assert {task for task in TASKS if self.bench.is_marked(task)} == live
        assert len(self.bench.waiting()) == len(set(self.bench.waiting()))

    # Steps.

    def put(self) -> None:
        task = self.random.choice(TASKS)
        was_marked = self.bench.is_marked(task)
        assert self.bench.put(task, shape=UNIQUE) == [not was_marked]

    def put_theirs(self) -> None:
        self.original.enqueue_unique("q", self.random.choice(TASKS))

    def take(self) -> None:
        worker = self.random.choice(list(self.held))
        self.held[worker] += self.bench.take(self.random.randint(1, 2), worker)

    def take_theirs(self) -> None:
        if process := self.original.dequeue("q"):
            self.theirs.append(process[0])

    def end_theirs(self) -> None:
        if self.theirs:
            self.random.choice((self.original.finish, self.original.stop))(self.theirs.pop())

    def settle(self) -> None:
        leases = self.held[self.random.choice(list(self.held))]
        if leases:
            self.bench.settle(leases.pop(0), self.random.choice(OUTCOMES))

    def silence(self) -> None:
        self.bench.silence()

    def maintain(self) -> None:
        self.bench.pass_time(self.random.choice((100, 10**6)))
        if not self.original.heartbeat():
            self.original.start_worker()
        self.bench.maintain()

    def leave(self) -> None:
        worker = self.random.choice(list(self.held))
        self.bench.leave(worker)
        self.held[worker] = []

    def act(self) -> None:
        if jobs := self.jobs(*LIVE, *ENDED):
            job, engine = self.random.choice(jobs), self.bench.engine
            how = self.random.choice(("cancel", "discard", "retry", "retry with another payload"))
            if how == "retry with another payload":
                self.bench.run(engine.retry("q", job.id, self.random.choice(TASKS).encode()))
            else:
                self.bench.run(getattr(engine, how)("q", job.id))

    def end_many(self) -> None:
        task = self.random.choice(TASKS).encode()
        steps = (
            self.raw.purge("q", self.random.choice((State.READY, State.SCHEDULED, *ENDED))),
            self.raw.cancel_all("q"),
            self.raw.cancel_tasks("q", task),
            self.raw.delete_queue("q"),
        )
        self.bench.run(self.random.choice(steps))


MOVES: Final = (
    *(Walk.put,) * 3, Walk.put_theirs, *(Walk.take,) * 2, Walk.take_theirs, Walk.end_theirs, *(Walk.settle,) * 3,
    Walk.silence, Walk.maintain, Walk.leave, *(Walk.act,) * 3, Walk.end_many,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_task_has_its_marker_exactly_while_it_lives(bench: Bench, seed: int) -> None:
    walk = Walk(bench, seed)
    for _ in range(STEPS):
        walk.random.choice(MOVES)(walk)
        walk.check()
