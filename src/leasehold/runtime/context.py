"""What the duties of one worker share."""

from __future__ import annotations

from dataclasses import dataclass, field

from leasehold.core.engine import Engine
from leasehold.runtime.intake import Intake
from leasehold.runtime.jobs.table import Inflight
from leasehold.runtime.loops import MonitoredDriver
from leasehold.runtime.observe.dispatcher import EventDispatcher
from leasehold.runtime.observe.latency import Latencies
from leasehold.runtime.ports import Env
from leasehold.runtime.stored import StoredPayloads


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One worker: its id and queues, the way to Redis, and the jobs that it holds. `events`: None without listeners.
    `payloads`: None without a store of large ones."""

    worker: str
    queues: tuple[str, ...]
    engine: Engine
    driver: MonitoredDriver
    env: Env
    inflight: Inflight
    intake: Intake
    events: EventDispatcher | None = None
    latencies: Latencies = field(default_factory=Latencies)
    payloads: StoredPayloads | None = None
