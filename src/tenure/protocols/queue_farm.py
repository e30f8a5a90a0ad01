"""The wire protocol of queue-farm, as a value for `Tenure(protocol=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tenure.core import names
from tenure.core.values import as_dict, replace
from tenure.protocols.scripted import config_of, rights_of
from tenure.protocols.spec import EngineSpec, ProtocolEntry, Rights, Words
from tenure.protocols.text import options_of, read_protocol, write_protocol

if TYPE_CHECKING:
    from tenure.core.engine import FullEngine
    from tenure.engines.kit.moving import Exporter
    from tenure.engines.queue_farm import QueueFarmEngine
    from tenure.engines.queue_farm.config import QueueFarmConfig
    from tenure.protocols.spec import ProtocolSettings

QUEUE_FARM: Final = "queue-farm"


@dataclass(frozen=True, slots=True)
class QueueFarm:
    """The protocol of queue-farm, which has a client for Node.

        Tenure(protocol=QueueFarm(namespace="queue-farm"))

    The namespace is one queue of Tenure, `default`. A queue of the original clients is a lane of it, which each job
    names: `task.using(lane="user:42")`. Jobs of a lane run strictly in order; what the format cannot hold (a delay,
    priorities, unique jobs, results) is refused with `UnsupportedFeature`. `delete_jobs`: as `deleteJobs` of the
    original, which is the same for all workers of a namespace; False keeps the jobs that ended. `apply_timeouts`: the
    timeout of a job of another client ends its run; else other clients find a stalled batch by it, no more. `config`
    has the numbers of the engine. Raises `InvalidArgument` for a namespace that cannot be used.
    """

    namespace: str = QUEUE_FARM
    delete_jobs: bool = True
    apply_timeouts: bool = False
    config: QueueFarmConfig | None = None

    def __post_init__(self) -> None:
        from tenure.engines.queue_farm.keys import check_namespace

        check_namespace(self.namespace)
        for name in ("delete_jobs", "apply_timeouts"):
            names.flag(getattr(self, name), name)

    @property
    def text(self) -> str:
        """The protocol as the setting writes it, without `config`."""
        return write_protocol(QUEUE_FARM, self)

    def engine(self, settings: ProtocolSettings) -> FullEngine:
        from tenure.engines.queue_farm import QueueFarmEngine
        from tenure.engines.queue_farm.config import QueueFarmConfig

        config = self.config or QueueFarmConfig()
        delete_jobs = config.delete_jobs and self.delete_jobs
        apply_timeouts = config.apply_timeouts or self.apply_timeouts
        return QueueFarmEngine(self.namespace, replace(config, delete_jobs=delete_jobs, apply_timeouts=apply_timeouts))


# The functions import the engine: a keeper starts soon, and needs one engine only.


def _parse(argument: str | None) -> QueueFarm | None:
    return read_protocol(QueueFarm, QUEUE_FARM, argument)


def _describe(engine: QueueFarmEngine) -> EngineSpec:
    return {"namespace": engine.namespace, "config": as_dict(engine.config), "manager": engine.manager}


def _rebuild(spec: Mapping[str, Any]) -> QueueFarmEngine:
    from tenure.engines.queue_farm import QueueFarmEngine
    from tenure.engines.queue_farm.config import QueueFarmConfig

    return QueueFarmEngine(spec["namespace"], config_of(QueueFarmConfig, spec), spec["manager"])


def _rights(engine: QueueFarmEngine, clustered: bool) -> Rights:
    from tenure.engines.queue_farm.rights import rules_of

    return rights_of(rules_of(engine.namespace), clustered)


def _migration(engine: QueueFarmEngine) -> Exporter:
    from tenure.engines.kit.moving import EXPORT_LANED, Exporter
    from tenure.engines.queue_farm.records import read_record
    from tenure.engines.queue_farm.rights import rules_of

    apply_timeouts = engine.config.apply_timeouts
    return Exporter(
        engine,
        lambda queue, row: read_record(queue, row, apply_timeouts),
        lambda queue: rules_of(engine.namespace),
        EXPORT_LANED,
    )


ENTRY: Final = ProtocolEntry(
    QUEUE_FARM,
    Words(
        f"{QUEUE_FARM}:NAMESPACE",
        f"{QUEUE_FARM}:{QUEUE_FARM}",
        "for many queues, each in order, that its clients share",
        "with what other clients call their namespace",
        options_of(QueueFarm),
    ),
    _parse,
    _describe,
    _rebuild,
    _rights,
    cluster_prefixes=lambda engine: (engine.namespace,),
    migration=_migration,
)
