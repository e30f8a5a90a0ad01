"""Finds a wire protocol by its name, describes an engine for another process, and names its ACL rights."""

from __future__ import annotations

from dataclasses import asdict

from leasehold.core import names
from leasehold.core.engine import FullEngine, Timing
from leasehold.core.errors import InvalidArgument, UnsupportedFeature
from leasehold.protocols.native import NATIVE, Native
from leasehold.protocols.redis_work_queue import REDIS_WORK_QUEUE, RedisWorkQueue
from leasehold.protocols.spec import EngineSpec, Rights, WireProtocol


def parse_protocol(text: object) -> WireProtocol:
    """The protocol that a setting or an option names: "native", or "redis-work-queue:" and the prefix of its keys.

        parse_protocol("redis-work-queue:jobs")        # RedisWorkQueue(prefix="jobs")

    Raises `InvalidArgument`.
    """
    kind, colon, prefix = text.partition(":") if isinstance(text, str) else ("", "", "")
    if kind == NATIVE and not colon:
        return Native()
    if kind == REDIS_WORK_QUEUE and prefix:
        return RedisWorkQueue(prefix)
    raise InvalidArgument(
        f"protocol is {names.shown(text)}; expected {NATIVE}, or {REDIS_WORK_QUEUE}:PREFIX with what other clients "
        f"call their KeyPrefix, as in {REDIS_WORK_QUEUE}:jobs."
    )


# An engine is imported where it is met: a keeper is to start soon, and needs one of them.


def engine_spec_of(engine: FullEngine) -> EngineSpec:
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


def engine_of(recipe: EngineSpec) -> FullEngine:
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


def rights_of(engine: FullEngine) -> Rights:
    """What this engine needs of a user of Redis. Raises `UnsupportedFeature` for one that is not known here."""
    if engine.name == REDIS_WORK_QUEUE:
        from leasehold.engines.redis_work_queue import RedisWorkQueueEngine, rights

        if isinstance(engine, RedisWorkQueueEngine):
            prefixes = (engine.base, *engine.named.values())
            return Rights(rights.needed_rights(prefixes), lambda: rights.missing_rights(prefixes))
    elif engine.name == NATIVE:
        from leasehold.engines.native import NativeEngine

        if isinstance(engine, NativeEngine):
            return native_rights(engine.namespace)
    raise UnsupportedFeature(f"What the protocol {engine.name!r} needs of a Redis is not known.")


def native_rights(namespace: str) -> Rights:
    """What the native engine needs of a user of Redis."""
    from leasehold.engines.native.rights import missing_rights, needed_rights

    return Rights(needed_rights(namespace), lambda: missing_rights(namespace))
