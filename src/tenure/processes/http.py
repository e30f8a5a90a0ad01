"""A small HTTP server for what other programs poll: health, metrics, the number of workers. One GET a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from tenure.core import limits
from tenure.core.errors import NotConfigured

CONNECTIONS: Final = 32
"""Connections that may be open. A further one closes the oldest."""
REQUEST_MS: Final = 2 * limits.SECOND
"""How long one request may take to arrive."""
REQUEST_MAX: Final = 8 * 1024
"""Bytes of one request."""
RESPONSE_MS: Final = 10 * limits.SECOND
"""How long the response may take."""
_REASONS: Final = {
    200: "OK",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Unavailable",
}


class Request(NamedTuple):
    """A GET request. `authorization`: the header of this name, or empty."""

    path: str
    authorization: str = ""


class Response(NamedTuple):
    """What a path has."""

    status: int
    body: bytes
    content_type: str = "text/plain"


class HttpPort:
    """Serves GET and HEAD on one port of one address.

    port = HttpPort("health port", "--health-port 8099", respond)
    name = await port.open("127.0.0.1", 8099)

    `what` and `option` are for the error of a port in use.
    """

    def __init__(self, what: str, option: str, respond: Callable[[Request], Awaitable[Response]]) -> None:
        self._what = what
        self._option = option
        self._respond = respond
        self._open: dict[asyncio.StreamWriter, None] = {}
        """The oldest first."""
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> str:
        """Open the port, and return the address with its number. Raises `NotConfigured` when that is impossible."""
        try:
            self._server = await asyncio.start_server(self._answer, host, port, limit=REQUEST_MAX)
        except OSError as error:
            raise NotConfigured(
                f"The {self._what} {host}:{port} cannot be opened: {error.strerror or error}. Choose one that is free, "
                f"as in {self._option}."
            ) from None
        name = self._server.sockets[0].getsockname()
        return f"{name[0]}:{name[1]}"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            async with asyncio.timeout(REQUEST_MS / limits.SECOND):
                request = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(RESPONSE_MS / limits.SECOND):
                writer.write(await self._response(request.decode("latin-1")))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the end of the connection is the answer
        finally:
            self._open.pop(writer, None)
            writer.close()

    async def _response(self, request: str) -> bytes:
        first, *lines = request.split("\r\n")
        method, _, rest = first.partition(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        asked = Request(rest.partition(" ")[0].partition("?")[0], headers.get("authorization", ""))
        allowed = method in ("GET", "HEAD")
        found = await self._respond(asked) if allowed else Response(405, b"Ask with GET.\n")
        head = (
            f"HTTP/1.1 {found.status} {_REASONS[found.status]}\r\nContent-Type: {found.content_type}\r\n"
            f"Content-Length: {len(found.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        ).encode()
        return head if method == "HEAD" else head + found.body
