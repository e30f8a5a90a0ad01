"""The registry entry of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenure.core.engine import FullEngine, Timing
from tenure.core.values import as_dict
from tenure.engines.kit.acl import AclRules, KeyPlace
from tenure.engines.kit.config import EngineConfig
from tenure.protocols.spec import EngineSpec, ProtocolEntry, ProtocolSettings, Rights, Words
from tests.support.sixth.engine import SixthEngine

_COMMANDS: Final = (
    "DEL", "EXISTS", "GET", "HDEL 1", "HEXISTS 1", "HGET 1", "HGETALL", "HINCRBY 1 1", "HLEN", "HMGET 1", "HSET 1 1",
    "PERSIST", "PEXPIRE 1", "SET 1", "ZADD 0 1", "ZCARD", "ZINCRBY 1 1", "ZRANGE 0 0", "ZRANGEBYSCORE 0 0", "ZREM 1",
    "ZREMRANGEBYSCORE 0 0", "ZREVRANGEBYSCORE 0 0", "ZSCORE 1",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sixth:
    namespace: str = "sixth"

    def engine(self, settings: ProtocolSettings) -> FullEngine:
        return SixthEngine(self.namespace)


def _describe(engine: FullEngine) -> EngineSpec:
    assert isinstance(engine, SixthEngine)
    return {"namespace": engine.namespace, "config": as_dict(engine.config)}


def _rebuild(spec: Mapping[str, Any]) -> SixthEngine:
    config = {**spec["config"], "timing": Timing(**spec["config"]["timing"])}
    return SixthEngine(spec["namespace"], EngineConfig(**config))


def _rights(engine: FullEngine, clustered: bool) -> Rights:
    assert isinstance(engine, SixthEngine)
    shared, queue = engine.shared(), engine.prefix("tenure-check")
    queues = f"{shared.removesuffix('}')}:*"
    places = (KeyPlace(queues, queue, channels=True), KeyPlace(shared, shared), KeyPlace(f"{shared}:*", f"{shared}:x"))
    rules = AclRules(places, _COMMANDS, ("TIME", "EVALSHA - 0")).of(clustered)
    return Rights(rules.needed(), rules.missing)


PROTOCOL: Final = ProtocolEntry(
    "sixth",
    Words("sixth:NAMESPACE", "sixth:jobs"),
    lambda argument: Sixth(argument) if argument else None,
    _describe,
    _rebuild,
    _rights,
)
