"""What the duties of one worker share."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from tenure.core.engine import Engine
from tenure.runtime.handlers.threads import Pools, ThreadPool
from tenure.runtime.intake import Intake
from tenure.runtime.jobs.reports import Reports
from tenure.runtime.jobs.table import Inflight
from tenure.runtime.loops import MonitoredDriver
from tenure.runtime.observe.latency import Latencies
from tenure.runtime.ports import Env
from tenure.runtime.stored import StoredPayloads


class WorkerContext(Struct, frozen=True):
    """One worker: its id and queues, the way to Redis, and the jobs that it holds.

    payloads    None without a store of large ones
    pools       make the threads that sync code of the user runs in
    raised      called with what handlers raise, in their threads
    """

    worker: str
    queues: tuple[str, ...]
    engine: Engine
    driver: MonitoredDriver
    env: Env
    inflight: Inflight
    intake: Intake
    reports: Reports = field(default_factory=Reports)
    latencies: Latencies = field(default_factory=Latencies)
    payloads: StoredPayloads | None = None
    pools: Pools = ThreadPool
    raised: Callable[[BaseException], None] = lambda error: None
