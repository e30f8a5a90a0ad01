"""Tenure's own wire protocol, as a value for `Tenure(protocol=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tenure.core import names
from tenure.core.values import as_dict
from tenure.protocols.scripted import config_of, rights_of
from tenure.protocols.spec import EngineSpec, ProtocolEntry, Rights, Words
from tenure.redis.url import is_cluster

if TYPE_CHECKING:
    from tenure.core.engine import FullEngine
    from tenure.engines.kit.moving import Transferable
    from tenure.engines.native.config import NativeConfig
    from tenure.engines.native.partitions.engine import PartitionedEngine
    from tenure.protocols.spec import ProtocolSettings

NATIVE: Final = "native"


@dataclass(frozen=True, slots=True)
class Native:
    """Tenure's own protocol. `namespace` None: the namespace of the settings.

        Tenure(protocol=Native(namespace="shop"))

    `config` has the numbers of the engine (how long a lease lasts, how many records are kept): all clients and workers
    of one namespace should use the same. Raises `InvalidArgument` for a namespace that cannot be used.
    """

    namespace: str | None = None
    config: NativeConfig | None = None

    def __post_init__(self) -> None:
        if self.namespace is not None:
            names.namespace(self.namespace)

    @property
    def text(self) -> str:
        """The protocol as the setting writes it."""
        return NATIVE

    def engine(self, settings: ProtocolSettings) -> FullEngine:
        clustered = is_cluster(settings.url)
        return _engine(self.namespace or settings.namespace, self.config, clustered, settings.durable)


# The functions import the engine: a keeper starts soon, and needs one engine only.


def _engine(namespace: str, config: NativeConfig | None, clustered: bool, durable: int = 0) -> PartitionedEngine:
    from tenure.engines.native.partitions.engine import PartitionedEngine

    if not clustered:
        return PartitionedEngine(namespace, config)
    from tenure.engines.native.cluster import NativeClusterEngine

    return PartitionedEngine(namespace, config, partial(NativeClusterEngine, durable=durable))


def _parse(argument: str | None) -> Native | None:
    return Native() if argument is None else None


def _describe(engine: PartitionedEngine) -> EngineSpec:
    from tenure.engines.native.engine import NativeEngine

    clustered = type(engine.native) is not NativeEngine
    parts = {"namespace": engine.namespace, "config": as_dict(engine.config), "partitions": engine.maps.wanted}
    return {**parts, "clustered": clustered}


def _rebuild(spec: Mapping[str, Any]) -> PartitionedEngine:
    from tenure.engines.native.config import NativeConfig

    engine = _engine(spec["namespace"], config_of(NativeConfig, spec), spec["clustered"])
    for queue, partitions in spec["partitions"].items():
        engine.want_partitions(queue, partitions)
    return engine


def _rights(engine: PartitionedEngine, clustered: bool) -> Rights:
    from tenure.engines.native.rights import rules_of

    return rights_of(rules_of(engine.namespace), clustered)


def _transfer(engine: PartitionedEngine) -> Transferable:
    from tenure.engines.native.transfer import NativeTransfer

    return NativeTransfer(engine.native)


ENTRY: Final = ProtocolEntry(
    NATIVE,
    Words(NATIVE, NATIVE),
    _parse,
    _describe,
    _rebuild,
    _rights,
    has_namespace=True,
    has_foreign_clients=False,
    cluster_prefixes=lambda engine: (),
    transfer=_transfer,
)
