"""The wire protocol of redis-work-queue, as a value for `Tenure(protocol=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tenure.core import limits, names
from tenure.core.errors import invalid
from tenure.core.values import as_dict, replace
from tenure.protocols.scripted import config_of, rights_of
from tenure.protocols.spec import Cleaning, EngineSpec, ProtocolEntry, Rights, Words
from tenure.protocols.text import options_of, read_protocol, write_protocol

if TYPE_CHECKING:
    from tenure.core.engine import FullEngine
    from tenure.core.steps import Steps
    from tenure.engines.kit.extras import Cleaned
    from tenure.engines.kit.moving import Exporter
    from tenure.engines.redis_work_queue import RedisWorkQueueEngine
    from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig
    from tenure.protocols.spec import ProtocolSettings

REDIS_WORK_QUEUE: Final = "redis-work-queue"


@dataclass(frozen=True, slots=True)
class RedisWorkQueue:
    """The protocol of redis-work-queue, which has clients for Python, Rust, Go, Node and C#.

        Tenure(protocol=RedisWorkQueue(prefix="jobs"))

    The queue `default` is the one that other clients call `KeyPrefix("jobs")`; `images` lies at `jobs:images`, unless
    `queues` gives it a prefix of its own: `queues={"images": "pictures"}`. What an item cannot hold (a delay, lanes,
    priorities, unique jobs, results) is refused with `UnsupportedFeature`. `grace`: how many seconds (5 by default) an
    item of another client must have been seen without a lease before it returns to the queue. `config` has the numbers
    of the engine. Raises `InvalidArgument` for prefixes that give the keys of another queue, and for two queues
    of one prefix.
    """

    prefix: str
    queues: Mapping[str, str] | None = None
    config: RedisWorkQueueConfig | None = None
    grace: float | None = None

    def __post_init__(self) -> None:
        from tenure.engines.redis_work_queue.keys import check_prefix, check_queues

        if not check_prefix(self.prefix):
            raise invalid("prefix", "the beginning of the queue's keys", "an empty one")
        check_queues(self.prefix, self.queues)
        _grace_ms(self.grace)

    @property
    def text(self) -> str:
        """The protocol as the setting writes it, without `config`."""
        return write_protocol(REDIS_WORK_QUEUE, self)

    def engine(self, settings: ProtocolSettings) -> FullEngine:
        from tenure.engines.redis_work_queue import RedisWorkQueueEngine
        from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig

        config, grace_ms = self.config or RedisWorkQueueConfig(), _grace_ms(self.grace)
        config = config if grace_ms is None else replace(config, stray_ms=grace_ms)
        return RedisWorkQueueEngine(self.prefix, config, self.queues)


def _grace_ms(grace: object) -> int | None:
    return None if grace is None else names.duration_ms(grace, "grace", least_ms=0, most_ms=limits.DAY)


# The functions import the engine: a keeper starts soon, and needs one engine only.


def _parse(argument: str | None) -> RedisWorkQueue | None:
    return read_protocol(RedisWorkQueue, REDIS_WORK_QUEUE, argument)


def _describe(engine: RedisWorkQueueEngine) -> EngineSpec:
    return {"prefix": engine.base, "queues": dict(engine.named), "config": as_dict(engine.config)}


def _rebuild(spec: Mapping[str, Any]) -> RedisWorkQueueEngine:
    from tenure.engines.redis_work_queue import RedisWorkQueueEngine
    from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig

    return RedisWorkQueueEngine(spec["prefix"], config_of(RedisWorkQueueConfig, spec), spec["queues"])


def _rights(engine: RedisWorkQueueEngine, clustered: bool) -> Rights:
    from tenure.engines.redis_work_queue.rights import rules_of

    return rights_of(rules_of((engine.base, *engine.named.values())), clustered)


def _cleaning(engine: RedisWorkQueueEngine, again_ms: int | None) -> Cleaning:
    from tenure.engines.redis_work_queue.clean import deep_clean, light_clean

    config = replace(engine.config, creates_meta=False)
    config = config if again_ms is None else replace(config, stray_ms=again_ms)

    def first(queue: str, deep: bool) -> Steps[Cleaned]:
        return (deep_clean if deep else light_clean)(engine.prefix(queue), config)

    def again(queue: str) -> Steps[Cleaned]:
        # What it finds for the first time, it leaves without a note: a mark would be old for the next run.
        return light_clean(engine.prefix(queue), config, note=False)

    return Cleaning(first, again, config.stray_ms)


def _migration(engine: RedisWorkQueueEngine) -> Exporter:
    from tenure.engines.kit.envelope import read_record
    from tenure.engines.kit.moving import Exporter
    from tenure.engines.redis_work_queue.rights import rules_of

    return Exporter(engine, lambda queue, row: read_record(queue, *row), lambda queue: rules_of([engine.prefix(queue)]))


ENTRY: Final = ProtocolEntry(
    REDIS_WORK_QUEUE,
    Words(
        f"{REDIS_WORK_QUEUE}:PREFIX",
        f"{REDIS_WORK_QUEUE}:jobs",
        "for queues that its clients share",
        "with what other clients call their KeyPrefix",
        options_of(RedisWorkQueue),
    ),
    _parse,
    _describe,
    _rebuild,
    _rights,
    cleaning=_cleaning,
    cluster_prefixes=lambda engine: (engine.base, *engine.named.values()),
    migration=_migration,
)
