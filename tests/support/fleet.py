"""Workers that only claim, die and complete, round by round: which jobs run again together, without processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tenure.core.engine import STEADY_MS, Alone
from tenure.core.job import Lease
from tenure.core.outcome import Completed
from tests.support.engines import LEASE_MS
from tests.support.world import World

ROUND_MS: Final = LEASE_MS - 1_000
STEADY_ROUNDS: Final = STEADY_MS // ROUND_MS + 1
ROUNDS_MOST: Final = 400


@dataclass
class Worker:
    """One process. `held`: what it runs, and for how many rounds it has done so."""

    name: str
    slots: int
    held: dict[str, tuple[Lease, int]] = field(default_factory=dict)
    queue: str | None = None
    """The queue of a job that it prepares to run alone."""

    def is_young(self) -> bool:
        """Whether a job has started lately."""
        return any(rounds < STEADY_ROUNDS for _, rounds in self.held.values())

    def company(self) -> Alone:
        old = [lease for lease, _ in self.held.values()]
        if self.is_young() or len(self.held) >= self.slots:
            return Alone.NO
        doubtful = any(lease.crashes and not lease.record.shape.persistent for lease in old)
        return Alone.BESIDE if doubtful else Alone.NOW

    def runs_alone(self) -> bool:
        return any(rounds <= lease.alone_ms // ROUND_MS for lease, rounds in self.held.values() if lease.alone_ms)


class Fleet:
    """Some workers of some queues. A job whose id begins with `poison` kills the worker that runs it, after a round or,
    when the id says `poison-<n>`, after n rounds. All others complete after `lasts` rounds, but persistent ones."""

    def __init__(self, world: World, queues: Sequence[str], workers: int, slots: int, lasts: int = 1) -> None:
        self.world = world
        self.queues = tuple(queues)
        self.slots = slots
        self.lasts = lasts
        self.made = 0
        self.deaths: dict[str, int] = {}
        self.workers = [self._born() for _ in range(workers)]

    def _born(self) -> Worker:
        self.made += 1
        return Worker(f"w{self.made}", self.slots)

    def claim(self, worker: Worker) -> None:
        """Take what there is room for, as a worker's fetcher does."""
        room = worker.slots - len(worker.held)
        if worker.runs_alone() or not room or (worker.queue and worker.is_young()):
            return
        queues = (worker.queue,) if worker.queue else self.queues
        self.queues = self.queues[1:] + self.queues[:1]
        leased = self.world.lease(room, worker.name, queues, slots=worker.slots, alone=worker.company())
        worker.queue = leased.suspect_queue
        for lease in leased.leases:
            worker.held[lease.record.id] = (lease, 0)
            assert not lease.alone_ms or len(leased.leases) == 1

    def kill(self, n: int) -> None:
        """One dies, and another is started in its place."""
        for lease, _ in self.workers[n].held.values():
            self.deaths[lease.record.id] = self.deaths.get(lease.record.id, 0) + 1
        self.world.run(self.world.engine.leave(self.workers[n].name, self.queues, crashed=True))
        self.workers[n] = self._born()

    def running(self) -> int:
        return sum(len(worker.held) for worker in self.workers)

    def round(self) -> None:
        """All claim; who runs poison for long enough dies; what has lasted long enough completes."""
        for worker in self.workers:
            self.claim(worker)
            self.world.beat(worker.name, [lease for lease, _ in worker.held.values()], self.queues)
        for queue in self.queues:
            self.world.pass_time(ROUND_MS, queue)
        for n, worker in enumerate(self.workers):
            worker.held = {id: (lease, rounds + 1) for id, (lease, rounds) in worker.held.items()}
            for queue in self.queues:
                self.world.beat(worker.name, [lease for lease, _ in worker.held.values()], (queue,))
            if any(id.startswith("poison") and rounds >= patience(id) for id, (_, rounds) in worker.held.items()):
                self.kill(n)
                continue
            ended = [
                id
                for id, (lease, rounds) in worker.held.items()
                if rounds >= self.lasts and not lease.record.shape.persistent and not id.startswith("poison")
            ]
            for id in ended:
                lease, _ = worker.held.pop(id)
                assert self.world.settle(lease, Completed(b"", 0))

    def rounds_until(self, done: int) -> int:
        """How many rounds it takes until only so many jobs are left that have not ended."""
        for rounds in range(1, ROUNDS_MOST):
            self.round()
            views = [self.world.counts(queue) for queue in self.queues]
            if sum(view.get("ready", 0) + view.get("active", 0) for view in views) <= done:
                return rounds
        raise AssertionError(f"not done: {[self.world.counts(queue) for queue in self.queues]}")


def patience(id: str) -> int:
    """For how many rounds poison runs before it kills."""
    return int(id.partition("-")[2] or 1)
