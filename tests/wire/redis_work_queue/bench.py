"""Our engine on one server, the commands that other clients send, and a look at the keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import redis

from tenure.core.job import ErrorInfo, Lease, Leased, NewJob, State
from tenure.core.outcome import Completed, Outcome
from tenure.core.steps import Steps
from tenure.core.waiting import led_by
from tenure.engines.kit.extras import Cleaned
from tenure.engines.redis_work_queue import RedisWorkQueueEngine
from tenure.engines.redis_work_queue.clean import deep_clean, light_clean
from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support import redis_work_queue as layout

T = TypeVar("T")
P: Final = "jobs"
STRAY_MS: Final = 60_000
SESSION: Final = b"d838282e581a475694caa117e30b087b"
BOOM: Final = ErrorInfo("Boom", "it broke")
LEASE_KEYS: Final = ("leased_by_session", "lease")
"""The two names of leases: that of clients up to 0.2, and that of later ones."""


class Bench:
    """`default` is the queue where a test names none. What begins with `foreign` is what other clients send."""

    def __init__(self, server: RedisServer, driver: SyncDriver, lease_key: str = LEASE_KEYS[0]) -> None:
        self.server = server
        self.driver = driver
        self.engine = RedisWorkQueueEngine(P, RedisWorkQueueConfig(stray_ms=STRAY_MS))
        self.lease_key = lease_key

    def run(self, steps: Steps[T]) -> T:
        return self.driver.run(steps)

    def command(self, *args: Any) -> Any:
        return self.server.command(*args)

    def client(self) -> redis.Redis:
        """A client of a caller's."""
        return redis.Redis.from_url(self.server.url)

    # Ours.

    def put(self, *ids: str, data: bytes = b"data", **options: Any) -> list[bool]:
        return [
            one.created for one in self.run(self.engine.enqueue([NewJob("default", id, data, **options) for id in ids]))
        ]

    def take(self, limit: int = 10, worker: str = "w", lease_ms: int | None = None) -> list[Lease]:
        return list(self.run(self.engine.lease(worker, ["default"], limit, lease_ms)).leases)

    def wait_and_claim(self, worker: str = "w", timeout_ms: int = 500, limit: int = 1) -> Steps[Leased]:
        """As an idle worker waits."""
        wait = self.engine.wait(worker, ["default"], timeout_ms)
        return led_by(wait.command, self.engine.lease(worker, ["default"], limit))

    def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Ask until the answer is true, with a deadline."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not come true in time"
            time.sleep(0.002)

    def take_one(self, worker: str = "w", lease_ms: int | None = None) -> Lease:
        (lease,) = self.take(1, worker, lease_ms)
        return lease

    def settle(self, lease: Lease, outcome: Outcome | None = None) -> bool:
        (answer,) = self.run(self.engine.settle([(lease, outcome or Completed(b"", 0))]))
        return answer

    def beat(self, worker: str, leases: Sequence[Lease]) -> set[str]:
        """The ids of leases that are lost."""
        return {
            ref.id for ref in self.run(self.engine.heartbeat(worker, ["default"], [one.ref for one in leases])).lost
        }

    def maintain(self) -> int:
        return self.run(self.engine.maintain(["default"], [])).reclaimed

    def light(self, note: bool = True) -> Cleaned:
        return self.run(light_clean(P, self.engine.config, note))

    def deep(self) -> Cleaned:
        return self.run(deep_clean(P, self.engine.config))

    def pass_time(self, ms: int) -> None:
        layout.pass_time(self.server, P, "default", ms)

    def drain(self) -> list[str]:
        done = []
        while leases := self.take(100, "drainer"):
            done += [lease.record.id for lease in leases if self.settle(lease)]
        return done

    # What other clients send.

    def foreign_item(self, id: bytes | str, data: bytes = b"data") -> Any:
        return self.command("SETNX", self._name("item", id), data)

    def foreign_push(self, id: bytes | str) -> None:
        self.command("LPUSH", f"{P}:queue", id)

    def foreign_add(self, id: bytes | str, data: bytes = b"data") -> None:
        self.foreign_item(id, data)
        self.foreign_push(id)

    def foreign_pop(self) -> bytes:
        id: bytes = self.command("RPOPLPUSH", f"{P}:queue", f"{P}:processing")
        return id

    def foreign_hold(self, id: bytes | str, seconds: int = 30) -> None:
        self.command("SETEX", self._name(self.lease_key, id), seconds, SESSION)

    def foreign_lease(self, seconds: int = 30) -> bytes:
        id = self.foreign_pop()
        self.foreign_hold(id, seconds)
        return id

    def foreign_complete(self, id: bytes | str) -> bool:
        self.command("LREM", f"{P}:processing", 0, id)
        gone = self.command("DEL", self._name("item", id)) == 1
        self.command("DEL", self._name(self.lease_key, id))
        return gone

    def foreign_complete_by_list(self, id: bytes | str) -> bool:
        """As clients up to 0.2 do it: the place in `processing` decides."""
        found: int = self.command("LREM", f"{P}:processing", 0, id)
        self.command("DEL", self._name("item", id), self._name(self.lease_key, id))
        return found > 0

    def foreign_reset(self, id: bytes | str) -> None:
        """What a light clean of theirs does to an id that had no lease when it looked."""
        self.command("LREM", f"{P}:processing", 0, id)
        self.command("LPUSH", f"{P}:queue", id)

    # A look.

    def queue(self) -> list[bytes]:
        """From the first to the last that will be taken."""
        ids: list[bytes] = self.command("LRANGE", f"{P}:queue", 0, -1)
        return ids[::-1]

    def processing(self) -> list[bytes]:
        ids: list[bytes] = self.command("LRANGE", f"{P}:processing", 0, -1)
        return ids

    def lengths(self) -> tuple[int, int]:
        return self.command("LLEN", f"{P}:queue"), self.command("LLEN", f"{P}:processing")

    def items(self) -> int:
        return len(self.command("KEYS", f"{P}:item:*"))

    def state(self, id: str) -> State | None:
        view = self.run(self.engine.job("default", id))
        return view.state if view else None

    def audit(self) -> None:
        wrong = layout.audit(self.server, P)
        assert not wrong, "\n".join(wrong)

    def _name(self, kind: str, id: bytes | str) -> bytes:
        raw = id if isinstance(id, bytes) else id.encode("utf-8", "surrogateescape")
        return f"{P}:{kind}:".encode() + raw
