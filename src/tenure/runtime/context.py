"""What the duties of one worker share."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.core.engine import Engine
from tenure.runtime.intake import Intake
from tenure.runtime.jobs.table import Inflight
from tenure.runtime.loops import MonitoredDriver
from tenure.runtime.observe.dispatcher import EventDispatcher
from tenure.runtime.observe.job_log import JobLog
from tenure.runtime.observe.latency import Latencies
from tenure.runtime.ports import Env
from tenure.runtime.stored import StoredPayloads


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
    job_log: JobLog = field(default_factory=JobLog)
