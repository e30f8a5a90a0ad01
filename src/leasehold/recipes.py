"""An engine as plain data, so that another process (the keeper) can make the same one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

from leasehold.core.engine import Timing
from leasehold.core.errors import UnsupportedFeature
from leasehold.protocols import NATIVE, REDIS_WORK_QUEUE

if TYPE_CHECKING:
    from leasehold.protocols import FullEngine

Recipe: TypeAlias = dict[str, Any]
"""JSON: the name of the protocol, and what its engine is made of."""

# An engine is imported where it is met: a keeper is to start soon, and needs one of them.


def recipe_of(engine: FullEngine) -> Recipe:
    """What `engine_of` needs to make the same engine again. Raises `UnsupportedFeature` for one it does not know."""
    if engine.name == NATIVE:
        from leasehold.engines.native import NativeEngine

        if isinstance(engine, NativeEngine):
            return {"protocol": NATIVE, "namespace": engine.namespace, "config": asdict(engine.config)}
    elif engine.name == REDIS_WORK_QUEUE:
        from leasehold.engines.redis_work_queue import RedisWorkQueueEngine

        if isinstance(engine, RedisWorkQueueEngine):
            own = {"prefix": engine.base, "queues": dict(engine.named)}
            return {"protocol": REDIS_WORK_QUEUE, **own, "config": asdict(engine.config)}
    raise UnsupportedFeature(f"No worker can keep leases of the protocol {engine.name!r} yet.")


def engine_of(recipe: Recipe) -> FullEngine:
    """The engine that was meant. Raises `UnsupportedFeature` for a protocol that is not known here."""
    config = dict(recipe["config"])
    config["timing"] = Timing(**config["timing"])
    protocol = recipe["protocol"]
    if protocol == NATIVE:
        from leasehold.engines.native import NativeEngine
        from leasehold.engines.native.engine import NativeConfig

        return NativeEngine(recipe["namespace"], NativeConfig(**config))
    if protocol == REDIS_WORK_QUEUE:
        from leasehold.engines.redis_work_queue import RedisWorkQueueEngine
        from leasehold.engines.redis_work_queue.config import RedisWorkQueueConfig

        return RedisWorkQueueEngine(recipe["prefix"], RedisWorkQueueConfig(**config), recipe["queues"])
    raise UnsupportedFeature(f"The protocol {protocol!r} is not known here.")
