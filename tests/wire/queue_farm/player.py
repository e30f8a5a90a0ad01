"""An original client, played: the commands of npm queue-farm 2.2.1, in its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from tests.support.world import World

BASE: Final = "test:q"
"""The namespace that is the queue `q` in these tests."""


@dataclass
class Original:
    """A producer and worker. `skew_ms`: by how much its clock is ahead of that of Redis."""

    world: World
    name: str = "host:1234"
    keeps: bool = False
    skew_ms: int = 0
    batch: list[str] = field(default_factory=list)

    def command(self, *args: Any) -> Any:
        return self.world.command(*args)

    def now(self) -> int:
        seconds, micros = self.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000 + self.skew_ms

    def push(self, lane: str, data: str = '{"n":1}', attempts: int = 3, timeout: int = 30_000, id: str = "") -> str:
        id = id or str(uuid4())
        fields = ("queuedAt", self.now(), "data", data, "maxAttempts", attempts, "timeout", timeout, "managerId", "m")
        self.command("SADD", f"{BASE}:active", lane)
        self.command("HSET", f"{BASE}:job:{id}", *fields)
        self.command("LPUSH", f"{BASE}:queue:{lane}", id)
        return id

    def take(self, lane: str, most: int = 1) -> list[str]:
        """The next batch, if nothing is active."""
        if self.command("LLEN", f"{BASE}:active:{lane}"):
            return []
        self.batch = []
        for _ in range(most):
            id = self.command("RPOPLPUSH", f"{BASE}:queue:{lane}", f"{BASE}:active:{lane}")
            if id:
                self.batch.append(id.decode())
        self.fetch(lane)
        self.start(self.batch)
        return self.batch

    def fetch(self, lane: str) -> None:
        self.command("SET", f"{BASE}:active:{lane}:fetchAt", self.now())

    def start(self, ids: Sequence[str]) -> None:
        for id in ids:
            self.command("HINCRBY", f"{BASE}:job:{id}", "attempts", 1)
            self.command("HSET", f"{BASE}:job:{id}", "attemptAt", self.now(), "workerId", self.name)

    def finds_stalled(self, lane: str) -> bool:
        ids = self.command("LRANGE", f"{BASE}:active:{lane}", 0, -1)
        total = sum(int(self.command("HGET", f"{BASE}:job:{id.decode()}", "timeout")) for id in ids)
        return self.now() - int(self.command("GET", f"{BASE}:active:{lane}:fetchAt")) >= (total or 30_000)

    def finish(self, lane: str, ids: Sequence[str] | None = None) -> None:
        for id in self.batch if ids is None else ids:
            if self.keeps:
                self.command("HSET", f"{BASE}:job:{id}", "finishAt", self.now())
                self.command("RPUSH", f"{BASE}:finish:{lane}", id)
            else:
                self.command("DEL", f"{BASE}:job:{id}")
            self.command("LREM", f"{BASE}:active:{lane}", 1, id)

    def fail(self, lane: str) -> None:
        for id in reversed(self.batch):
            self.command("LREM", f"{BASE}:active:{lane}", 1, id)
            self.command("HSET", f"{BASE}:job:{id}", "errorAt", self.now())
            self.command("RPUSH", f"{BASE}:queue:{lane}", id)

    def drop(self, lane: str) -> None:
        """The queue is empty and nothing is active."""
        self.command("SREM", f"{BASE}:active", lane)
        self.command("DEL", f"{BASE}:active:{lane}:fetchAt")
