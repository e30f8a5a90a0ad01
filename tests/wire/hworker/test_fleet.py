"""Workers of both kinds on one pool, killed at random: after each step each job is in exactly one place.

TENURE_WALKS sets how many walks there are.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest

from tenure.core.job import Lease, State
from tenure.core.outcome import Broken, Completed, Crashed, Failed, Outcome, Released, Retried
from tests.wire.hworker.bench import BOOM, GRACE_MS, LEASE_MS, TIMEOUT_MS, Bench

WALKS: Final = int(os.environ.get("TENURE_WALKS", "6"))
STEPS: Final = 200
WORKERS: Final = 3


@dataclass
class Ours:
    """A worker of Tenure."""

    name: str
    leases: list[Lease] = field(default_factory=list)


class Walk:
    """What happened so far. `open`: the values of the jobs that have not ended. `shaken`: the bytes of jobs that a
    monitor or a late worker of the original may have taken away."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.random = random.Random(seed)
        self.number = 0
        self.open: set[int] = set()
        self.ours = [Ours(f"w{n}") for n in range(WORKERS)]
        self.theirs: list[bytes] = []
        self.failing: list[bytes] = []
        self.seen_by_monitor: dict[bytes, bytes] | None = None
        self.shaken: set[bytes] = set()
        self.seen: Counter[str] = Counter()

    def step(self) -> None:
        name = self.random.choice(ACTIONS)
        self.seen[name] += 1
        getattr(self, name)()
        self.check()

    # Producers.

    def enqueue(self) -> None:
        self.number += 1
        if self.random.random() < 0.5:
            self.bench.put(f"id-{self.number}", payload=b"%d" % self.number)
        else:
            self.bench.original.queue(self.number)
        self.open.add(self.number)

    # Workers of Tenure.

    def lease(self) -> None:
        worker = self.random.choice(self.ours)
        worker.leases += self.bench.take(self.random.randint(1, 3), worker.name)

    def settle(self) -> None:
        worker = self.random.choice(self.ours)
        if worker.leases:
            lease = worker.leases.pop(self.random.randrange(len(worker.leases)))
            outcome = self.random.choice(OUTCOMES)
            kept = self.bench.settle(lease, outcome)
            assert kept or self.is_shaken(lease), "a live worker lost its lease"
            if kept and isinstance(outcome, Completed):
                self.open.discard(int(lease.record.payload))

    def beat(self) -> None:
        for worker in self.ours:
            lost = self.bench.beat(*worker.leases, worker=worker.name).lost
            for lease in worker.leases:
                assert lease.ref not in lost or self.is_shaken(lease), "a live worker lost its lease"
            worker.leases = [lease for lease in worker.leases if lease.ref not in lost]

    def kill_ours(self) -> None:
        self.number += 1
        self.ours[self.random.randrange(WORKERS)] = Ours(f"next-{self.number}")

    def stop_ours(self) -> None:
        worker = self.random.choice(self.ours)
        self.bench.run(self.bench.engine.leave(worker.name, ["q"]))
        worker.leases = []

    def maintain(self) -> None:
        self.bench.maintain()

    def retry(self) -> None:
        state = self.random.choice([State.FAILED, State.BROKEN])
        for view in self.bench.run(self.bench.engine.page("q", state)).jobs:
            assert self.bench.run(self.bench.engine.retry("q", view.id))

    def time(self) -> None:
        """Live workers send their heartbeats."""
        for ms in (LEASE_MS // 2, LEASE_MS // 2, GRACE_MS):
            self.bench.pass_time(ms)
            self.beat()

    def timeout(self) -> None:
        """Originals hang for longer than the timeout."""
        self.maintain()
        for _ in range(TIMEOUT_MS // LEASE_MS + 2):
            self.bench.pass_time(LEASE_MS - 1_000)
            self.beat()
        self.maintain()

    # Workers and monitors of the original.

    def pop(self) -> None:
        job = self.bench.original.pop()
        if job not in (None, b"false"):
            self.theirs.append(job)

    def succeed(self) -> None:
        """Also late: then the job may be with another worker by now."""
        if self.theirs:
            self.end_late(self.theirs.pop(self.random.randrange(len(self.theirs))))

    def end_late(self, job: bytes) -> None:
        self.shaken.add(job)
        value = self.bench.db.hget(self.bench.original.progress, job)
        if value is not None and self.records().get(job) != value:
            self.open.remove(json.loads(job)[1])
        self.bench.original.succeed(job)

    def end(self) -> None:
        if self.theirs:
            job = self.theirs.pop()
            self.shaken.add(job)
            if self.random.random() < 0.5:
                self.bench.original.retry(job)
            else:
                self.bench.original.begin_to_fail(job)
                self.failing.append(job)

    def end_to_fail(self) -> None:
        """The second removal of the entry, late. It loses the job of another original, but none of Tenure."""
        if self.failing:
            self.end_late(self.failing.pop(0))

    def look(self) -> None:
        """A monitor whose clock is ahead looks; later it acts."""
        self.seen_by_monitor = self.bench.original.started()

    def act(self) -> None:
        if self.seen_by_monitor:
            self.seen_by_monitor.pop(b"false", None)
            self.shaken |= set(self.seen_by_monitor)
            self.bench.another(ahead_s=10_000).put_back(self.seen_by_monitor)
            self.seen_by_monitor = None

    # What must hold.

    def is_shaken(self, lease: Lease) -> bool:
        """Whether the job may be with an original. A job of ours has its id and value in its bytes."""
        return any(json.loads(job) == [lease.record.id, int(lease.record.payload)] for job in self.shaken)

    def places(self) -> Counter[int]:
        db, original = self.bench.db, self.bench.original
        found = [*self.bench.waiting(), *db.hkeys(original.progress), *db.lrange(original.failed, 0, -1)]
        found += db.hkeys(original.broken)
        found += [job for job, value in self.records().items() if job not in found]
        return Counter(json.loads(job)[1] for job in found if job != b"false")

    def records(self) -> dict[bytes, bytes]:
        """The jobs that Tenure holds or keeps for a retry, and the time that it wrote for each."""
        found = {}
        for text in self.bench.db.hvals(f"hworker-tenure-{self.bench.pool}:jobs"):
            job: dict[str, Any] = msgspec.msgpack.decode(text)
            if job["s"] in ("active", "scheduled"):
                found[job["d"].encode()] = job["v"].encode()
        return found

    def check(self) -> None:
        places = self.places()
        assert max(places.values(), default=1) == 1, "in two places"
        assert not self.open - set(places), "lost"
        # A job that an original ended while a worker of Tenure held it goes on there.
        extra = set(places) - self.open
        assert extra <= {json.loads(job)[1] for job in self.shaken}, "run again without a cause"
        self.open |= extra

    def finish(self) -> None:
        """All die. Maintenance and one worker do the rest."""
        for ms in (LEASE_MS + 50, GRACE_MS + 50, TIMEOUT_MS + 50, TIMEOUT_MS + 50):
            self.bench.pass_time(ms)
            while self.bench.maintain().more:
                pass
            self.check()
        for state in (State.FAILED, State.BROKEN):
            for view in self.bench.run(self.bench.engine.page("q", state)).jobs:
                assert self.bench.run(self.bench.engine.retry("q", view.id))
        while leases := self.bench.take(50, "last"):
            for lease in leases:
                assert self.bench.settle(lease)
                self.open.remove(int(lease.record.payload))
        assert not self.open
        assert self.bench.counts() == {}
        self.bench.audit()


OUTCOMES: Final[list[Outcome]] = [
    Completed(b""),
    Completed(b""),
    Retried(BOOM),
    Retried(BOOM, delay_ms=5_000),
    Released(),
    Crashed(),
    Failed(BOOM),
    Broken(BOOM),
]
ACTIONS: Final = (
    *("enqueue",) * 6,
    *("lease", "settle", "pop", "succeed") * 3,
    *(
        "beat",
        "maintain",
        "time",
        "end",
        "end_to_fail",
        "stop_ours",
        "kill_ours",
        "look",
        "look",
        "act",
        "retry",
        "timeout",
    ),
)


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_mixed_pool(bench: Bench, seed: int) -> None:
    walk = Walk(Bench(bench.server, bench.driver, max_crashes=10_000, failed_queue_size=10_000), seed)
    for _ in range(STEPS):
        walk.step()
    assert walk.seen["kill_ours"] > 0
    assert walk.seen["act"] > 0
    walk.finish()
