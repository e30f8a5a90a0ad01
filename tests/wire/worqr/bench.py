"""Our engine on one server, originals beside it, and a look at the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import redis

from tenure.core.engine import HeartbeatReply, Maintained, Timing
from tenure.core.job import ErrorInfo, Lease, NewJob
from tenure.core.outcome import Completed, Outcome
from tenure.core.shape import Shape, UniqueRule
from tenure.core.steps import Steps
from tenure.core.worker_view import WorkerView
from tenure.engines.worqr import WorqrEngine
from tenure.engines.worqr.config import WorqrConfig
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support import worqr as layout
from tests.wire.worqr.original import Original, R, md5

T = TypeVar("T")
LEASE_MS: Final = 10_000
GRACE_MS: Final = 4_000
STRAY_MS: Final = 60_000
BOOM: Final = ErrorInfo("Boom", "it broke")
UNIQUE: Final = Shape(unique=UniqueRule("a:0"))


class Bench:
    """`q` is the queue where a test names none."""

    def __init__(self, server: RedisServer, driver: SyncDriver, max_crashes: int = 6) -> None:
        self.server = server
        self.driver = driver
        timing = Timing(lease_ms=LEASE_MS, grace_ms=GRACE_MS, presence_ms=1_000)
        self.config = WorqrConfig(
            timing=timing,
            outage_ms=10**9,
            max_crashes=max_crashes,
            alone_after_crashes=99,
            timer_ms=100_000,
            stray_ms=STRAY_MS,
        )
        self.engine = WorqrEngine(R, self.config)
        self.db: Any = redis.Redis.from_url(server.url)

    def original(self, worker: str = "original", *queues: str, permanent: bool = False) -> Original:
        """A worker of the original, which serves these queues."""
        client = Original(self.db, worker)
        client.start_worker(permanent)
        for queue in queues:
            client.start_work(queue)
        return client

    def run(self, steps: Steps[T]) -> T:
        return self.driver.run(steps)

    def put(self, *tasks: str, queue: str = "q", **options: Any) -> list[bool]:
        jobs = [NewJob(queue, "", task.encode(), **options) for task in tasks]
        return [one.created for one in self.run(self.engine.enqueue(jobs))]

    def take(self, limit: int = 10, worker: str = "ours", queue: str = "q", lease_ms: int | None = None) -> list[Lease]:
        return list(self.run(self.engine.lease(worker, [queue], limit, lease_ms)).leases)

    def settle(self, lease: Lease, outcome: Outcome | None = None) -> bool:
        return self.run(self.engine.settle([(lease, outcome or Completed(b""))]))[0]

    def beat(self, *leases: Lease, worker: str = "ours") -> HeartbeatReply:
        return self.run(self.engine.heartbeat(worker, ["q"], [lease.ref for lease in leases]))

    def maintain(self, *queues: str) -> Maintained:
        return self.run(self.engine.maintain(queues or ["q"], []))

    def announce(self, worker: str, *queues: str) -> None:
        self.run(self.engine.announce(WorkerView(worker, queues or ("q",), "host", 1, 1, 1, 1)))

    def leave(self, worker: str = "ours") -> int:
        return self.run(self.engine.leave(worker, ["q"]))

    def pass_time(self, ms: int, queue: str = "q") -> None:
        layout.pass_time(self.server, R, queue, ms)
        self.db.delete(f"{R}:tenure:sweep")
        for member in self.db.zrange(f"{R}:tenure:markers", 0, -1):
            self.db.zincrby(f"{R}:tenure:markers", -ms, member)

    def silence(self) -> int:
        """A worker that sends no heartbeats is found dead. Answers how many jobs came back."""
        self.pass_time(LEASE_MS + 50)
        first = self.maintain().reclaimed
        self.pass_time(GRACE_MS + 50)
        return first + self.maintain().reclaimed

    def grace(self) -> None:
        """Two rounds of maintenance, with the grace for what originals left between them."""
        self.maintain()
        self.pass_time(STRAY_MS + 50)
        self.maintain()

    def waiting(self, queue: str = "q") -> list[str]:
        """The tasks of a queue in the order in which they are served."""
        return [task.decode() for task in reversed(self.db.lrange(f"{R}:queues:{queue}", 0, -1))]

    def working(self, queue: str = "q") -> set[str]:
        return {pid.decode() for pid in self.db.smembers(f"{R}:workingProcesses:{queue}")}

    def is_marked(self, task: str) -> bool:
        return bool(self.db.exists(f"{R}:uniqueTasks:{md5(task)}"))

    def audit(self) -> None:
        wrong = layout.audit(self.server, R)
        assert not wrong, "\n".join(wrong)


def tasks_of(leases: Sequence[Lease]) -> list[str]:
    return [lease.record.payload.decode() for lease in leases]
