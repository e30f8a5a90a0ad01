"""The numbers of the engine."""

from __future__ import annotations

from typing import Final

from tenure.core import limits
from tenure.engines.kit.config import EngineConfig

TIMEOUT_MS: Final = 120 * limits.SECOND
"""How long a job of another client may be in progress, as originals set it."""
FAILED_QUEUE_SIZE: Final = 1_000
"""Failed jobs that a pool keeps, as originals set it."""
POLL_MS: Final = 8
"""How long a worker pauses while an original has nothing to do. The original pauses 10 ms; a claim takes longer."""
IDLE_MS: Final = limits.SECOND
"""How long originals count as idle after the last sight of one."""


class HworkerConfig(EngineConfig, frozen=True):
    """The numbers of the engine. All Tenure workers of one pool should use the same.

    `timeout_ms`: how long a job of another client may be in progress before it runs again, from when a Tenure worker
    first saw it there. `failed_queue_size`: how many failed jobs the pool keeps.
    """

    timeout_ms: int = TIMEOUT_MS
    failed_queue_size: int = FAILED_QUEUE_SIZE

    def as_argument(self) -> str:
        return self.encoded(timeout=self.timeout_ms, failed_list=self.failed_queue_size)
