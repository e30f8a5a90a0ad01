"""An engine as plain data, so that another process (the keeper) can make the same one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypeAlias

from leasehold.core.engine import Timing
from leasehold.core.errors import UnsupportedFeature
from leasehold.engines.native import NativeEngine
from leasehold.engines.native.engine import NativeConfig
from leasehold.engines.redis_work_queue import RedisWorkQueueEngine
from leasehold.engines.redis_work_queue.config import RedisWorkQueueConfig
from leasehold.protocols import FullEngine

Recipe: TypeAlias = dict[str, Any]
"""JSON: the name of the protocol, and what its engine is made of."""


def recipe_of(engine: FullEngine) -> Recipe:
    """What `engine_of` needs to make the same engine again. Raises `UnsupportedFeature` for one it does not know."""
    match engine:
        case NativeEngine():
            return {"protocol": engine.name, "namespace": engine.namespace, "config": asdict(engine.config)}
        case RedisWorkQueueEngine():
            own = {"prefix": engine.base, "queues": dict(engine.named)}
            return {"protocol": engine.name, **own, "config": asdict(engine.config)}
        case _:
            raise UnsupportedFeature(f"No worker can keep leases of the protocol {engine.name!r} yet.")


def engine_of(recipe: Recipe) -> FullEngine:
    """The engine that was meant. Raises `UnsupportedFeature` for a protocol that is not known here."""
    config = dict(recipe["config"])
    config["timing"] = Timing(**config["timing"])
    match recipe["protocol"]:
        case NativeEngine.name:
            return NativeEngine(recipe["namespace"], NativeConfig(**config))
        case RedisWorkQueueEngine.name:
            return RedisWorkQueueEngine(recipe["prefix"], RedisWorkQueueConfig(**config), recipe["queues"])
        case other:
            raise UnsupportedFeature(f"The protocol {other!r} is not known here.")
