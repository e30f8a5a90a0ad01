"""The wire protocol of hworker, as a value for `Tenure(protocol=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tenure.core import limits, names
from tenure.core.values import as_dict, replace
from tenure.protocols.scripted import config_of, rights_of
from tenure.protocols.spec import EngineSpec, ProtocolEntry, Rights, Words
from tenure.protocols.text import options_of, read_protocol, write_protocol

if TYPE_CHECKING:
    from tenure.core.engine import FullEngine
    from tenure.engines.hworker import HworkerEngine
    from tenure.engines.hworker.config import HworkerConfig
    from tenure.engines.kit.moving import Exporter
    from tenure.protocols.spec import ProtocolSettings

HWORKER: Final = "hworker"
TIMEOUT_S: Final = 120.0
FAILED_QUEUE_SIZE: Final = 1_000
MOST_FAILED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Hworker:
    """The protocol of hworker, a queue for Haskell.

        Tenure(protocol=Hworker(name="printer"))

    `name`: the pool, which has one queue, `default`. Payloads are JSON. `timeout`: how many seconds a job of another
    client may be in progress before it runs again. `failed_queue_size`: how many failed jobs the pool keeps. Give both
    the values of the other clients.

    What a job cannot hold (an id of your own, a delay, lanes, priorities, results,
    unique keys) is refused with `UnsupportedFeature`. `config` has the other numbers of the engine. Raises
    `InvalidArgument` for a name that no pool can have, and for numbers out of range.
    """

    name: str
    timeout: float = TIMEOUT_S
    failed_queue_size: int = FAILED_QUEUE_SIZE
    config: HworkerConfig | None = None

    def __post_init__(self) -> None:
        from tenure.engines.hworker.keys import check_name

        check_name(self.name)
        names.duration_ms(self.timeout, "timeout", least_ms=limits.SECOND, most_ms=limits.DAY)
        names.count(self.failed_queue_size, "failed_queue_size", least=1, most=MOST_FAILED)

    @property
    def text(self) -> str:
        """The protocol as the setting writes it, without `config`."""
        return write_protocol(HWORKER, self)

    def engine(self, settings: ProtocolSettings) -> FullEngine:
        from tenure.engines.hworker import HworkerEngine

        return HworkerEngine(self.name, self._numbers())

    def _numbers(self) -> HworkerConfig:
        """The numbers of the engine."""
        from tenure.engines.hworker.config import HworkerConfig

        timeout_ms = round(self.timeout * limits.SECOND)
        return replace(self.config or HworkerConfig(), timeout_ms=timeout_ms, failed_queue_size=self.failed_queue_size)


# The functions import the engine: a keeper starts soon, and needs one engine only.


def _parse(argument: str | None) -> Hworker | None:
    return read_protocol(Hworker, HWORKER, argument)


def _describe(engine: HworkerEngine) -> EngineSpec:
    return {"pool": engine.pool, "config": as_dict(engine.config)}


def _rebuild(spec: Mapping[str, Any]) -> HworkerEngine:
    from tenure.engines.hworker import HworkerEngine
    from tenure.engines.hworker.config import HworkerConfig

    return HworkerEngine(spec["pool"], config_of(HworkerConfig, spec))


def _rights(engine: HworkerEngine, clustered: bool) -> Rights:
    return rights_of(engine.rules(), clustered)


def _migration(engine: HworkerEngine) -> Exporter:
    from tenure.engines.hworker.records import read_job
    from tenure.engines.kit.moving import Exporter

    return Exporter(engine, lambda queue, row: read_job(queue, *row), lambda queue: engine.rules())


ENTRY: Final = ProtocolEntry(
    HWORKER,
    Words(
        f"{HWORKER}:NAME",
        f"{HWORKER}:printer",
        "for a pool that its workers share",
        "with the name of the pool",
        options_of(Hworker),
    ),
    _parse,
    _describe,
    _rebuild,
    _rights,
    cluster_prefixes=lambda engine: (engine.pool,),
    migration=_migration,
)
