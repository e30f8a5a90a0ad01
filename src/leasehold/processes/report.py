"""How a worker process is, as it tells its supervisor and whoever asks for its health. Values only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from leasehold.core import limits

HEALTH_READY_MS: Final = 15 * limits.SECOND
"""A worker without a good reply of Redis for this long is not ready. An idle worker asks every few seconds."""
HEALTH_LIVE_MS: Final = limits.MINUTE
"""A worker without a good reply of Redis for this long is not live. It keeps trying."""


class WorkerState(StrEnum):
    """What a worker process is at."""

    STARTING = "starting"
    RUNNING = "running"
    RETIRING = "retiring"
    """It is to be recycled: it finishes what it runs and starts nothing new."""
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker process.

    `good_at`: when Redis last gave it a good reply, or when the process began, by the monotonic clock that all
    processes of a machine share. `active`: how many jobs run. `embedded`: whether its Redis is an embedded one.
    `reason`: what is wrong with it, or why it retires; empty: nothing is.
    """

    pid: int
    state: WorkerState
    good_at: float
    active: int = 0
    worker: str = ""
    embedded: bool = False
    reason: str = ""

    def to_line(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> WorkerStatus:
        """Raises `ValueError`, `KeyError` or `TypeError` for what is not such a line."""
        fields = json.loads(line)
        fields["state"] = WorkerState(fields["state"])
        return cls(**fields)

    def live(self, now: float) -> bool:
        """Whether Redis gave it a good reply not too long ago."""
        return now - self.good_at < HEALTH_LIVE_MS / limits.SECOND

    def ready(self, now: float) -> bool:
        """Whether it takes up jobs."""
        return self.state is WorkerState.RUNNING and now - self.good_at < HEALTH_READY_MS / limits.SECOND

    def shown(self, now: float) -> dict[str, Any]:
        about = {
            "worker": self.worker,
            "pid": self.pid,
            "state": str(self.state),
            "last_good_reply_s": round(max(0.0, now - self.good_at), 3),
            "active": self.active,
        }
        return about | {"reason": self.reason} if self.reason else about


@dataclass(frozen=True, slots=True)
class Health:
    """How all worker processes of one command are. One that lives is enough: the others are its supervisor's care."""

    live: bool
    ready: bool
    text: bytes

    @classmethod
    def of(cls, conditions: Sequence[WorkerStatus], now: float) -> Health:
        """Judge them.

        >>> Health.of([WorkerStatus(7, WorkerState.RUNNING, good_at=100.0)], now=100.5).ready
        True
        """
        live = any(one.live(now) for one in conditions)
        ready = any(one.ready(now) for one in conditions)
        shown = {"live": live, "ready": ready, "workers": [one.shown(now) for one in conditions]}
        return cls(live, ready, json.dumps(shown).encode() + b"\n")
