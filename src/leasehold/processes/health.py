"""Health for orchestrators: a file that is written anew every second, and a port that answers /live and /ready."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument, NotConfigured
from leasehold.processes.report import Health
from leasehold.runtime.log import brief, log_event

HEALTH_MS: Final = 1 * limits.SECOND
"""How often a worker reports its health: in its file, and to its supervisor."""
HEALTH_CONNECTIONS: Final = 32
"""Health requests that are answered at one time. Further connections are closed."""
HEALTH_REQUEST_MS: Final = 2 * limits.SECOND
"""How long one health request may take."""
HEALTH_REQUEST_MAX: Final = 8 * 1024
"""Bytes of one health request."""

HERE: Final = "127.0.0.1"
_REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 408: "Request Timeout", 503: "Unavailable"}


@dataclass(frozen=True, slots=True)
class HealthOutputs:
    """Where health is told. `address`: host and port.

        HealthOutputs("/run/worker.json", ("127.0.0.1", 8099))

    Raises `InvalidArgument`.
    """

    file: str | None = None
    address: tuple[str, int] | None = None

    @classmethod
    def of(cls, file: str | None, port: str | None) -> HealthOutputs:
        """From text as on the command line: a path, and `[HOST:]PORT`.

        >>> HealthOutputs.of(None, "8099").address
        ('127.0.0.1', 8099)
        """
        if file is not None:
            folder = os.path.dirname(file) or "."
            if not os.path.isdir(folder) or os.path.isdir(file):
                raise InvalidArgument(f"The health file {file!r} cannot be written: expected a path in a folder.")
            if not os.access(folder, os.W_OK | os.X_OK):
                raise InvalidArgument(
                    f"The health file {file!r} cannot be written: expected a folder that this user may write to."
                )
        return cls(file, None if port is None else _address(port))

    def check(self) -> None:
        """Whether the port can be had at this moment. Raises `NotConfigured`: before anything else is begun."""
        if self.address is not None:
            host, port = self.address
            try:
                socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
            except OSError as error:
                raise _not_opened(host, port, error) from None

    def __bool__(self) -> bool:
        return self.file is not None or self.address is not None


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidArgument(f"The health port is {text!r}; expected [HOST:]PORT, as in 8099 or 0.0.0.0:8099.")
    return host.strip("[]") or HERE, int(port)


def _not_opened(host: str, port: int, error: OSError) -> NotConfigured:
    return NotConfigured(
        f"The health port {host}:{port} cannot be opened: {error.strerror or error}. Choose one that is free, as in "
        "--health-port 8099."
    )


class HealthReporter:
    """Tells how things are until it is cancelled. Nothing that goes wrong here ends a worker."""

    def __init__(self, look: Callable[[], Health], outlets: HealthOutputs) -> None:
        self._look = look
        self._outlets = outlets
        self._open = 0
        self._trouble = ""
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Open the port, if there is to be one. Raises `NotConfigured` when it cannot be had."""
        if self._outlets.address is not None:
            self._server = await self._listen(*self._outlets.address)

    async def run(self, told: Callable[[], None] = lambda: None) -> None:
        """After `open`. `told` is called after every round."""
        try:
            while True:
                self._write()
                told()
                await asyncio.sleep(HEALTH_MS / limits.SECOND)
        finally:
            if self._server is not None:
                self._server.close()
            self._remove()

    # ------------------------------------------------------------------------------------------------------ the file

    def _write(self) -> None:
        """Whole or not at all: who reads it never sees half of it."""
        path = self._outlets.file
        if path is None:
            return
        fresh = f"{path}.{os.getpid()}"
        try:
            with open(fresh, "wb") as file:
                file.write(self._look().text)
            os.replace(fresh, path)
        except OSError as error:
            if str(error) != self._trouble:  # once, not every second
                self._trouble = str(error)
                log_event(logging.ERROR, "health_file", error=brief(error))

    def _remove(self) -> None:
        """A file that is left behind would speak of a worker that is not there."""
        if self._outlets.file is not None:
            for path in (self._outlets.file, f"{self._outlets.file}.{os.getpid()}"):
                with contextlib.suppress(OSError):
                    os.unlink(path)

    # ------------------------------------------------------------------------------------------------------ the port

    async def _listen(self, host: str, port: int) -> asyncio.Server:
        try:
            server = await asyncio.start_server(self._answer, host, port, limit=HEALTH_REQUEST_MAX)
        except OSError as error:
            raise _not_opened(host, port, error) from None
        name = server.sockets[0].getsockname()
        log_event(logging.INFO, "health", at=f"{name[0]}:{name[1]}")
        return server

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= HEALTH_CONNECTIONS:
                async with asyncio.timeout(HEALTH_REQUEST_MS / limits.SECOND):
                    writer.write(self._response(await reader.readuntil(b"\r\n\r\n")))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked so is told by the end of the connection
        finally:
            self._open -= 1
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


class HealthReporterThread:
    """A teller on a loop of its own, so that it also answers while a handler holds up the worker's.

    with HealthReporterThread(HealthReporter(look, outlets), told): ...

    Raises `NotConfigured` on entering when the port cannot be had.
    """

    def __init__(self, teller: HealthReporter, told: Callable[[], None] = lambda: None) -> None:
        self._teller = teller
        self._told = told
        self._begun = threading.Event()
        self._failed: NotConfigured | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="leasehold-health", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()
        self._begun.wait()
        if self._failed is not None:
            raise self._failed

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(limits.HARD_STOP_MS / limits.SECOND)

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            await self._teller.open()
            await self._teller.run(self._after_a_round)
        except NotConfigured as error:
            self._failed = error
        except Exception as error:
            log_event(logging.ERROR, "health_ended", error=brief(error))
        finally:
            self._begun.set()

    def _after_a_round(self) -> None:
        self._begun.set()
        self._told()
