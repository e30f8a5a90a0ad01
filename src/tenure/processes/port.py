"""A port that answers short HTTP requests: health checks, and the number of workers for an autoscaler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tenure.core import limits
from tenure.core.errors import NotConfigured, invalid

CONNECTIONS_MAX: Final = 32
"""Connections that may be open. A further one closes the oldest, which has sent no whole request yet."""
REQUEST_MS: Final = 2 * limits.SECOND
"""How long one request may take."""
REQUEST_MAX: Final = 8 * 1024
"""Bytes of one request."""
HERE: Final = "127.0.0.1"
_REASONS: Final = {
    200: "OK", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed", 503: "Unavailable",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """A GET request. `authorization`: the header of this name, or empty."""

    path: str
    authorization: str


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    kind: str = "application/json"


def address_of(text: str, what: str) -> tuple[str, int]:
    """Return host and port of `[HOST:]PORT`. Raises `InvalidArgument`, which names the port as `what`.

    >>> address_of("8099", "health port")
    ('127.0.0.1', 8099)
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise invalid(f"The {what}", "[HOST:]PORT, as in 8099 or 0.0.0.0:8099", repr(text))
    return host.strip("[]") or HERE, int(port)


class HttpPort:
    """Answers GET requests with `answer` until it is closed."""

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self._answer = answer
        self._open: dict[asyncio.StreamWriter, None] = {}
        """The oldest first."""
        self._server: asyncio.Server | None = None

    async def open(self, address: tuple[str, int], what: str, option: str) -> str:
        """Open the port, and return its address as text. Raises `NotConfigured` when it cannot be opened."""
        host, port = address
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_MAX)
        except OSError as error:
            raise NotConfigured(
                f"The {what} {host}:{port} cannot be opened: {error.strerror or error}. Choose one that is free, "
                f"as in {option} 8099."
            ) from None
        name = self._server.sockets[0].getsockname()
        return f"{name[0]}:{name[1]}"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            async with asyncio.timeout(REQUEST_MS / limits.SECOND):
                writer.write(self._response(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the end of the connection is the answer
        finally:
            self._open.pop(writer, None)
            writer.close()

    def _response(self, request: bytes) -> bytes:
        first, *lines = request.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        path = rest.partition(" ")[0].partition("?")[0]
        reply = self._answer(Request(path, fields.get("authorization", "")))
        if method not in ("GET", "HEAD"):
            reply = Reply(405, b"Ask with GET.\n", "text/plain")
        head = (
            f"HTTP/1.1 {reply.status} {_REASONS[reply.status]}\r\nContent-Type: {reply.kind}\r\n"
            f"Content-Length: {len(reply.body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        ).encode()
        return head if method == "HEAD" else head + reply.body
