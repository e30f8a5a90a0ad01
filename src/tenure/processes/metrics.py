"""Serves metrics at /metrics, and adds up what the worker processes of one parent have counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from tenure.metrics.counts import Counts, Measured
from tenure.metrics.exposition import CONTENT_TYPE, Snapshot, exposition
from tenure.metrics.families import OF_WORKERS
from tenure.processes.http import HttpPort, Request, Response
from tenure.processes.messages import StatusReport


class WorkerTotals:
    """The sums of the counts, which outlive the processes. `statuses`: of the processes that run."""

    def __init__(self, statuses: Callable[[], Iterable[StatusReport]]) -> None:
        self._statuses = statuses
        self._counts = Counts()

    def add(self, measured: Measured) -> None:
        self._counts.merge(measured)

    async def read(self) -> Snapshot:
        statuses = list(self._statuses())
        self._counts.set("tenure_jobs_running", number=sum(one.active for one in statuses))
        self._counts.set("tenure_slots", number=sum(one.slots for one in statuses))
        return Snapshot(self._counts.snapshot(), OF_WORKERS)


def metrics_port(option: str, read: Callable[[], Awaitable[Snapshot]]) -> HttpPort:
    """Return the port of the metrics, which are read for each request."""

    async def respond(request: Request) -> Response:
        if request.path != "/metrics":
            return Response(404, b"Ask for /metrics.\n")
        # In a thread: the loop may send the heartbeats of workers.
        return Response(200, await asyncio.to_thread(exposition, await read()), CONTENT_TYPE)

    return HttpPort("metrics port", option, respond)
