"""The wire protocols, one entry each, and the functions that find the entry of a name or of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tenure.core import names
from tenure.core.errors import InvalidArgument, UnsupportedFeature, invalid
from tenure.protocols import hworker, native, queue_farm, redis_work_queue, worqr
from tenure.protocols.spec import EngineSpec, ProtocolEntry, ProtocolSettings, Rights, WireProtocol
from tenure.redis.url import is_cluster

if TYPE_CHECKING:
    from tenure.core.engine import FullEngine

ENTRIES: Final = (native.ENTRY, redis_work_queue.ENTRY, hworker.ENTRY, queue_farm.ENTRY, worqr.ENTRY)
"""A new protocol is named here. The first one is the default."""
DEFAULT: Final = ENTRIES[0].name
_BY_NAME: Final = {entry.name: entry for entry in ENTRIES}


def add(entry: ProtocolEntry) -> None:
    """Register a protocol of another package. Raises `InvalidArgument` for a name that is taken."""
    if _BY_NAME.setdefault(entry.name, entry) is not entry:
        raise InvalidArgument(f"The protocol {entry.name!r} is in the registry already.")


def parse_protocol(text: object) -> WireProtocol:
    """The protocol that a setting or an option names: "native", or "redis-work-queue:" and the prefix of its keys.

        parse_protocol("redis-work-queue:jobs")        # RedisWorkQueue(prefix="jobs")

    Raises `InvalidArgument`.
    """
    name, colon, argument = text.partition(":") if isinstance(text, str) else ("", "", "")
    entry = _BY_NAME.get(name)
    found = entry.parse(argument if colon else None) if entry is not None else None
    if found is None:
        words = [entry.words for entry in ENTRIES]
        rules = [f"{one.syntax} {one.hint}, as in {one.example}" if one.hint else one.syntax for one in words]
        raise invalid("protocol", ", or ".join(rules), names.shown(text))
    return found


def engine_for(protocol: object, settings: ProtocolSettings) -> FullEngine:
    """The engine of a protocol, which is a value or text. Raises `InvalidArgument`; with the URL of a cluster
    `UnsupportedFeature` for keys that a cluster cannot hold."""
    chosen: Any = parse_protocol(protocol) if isinstance(protocol, str) else protocol
    if isinstance(chosen, type) or not callable(getattr(chosen, "engine", None)):
        kind = chosen.__name__ if isinstance(chosen, type) else type(chosen).__name__
        raise invalid("protocol", "one such as Native() or RedisWorkQueue(prefix=...)", kind)
    engine: FullEngine = chosen.engine(settings)
    if is_cluster(settings.url):
        _check_tags(engine)
    return engine


def _check_tags(engine: FullEngine) -> None:
    """Raises `UnsupportedFeature` if keys of one script would be in several slots of a cluster."""
    from tenure.redis.slots import hash_tag, tagged  # here: most programs use one server

    prefixes = entry_of(engine).cluster_prefixes
    if prefixes is None:
        raise UnsupportedFeature(
            f"The protocol {engine.name!r} does not work on a Redis Cluster: its keys are in several hash slots. Use "
            f"the protocol {DEFAULT!r}, or one server."
        )
    for prefix in prefixes(engine):
        if not hash_tag(prefix):
            raise UnsupportedFeature(
                f"On a Redis Cluster all keys of a queue must be in one hash slot, so keys of the protocol "
                f"{engine.name!r} must have a hash tag, got {names.shown(prefix)}. Use {tagged(prefix)!r}, in "
                "all clients of these queues."
            )


def choices(quote: str = "") -> str:
    """The protocols for help texts: how each is written, and what it is for."""
    return ", or ".join(f"{quote}{entry.words.syntax}{quote} {entry.words.purpose}".rstrip() for entry in ENTRIES)


def entry_of(engine: FullEngine) -> ProtocolEntry:
    """The entry of the engine's protocol. Raises `UnsupportedFeature` for an engine that the registry does not have."""
    return _entry(engine.name)


def engine_spec_of(engine: FullEngine) -> EngineSpec:
    """What `engine_of` needs to make the same engine again. Raises `UnsupportedFeature` as `entry_of` does."""
    return {"protocol": engine.name, **entry_of(engine).describe(engine)}


def engine_of(spec: EngineSpec) -> FullEngine:
    """The engine that was described. Raises `UnsupportedFeature` for a protocol that is not known here."""
    return _entry(spec["protocol"]).rebuild(spec)


def rights_of(engine: FullEngine, clustered: bool = False) -> Rights:
    """What this engine needs of a user of Redis. `clustered`: of the nodes of a cluster. Raises `UnsupportedFeature` as
    `entry_of` does."""
    return entry_of(engine).rights(engine, clustered)


def _entry(name: str) -> ProtocolEntry:
    entry = _BY_NAME.get(name)
    if entry is None:
        raise UnsupportedFeature(
            f"The protocol {name!r} is not in the registry of protocols. Expected one of: {', '.join(_BY_NAME)}."
        )
    return entry
