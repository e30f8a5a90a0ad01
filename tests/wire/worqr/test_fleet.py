"""Workers of both kinds on one queue, killed at random: after each step each task is in exactly one place.

TENURE_WALKS sets how many walks there are.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest

from tenure.core.job import Lease
from tenure.core.outcome import Completed, Crashed, Outcome, Released, Retried
from tenure.core.shape import PLAIN
from tests.wire.worqr.bench import BOOM, GRACE_MS, LEASE_MS, STRAY_MS, UNIQUE, Bench
from tests.wire.worqr.original import Original, R

WALKS: Final = int(os.environ.get("TENURE_WALKS", "6"))
STEPS: Final = 150
WORKERS: Final = 3


@dataclass
class Ours:
    """A worker of Tenure. `since`: how long ago its last heartbeat was."""

    name: str
    leases: list[Lease] = field(default_factory=list)
    since: int = 0


@dataclass
class Theirs:
    """A worker of the original, and what it runs."""

    client: Original
    held: list[tuple[str, str]] = field(default_factory=list)


class Walk:
    """What happened so far. `shaken`: the leases and processes that an original may have taken away."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.number = 0
        self.open: set[str] = set()
        self.ours: list[Ours] = []
        self.theirs: list[Theirs] = []
        self.failing: Generator[None, None, None] | None = None
        self.shaken: set[str] = set()
        self.seen: Counter[str] = Counter()
        for _ in range(WORKERS):
            self.start_ours()
            self.start_theirs()

    def new(self) -> str:
        self.number += 1
        return f"n{self.number}"

    def start_ours(self) -> None:
        self.ours.append(Ours(self.new()))

    def start_theirs(self) -> None:
        client = self.bench.original(self.new(), "q")
        # It lives until it is killed, however slow the machine is.
        self.bench.db.expire(client.key("workerTimers", client.worker), 3_600)
        self.theirs.append(Theirs(client))

    def step(self) -> None:
        name = self.random.choice(ACTIONS)
        self.seen[name] += 1
        getattr(self, name)()
        self.check()

    # Producers.

    def enqueue(self) -> None:
        task = self.new()
        if self.random.random() < 0.5:
            assert self.bench.put(task, shape=UNIQUE if self.random.random() < 0.3 else PLAIN) == [True]
        else:
            self.theirs[0].client.enqueue("q", task)
        self.open.add(task)

    # Workers of Tenure.

    def lease(self) -> None:
        worker = self.random.choice(self.ours)
        worker.leases += self.bench.take(self.random.randint(1, 2), worker.name)

    def settle(self) -> None:
        worker = self.random.choice(self.ours)
        if worker.leases:
            lease = worker.leases.pop(self.random.randrange(len(worker.leases)))
            outcome = self.random.choice(OUTCOMES)
            kept = self.bench.settle(lease, outcome)
            assert kept or lease.record.id in self.shaken, "a live worker lost its lease"
            if kept and isinstance(outcome, Completed):
                self.open.remove(lease.record.payload.decode())

    def beat(self) -> None:
        for worker in self.ours:
            lost = self.bench.beat(*worker.leases, worker=worker.name).lost
            assert {ref.id for ref in lost} <= self.shaken, "a live worker lost its lease"
            worker.leases = [lease for lease in worker.leases if lease.ref not in lost]

    def kill_ours(self) -> None:
        self.ours.remove(self.random.choice(self.ours))
        self.start_ours()

    def stop_ours(self) -> None:
        worker = self.random.choice(self.ours)
        self.bench.leave(worker.name)
        worker.leases = []

    def maintain(self) -> None:
        self.bench.maintain()

    def time(self) -> None:
        """Live workers send their heartbeats."""
        for ms in (LEASE_MS // 2, LEASE_MS // 2, GRACE_MS):
            self.bench.pass_time(ms)
            self.beat()

    def grace(self) -> None:
        self.maintain()
        for _ in range(STRAY_MS // LEASE_MS + 1):
            self.bench.pass_time(LEASE_MS - 1_000)
            self.beat()
        self.maintain()

    # Workers of the original.

    def dequeue(self) -> None:
        worker = self.random.choice(self.theirs)
        if (held := worker.client.dequeue("q")) is not None:
            worker.held.append(held)

    def finish(self) -> None:
        worker = self.random.choice(self.theirs)
        if worker.held:
            pid, task = worker.held.pop()
            if self.bench.db.exists(f"{R}:processes:{pid}"):
                self.open.remove(task)
            else:
                assert pid in self.shaken, "a live original lost its process"
            worker.client.finish(pid)

    def stop(self) -> None:
        worker = self.random.choice(self.theirs)
        if worker.held:
            worker.client.stop(worker.held.pop()[0])

    def kill_theirs(self) -> None:
        worker = self.random.choice(self.theirs)
        worker.client.die()
        self.theirs.remove(worker)
        self.start_theirs()

    def fail(self) -> None:
        """An original fails the dead, in steps between which others act."""
        if self.failing is None:
            dead = [name.decode() for name in self.bench.db.smembers(f"{R}:expiringWorkers")]
            dead = [name for name in dead if not self.bench.db.exists(f"{R}:workerTimers:{name}")]
            if not dead:
                return
            self.failing = self.theirs[0].client.fail_steps(dead[0])
        self.shaken |= self.bench.working()
        if next(self.failing, self) is self:
            self.failing = None
        self.shaken |= self.bench.working()

    # What must hold.

    def places(self) -> Counter[str]:
        found = Counter(self.bench.waiting())
        for key in self.bench.db.keys(f"{R}:processes:*"):
            found.update(task.decode() for task in self.bench.db.lrange(key, 0, -1))
        for text in self.bench.db.hvals(f"{R}:tenure:q:q:jobs"):
            job: dict[str, Any] = msgspec.msgpack.decode(text)
            if job["s"] != "active":
                found[job["d"] if isinstance(job["d"], str) else job["d"].decode()] += 1
        return found

    def check(self) -> None:
        assert self.places() == Counter(self.open)

    def end(self) -> None:
        """All die. Maintenance and one worker do the rest."""
        for worker in self.theirs:
            worker.client.die()
        self.ours = []
        for ms in (LEASE_MS + 50, GRACE_MS + 50, STRAY_MS + 50, STRAY_MS + 50):
            self.bench.pass_time(ms)
            while self.bench.maintain().more:
                pass
            self.check()
        while leases := self.bench.take(50, "last"):
            for lease in leases:
                assert self.bench.settle(lease)
                self.open.remove(lease.record.payload.decode())
        assert not self.open
        self.bench.leave("last")
        for _ in range(2):
            self.bench.pass_time(STRAY_MS + 50)
            self.bench.maintain()
        assert self.bench.db.keys(f"{R}:uniqueTasks:*") == []
        assert self.bench.working() == set()
        self.bench.audit()


OUTCOMES: Final[list[Outcome]] = [
    Completed(b""),
    Completed(b""),
    Retried(BOOM),
    Retried(BOOM, 5_000),
    Released(),
    Crashed(),
]
ACTIONS: Final = (
    *("enqueue",) * 6,
    *("lease", "settle", "dequeue", "finish") * 3,
    *("beat", "maintain", "time", "stop", "stop_ours", "kill_ours", "kill_theirs", "fail", "fail", "grace"),
)


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_mixed_fleet(bench: Bench, seed: int) -> None:

    walk = Walk(Bench(bench.server, bench.driver, max_crashes=10_000), seed)
    for _ in range(STEPS):
        walk.step()
    assert walk.seen["fail"] > 0
    assert walk.seen["kill_ours"] > 0
    walk.end()
