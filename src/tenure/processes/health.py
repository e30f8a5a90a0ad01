"""Health checks for orchestrators: a file, written every second, and a port that answers /live and /ready."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from tenure.core import limits
from tenure.processes.config import HealthOutputs
from tenure.processes.http import HttpPort, Request, Response
from tenure.processes.messages import StatusReport, WorkerState
from tenure.runtime.log import brief, log_event

HEALTH_READY_MS: Final = 15 * limits.SECOND
"""A worker without a good reply of Redis for this long is not ready. An idle worker asks every few seconds."""
HEALTH_LIVE_MS: Final = limits.MINUTE
"""A worker without a good reply of Redis for this long is not live. It keeps trying."""
HEALTH_MS: Final = 1 * limits.SECOND
"""How often a worker reports its health: in its file, and to its parent while it holds jobs."""
HEALTH_IDLE_MS: Final = 5 * limits.SECOND
"""How often a worker without jobs reports to its parent."""


class Health(Struct, frozen=True):
    """The health of the worker processes of one command: live and ready when at least one of them is."""

    live: bool
    ready: bool
    text: bytes

    @classmethod
    def of(cls, statuses: Sequence[StatusReport], now: float) -> Health:
        """Compute it out of the last statuses. `now`: by the monotonic clock.

        >>> Health.of([StatusReport(7, WorkerState.RUNNING, good_at=100.0)], now=100.5).ready
        True
        """
        live = any(now - one.good_at < HEALTH_LIVE_MS / limits.SECOND for one in statuses)
        ready = any(
            one.state is WorkerState.RUNNING and now - one.good_at < HEALTH_READY_MS / limits.SECOND for one in statuses
        )
        shown = {"live": live, "ready": ready, "workers": [_shown(one, now) for one in statuses]}
        return cls(live, ready, json.dumps(shown).encode() + b"\n")


def _shown(status: StatusReport, now: float) -> dict[str, Any]:
    about = {
        "worker": status.worker,
        "pid": status.pid,
        "state": str(status.state),
        "last_good_reply_s": round(max(0.0, now - status.good_at), 3),
        "active": status.active,
    }
    return about | {"reason": status.reason} if status.reason else about


class HealthReporter:
    """Reports the health until it is cancelled. No error here ends a worker."""

    def __init__(self, look: Callable[[], Health], outlets: HealthOutputs) -> None:
        self._look = look
        self._outlets = outlets
        self._trouble = ""
        self._port = HttpPort("health port", "--health-port 8099", self._respond)

    async def open(self) -> None:
        """Open the port, if there is one. Raises `NotConfigured` when it cannot be opened."""
        if self._outlets.address is None:
            return
        log_event("health_served", at=await self._port.open(*self._outlets.address))

    async def run(self) -> None:
        """Write the file every second. Call `open` first."""
        try:
            while True:
                if self._outlets.file is not None:  # in a thread: the disk may be slow, and heartbeats must not wait
                    await asyncio.to_thread(self._write, self._outlets.file, self._look().text)
                await asyncio.sleep(HEALTH_MS / limits.SECOND)
        finally:
            self._port.close()
            self._remove()

    # ------------------------------------------------------------------------------------------------------ the file

    def _write(self, path: str, text: bytes) -> None:
        """Write the file atomically. In a shared directory, another user may have made a link of the name."""
        fresh = f"{path}.{os.getpid()}"
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
            with open(fresh, "xb") as file:
                file.write(text)
            os.replace(fresh, path)
        except OSError as error:
            if str(error) != self._trouble:  # once, not every second
                self._trouble = str(error)
                log_event("loop_failed", loop="health_file", error=brief(error))

    def _remove(self) -> None:
        if self._outlets.file is not None:
            for path in (self._outlets.file, f"{self._outlets.file}.{os.getpid()}"):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    # ------------------------------------------------------------------------------------------------------ the port

    async def _respond(self, request: Request) -> Response:
        health = self._look()
        status = {"/live": 200 if health.live else 503, "/ready": 200 if health.ready else 503}.get(request.path)
        if status is None:
            return Response(404, b"Ask for /live or /ready.\n")
        return Response(status, health.text, "application/json")
