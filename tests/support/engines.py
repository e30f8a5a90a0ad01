"""The engines under test. A new engine joins every suite by one more entry in `ENTRIES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

from tenure.core.engine import Feature, Timing, Trait
from tenure.engines.hworker import scripts as hworker_scripts
from tenure.engines.hworker.config import HworkerConfig
from tenure.engines.kit.config import FAILED_MAX, FAILED_TTL_MS, EngineConfig
from tenure.engines.native import scripts as native_scripts
from tenure.engines.native.config import COMPLETED_MAX, NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.engines.queue_farm import scripts as queue_farm_scripts
from tenure.engines.queue_farm.config import QueueFarmConfig
from tenure.engines.redis_work_queue import RedisWorkQueueEngine
from tenure.engines.redis_work_queue import scripts as redis_work_queue_scripts
from tenure.engines.redis_work_queue.config import RedisWorkQueueConfig
from tenure.engines.worqr import WorqrEngine
from tenure.engines.worqr import scripts as worqr_scripts
from tenure.engines.worqr.config import WorqrConfig
from tenure.testing.server import RedisServer
from tests.support import hworker, native, queue_farm, redis_work_queue, worqr
from tests.support.sixth import SixthEngine
from tests.support.sixth import looking as sixth
from tests.support.sixth import scripts as sixth_scripts

LEASE_MS: Final = 10_000
GRACE_MS: Final = 4_000
OUTAGE_MS: Final = 60_000
AMNESTY_MS: Final = 20_000
"""Long for a test, which shifts the time (`World.pass_time`) instead of waiting: a slow machine changes nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a test wants of its engine."""

    timing: Timing = field(default_factory=lambda: Timing(lease_ms=LEASE_MS, grace_ms=GRACE_MS))
    outage_ms: int = OUTAGE_MS
    amnesty_ms: int = AMNESTY_MS
    max_crashes: int = 3
    alone_after_crashes: int = 99
    completed_max: int = COMPLETED_MAX
    failed_ttl_ms: int = FAILED_TTL_MS
    failed_max: int = FAILED_MAX


@dataclass(frozen=True, slots=True)
class Entry:
    """An engine, what it can do, and how the tests look into it.

    make: an engine of a namespace. pass_time: let milliseconds pass on a queue (`native.pass_time` shifts what was
    written; an engine with another clock may wait). audit: what is wrong with the keys, as sentences. dump: all values
    that must stay the same when nothing may change. timeless: the same without times. spoil: write another program's
    data into a queue, so that the engine refuses it. set_layout: write a layout version to a queue. answers: the word
    in the names of the keys that remember answers. scripts: the module
    that declares its Lua operations. A test that needs a feature or a trait names it by
    `@pytest.mark.needs(Feature.X)`, on the test or on a case of it, and does not run for engines without it.
    """

    name: str
    features: frozenset[Feature]
    traits: frozenset[Trait]
    make: Callable[..., Any]
    pass_time: Callable[[RedisServer, str, str, int], None]
    audit: Callable[[RedisServer, str], list[str]]
    dump: Callable[[RedisServer], dict[bytes, Any]]
    timeless: Callable[[dict[bytes, Any]], dict[bytes, Any]]
    spoil: Callable[[RedisServer, str, str], None]
    set_layout: Callable[[RedisServer, str, str, int | None], None]
    answers: str
    scripts: ModuleType


def _numbers(options: Options) -> dict[str, Any]:
    """What every engine takes."""
    names = ("timing", "outage_ms", "amnesty_ms", "max_crashes", "alone_after_crashes", "failed_ttl_ms", "failed_max")
    return {name: getattr(options, name) for name in names}


def inner(engine: Any) -> Any:
    """The engine with the scripts, which is within the native one for users."""
    return getattr(engine, "native", engine)


def list_again(engine: Any, queue: str) -> None:
    """Let the time come when an engine lists a queue again."""
    listed = inner(engine)._registered
    assert listed[queue] > 0
    listed[queue] = 0.0


def _native(namespace: str, options: Options) -> PartitionedEngine:
    config = NativeConfig(
        **_numbers(options),
        completed_max=options.completed_max,
    )
    return PartitionedEngine(namespace, config)


NATIVE: Final = Entry(
    "native",
    PartitionedEngine.features,
    PartitionedEngine.traits,
    _native,
    native.pass_time,
    native.audit,
    native.dump,
    native.timeless,
    native.spoil,
    native.set_layout,
    "call",
    native_scripts,
)


def _redis_work_queue(namespace: str, options: Options) -> RedisWorkQueueEngine:
    config = RedisWorkQueueConfig(
        **_numbers(options),
        wire_lease_ms=10 * options.timing.lease_ms,
    )
    return RedisWorkQueueEngine(namespace, config)


REDIS_WORK_QUEUE: Final = Entry(
    "redis-work-queue",
    RedisWorkQueueEngine.features,
    RedisWorkQueueEngine.traits,
    _redis_work_queue,
    redis_work_queue.pass_time,
    redis_work_queue.audit,
    redis_work_queue.dump,
    redis_work_queue.timeless,
    redis_work_queue.spoil,
    redis_work_queue.set_layout,
    "done",
    redis_work_queue_scripts,
)


def _sixth(namespace: str, options: Options) -> SixthEngine:
    config = EngineConfig(
        timing=options.timing,
        outage_ms=options.outage_ms,
        amnesty_ms=options.amnesty_ms,
        failed_ttl_ms=options.failed_ttl_ms,
        failed_max=options.failed_max,
    )
    return SixthEngine(namespace, config)


SIXTH: Final = Entry(
    "sixth",
    SixthEngine.features,
    SixthEngine.traits,
    _sixth,
    sixth.pass_time,
    sixth.audit,
    sixth.dump,
    sixth.timeless,
    sixth.spoil,
    sixth.set_layout,
    "call",
    sixth_scripts,
)


def _queue_farm(namespace: str, options: Options, **own: Any) -> queue_farm.Farms:
    config = QueueFarmConfig(
        **_numbers(options),
        **own,
    )
    return queue_farm.Farms(namespace, config)


QUEUE_FARM: Final = Entry(
    "queue-farm",
    queue_farm.Farms.features,
    queue_farm.Farms.traits,
    _queue_farm,
    queue_farm.pass_time,
    queue_farm.audit,
    queue_farm.dump,
    queue_farm.timeless,
    queue_farm.spoil,
    queue_farm.set_layout,
    "done",
    queue_farm_scripts,
)


def _hworker(namespace: str, options: Options) -> hworker.Pools:
    config = HworkerConfig(
        **_numbers(options),
        failed_queue_size=options.failed_max,
    )
    return hworker.Pools(namespace, config)


HWORKER: Final = Entry(
    "hworker",
    hworker.Pools.features,
    hworker.Pools.traits,
    _hworker,
    hworker.pass_time,
    hworker.audit,
    hworker.dump,
    hworker.timeless,
    hworker.spoil,
    hworker.set_layout,
    "call",
    hworker_scripts,
)


def _worqr(namespace: str, options: Options) -> WorqrEngine:
    config = WorqrConfig(
        **_numbers(options),
        timer_ms=10 * options.timing.lease_ms,
    )
    return WorqrEngine(namespace, config)


WORQR: Final = Entry(
    "worqr",
    WorqrEngine.features,
    WorqrEngine.traits,
    _worqr,
    worqr.pass_time,
    worqr.audit,
    worqr.dump,
    worqr.timeless,
    worqr.spoil,
    worqr.set_layout,
    "call",
    worqr_scripts,
)
ENTRIES: Final = (NATIVE, REDIS_WORK_QUEUE, SIXTH, HWORKER, QUEUE_FARM, WORQR)
