"""The wire protocol of redis-work-queue, as a value for `Leasehold(protocol=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leasehold.core.engine import FullEngine

if TYPE_CHECKING:
    from leasehold.engines.redis_work_queue.config import RedisWorkQueueConfig
    from leasehold.protocols.spec import Settings

REDIS_WORK_QUEUE: Final = "redis-work-queue"


@dataclass(frozen=True, slots=True)
class RedisWorkQueue:
    """The protocol of redis-work-queue, which has clients for Python, Rust, Go, Node and C#.

        Leasehold(protocol=RedisWorkQueue(prefix="jobs"))

    The queue `default` is the one that other clients call `KeyPrefix("jobs")`; `images` lies at `jobs:images`, unless
    `queues` gives it a prefix of its own: `queues={"images": "pictures"}`. What an item cannot hold (a delay, lanes,
    priorities, unique jobs, results) is refused with `UnsupportedFeature`. `config` has the numbers of the engine.
    Raises `InvalidArgument` for prefixes whose keys would be those of another queue, and for two queues of one prefix.
    """

    prefix: str
    queues: Mapping[str, str] | None = None
    config: RedisWorkQueueConfig | None = None

    def __post_init__(self) -> None:
        from leasehold.engines.redis_work_queue.keys import check_prefix, check_queues

        check_queues(check_prefix(self.prefix), self.queues)

    @property
    def text(self) -> str:
        """How the setting says it; `queues` and `config` have no place there."""
        return f"{REDIS_WORK_QUEUE}:{self.prefix}"

    def engine(self, settings: Settings) -> FullEngine:
        from leasehold.engines.redis_work_queue import RedisWorkQueueEngine

        return RedisWorkQueueEngine(self.prefix, self.config, self.queues)
