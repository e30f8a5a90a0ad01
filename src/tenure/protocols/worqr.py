"""The wire protocol of worqr, as a value for `Tenure(protocol=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tenure.core.values import as_dict
from tenure.protocols.scripted import config_of, rights_of
from tenure.protocols.spec import EngineSpec, ProtocolEntry, Rights, Words
from tenure.protocols.text import options_of, read_protocol, write_protocol

if TYPE_CHECKING:
    from tenure.core.engine import FullEngine
    from tenure.engines.kit.moving import Exporter
    from tenure.engines.worqr import WorqrEngine
    from tenure.engines.worqr.config import WorqrConfig
    from tenure.protocols.spec import ProtocolSettings

WORQR: Final = "worqr"


@dataclass(frozen=True, slots=True)
class Worqr:
    """The protocol of worqr, a queue for Node.

        Tenure(protocol=Worqr(prefix="worqr"))

    `prefix`: what the original calls `redisKeyPrefix`. A queue has the same name on both sides. Payloads are text. What
    a task cannot hold (an id of your own, a delay, lanes, priorities, results, unique keys) is refused with
    `UnsupportedFeature`. `config` has the numbers of the engine. Raises `InvalidArgument` for a prefix that the
    original cannot use.
    """

    prefix: str = WORQR
    config: WorqrConfig | None = None

    def __post_init__(self) -> None:
        from tenure.engines.worqr.keys import check_prefix

        check_prefix(self.prefix)

    @property
    def text(self) -> str:
        """The protocol as the setting writes it, without `config`."""
        return write_protocol(WORQR, self)

    def engine(self, settings: ProtocolSettings) -> FullEngine:
        from tenure.engines.worqr import WorqrEngine

        return WorqrEngine(self.prefix, self.config)


# The functions import the engine: a keeper starts soon, and needs one engine only.


def _parse(argument: str | None) -> Worqr | None:
    return read_protocol(Worqr, WORQR, argument)


def _describe(engine: WorqrEngine) -> EngineSpec:
    return {"prefix": engine.base, "config": as_dict(engine.config)}


def _rebuild(spec: Mapping[str, Any]) -> WorqrEngine:
    from tenure.engines.worqr import WorqrEngine
    from tenure.engines.worqr.config import WorqrConfig

    return WorqrEngine(spec["prefix"], config_of(WorqrConfig, spec))


def _rights(engine: WorqrEngine, clustered: bool) -> Rights:
    from tenure.engines.worqr.rights import rules_of

    return rights_of(rules_of(engine.base), clustered)


def _migration(engine: WorqrEngine) -> Exporter:
    from tenure.engines.kit.encoding import as_text
    from tenure.engines.kit.moving import Exporter
    from tenure.engines.worqr.records import md5_of, read_task
    from tenure.engines.worqr.rights import rules_of

    return Exporter(
        engine,
        lambda queue, row: read_task(queue, as_text(row[0]), row[1]),
        lambda queue: rules_of(engine.base),
        mark=md5_of,
    )


ENTRY: Final = ProtocolEntry(
    WORQR,
    Words(
        f"{WORQR}:PREFIX",
        f"{WORQR}:{WORQR}",
        "for queues that its clients share",
        "with what other clients call their redisKeyPrefix",
        options_of(Worqr),
    ),
    _parse,
    _describe,
    _rebuild,
    _rights,
    cluster_prefixes=lambda engine: (engine.base,),
    migration=_migration,
)
