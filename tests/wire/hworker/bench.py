"""Our engine on one server, originals beside it, and a look at the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import redis

from tenure.core.engine import HeartbeatReply, Maintained, Timing
from tenure.core.job import ErrorInfo, Lease, NewJob
from tenure.core.outcome import Completed, Outcome
from tenure.core.steps import Steps
from tenure.engines.hworker.config import HworkerConfig
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support import hworker as layout
from tests.wire.hworker.original import Original

T = TypeVar("T")
NAMESPACE: Final = "test"
LEASE_MS: Final = 10_000
GRACE_MS: Final = 4_000
TIMEOUT_MS: Final = 60_000
BOOM: Final = ErrorInfo("Boom", "it broke")


class Bench:
    """`q` is the queue, and its pool `test/q`."""

    def __init__(self, server: RedisServer, driver: SyncDriver, **options: Any) -> None:
        self.server = server
        self.driver = driver
        timing = Timing(lease_ms=LEASE_MS, grace_ms=GRACE_MS)
        numbers = {"outage_ms": 10**9, "timeout_ms": TIMEOUT_MS, "failed_queue_size": 5, **options}
        config = HworkerConfig(timing=timing, **numbers)
        self.engine = layout.Pools(NAMESPACE, config)
        self.pool = self.engine.pool_of("q")
        self.db: Any = redis.Redis.from_url(server.url)
        self.original = self.another()

    def another(self, **options: Any) -> Original:
        return Original(self.db, self.pool, **options)

    def run(self, steps: Steps[T]) -> T:
        return self.driver.run(steps)

    def put(self, *ids: str, payload: bytes = b"1") -> None:
        self.run(self.engine.enqueue([NewJob("q", id, payload) for id in ids]))

    def take(self, limit: int = 10, worker: str = "ours", lease_ms: int | None = None) -> list[Lease]:
        return list(self.run(self.engine.lease(worker, ["q"], limit, lease_ms)).leases)

    def settle(self, lease: Lease, outcome: Outcome | None = None) -> bool:
        return self.run(self.engine.settle([(lease, outcome or Completed(b""))]))[0]

    def beat(self, *leases: Lease, worker: str = "ours") -> HeartbeatReply:
        return self.run(self.engine.heartbeat(worker, ["q"], [lease.ref for lease in leases]))

    def maintain(self, *tasks: str) -> Maintained:
        return self.run(self.engine.maintain(["q"], tasks))

    def pass_time(self, ms: int) -> None:
        layout.pass_time(self.server, NAMESPACE, "q", ms)

    def silence(self) -> int:
        """A worker that sends no heartbeats is found dead. Answers how many jobs came back."""
        self.pass_time(LEASE_MS + 50)
        first = self.maintain().reclaimed
        self.pass_time(GRACE_MS + 50)
        return first + self.maintain().reclaimed

    def waiting(self) -> list[bytes]:
        """The jobs of the list in the order in which they are taken."""
        return list(reversed(self.db.lrange(self.original.jobs, 0, -1)))

    def progress(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = self.db.hgetall(self.original.progress)
        return found

    def failed(self) -> list[bytes]:
        found: list[bytes] = self.db.lrange(self.original.failed, 0, -1)
        return found

    def counts(self) -> dict[str, int]:
        counts = self.run(self.engine.queue("q")).counts
        return {state.value: count for state, count in counts.items() if count}

    def audit(self) -> None:
        wrong = layout.audit(self.server, NAMESPACE)
        assert not wrong, "\n".join(wrong)


def ids_of(leases: Sequence[Lease]) -> list[str]:
    return [lease.record.id for lease in leases]
