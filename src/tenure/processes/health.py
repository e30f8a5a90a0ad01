"""Health checks for orchestrators: a file, written every second, and a port that answers /live and /ready."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenure.core import limits
from tenure.core.errors import NotConfigured
from tenure.processes.config import HealthOutputs
from tenure.processes.messages import StatusReport, WorkerState
from tenure.runtime.log import brief, log_event

HEALTH_READY_MS: Final = 15 * limits.SECOND
"""A worker without a good reply of Redis for this long is not ready. An idle worker asks every few seconds."""
HEALTH_LIVE_MS: Final = limits.MINUTE
"""A worker without a good reply of Redis for this long is not live. It keeps trying."""
HEALTH_MS: Final = 1 * limits.SECOND
"""How often a worker reports its health: in its file, and to its parent."""
HEALTH_CONNECTIONS: Final = 32
"""Connections that may be open. A further one closes the oldest, which has sent no whole request yet."""
HEALTH_REQUEST_MS: Final = 2 * limits.SECOND
"""How long one health request may take."""
HEALTH_REQUEST_MAX: Final = 8 * 1024
"""Bytes of one health request."""

_REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout", 503: "Unavailable"}


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the worker processes of one command: live and ready when at least one of them is."""

    live: bool
    ready: bool
    text: bytes

    @classmethod
    def of(cls, statuses: Sequence[StatusReport], now: float) -> Health:
        """From the last statuses. `now`: by the monotonic clock.

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
        self._open: dict[asyncio.StreamWriter, None] = {}
        """The oldest first."""
        self._trouble = ""
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Open the port, if there is one. Raises `NotConfigured` when it cannot be opened."""
        if self._outlets.address is None:
            return
        host, port = self._outlets.address
        try:
            self._server = await asyncio.start_server(self._answer, host, port, limit=HEALTH_REQUEST_MAX)
        except OSError as error:
            raise NotConfigured(
                f"The health port {host}:{port} cannot be opened: {error.strerror or error}. Choose one that is free, "
                "as in --health-port 8099."
            ) from None
        name = self._server.sockets[0].getsockname()
        log_event("health_served", at=f"{name[0]}:{name[1]}")

    async def run(self) -> None:
        """Write the file every second. Call `open` first."""
        try:
            while True:
                if self._outlets.file is not None:  # in a thread: the disk may be slow, and heartbeats must not wait
                    await asyncio.to_thread(self._write, self._outlets.file, self._look().text)
                await asyncio.sleep(HEALTH_MS / limits.SECOND)
        finally:
            if self._server is not None:
                self._server.close()
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

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= HEALTH_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            async with asyncio.timeout(HEALTH_REQUEST_MS / limits.SECOND):
                writer.write(self._response(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the end of the connection is the answer
        finally:
            self._open.pop(writer, None)
            writer.close()

    def _response(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        health = self._look()
        status = {b"/live": 200 if health.live else 503, b"/ready": 200 if health.ready else 503}.get(path, 404)
        body = health.text
        if method not in (b"GET", b"HEAD"):
            status, body = 405, b"Ask with GET.\n"
        elif status == 404:
            body = b"Ask for /live or /ready.\n"
        kind = "application/json" if status in (200, 503) else "text/plain"
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        ).encode()
        return head if method == b"HEAD" else head + body
