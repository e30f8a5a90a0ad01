"""A proxy in front of a test server that loses or cuts the replies it is told to, answers itself, or falls silent."""

from __future__ import annotations

import contextlib
import select
import socket
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.exchange import Exchange


@dataclass(frozen=True)
class Cut:
    """The reply to the next command that contains `marker` ends after `keep` bytes; then the connection is closed."""

    marker: bytes
    keep: int = 0


@dataclass(frozen=True)
class Answer:
    """The next command that contains `marker` is answered with this, and the server never sees it."""

    marker: bytes
    reply: bytes


@dataclass
class _Served:
    """A connection. `cut`: of the reply that comes next."""

    client: socket.socket
    upstream: socket.socket
    exchange: Exchange
    cut: Cut | None = None
    silent: bool = False


class Proxy:
    """Listens on a unix socket of its own and passes everything on. The server has executed what is cut.

    `hole`: from now on nothing passes in either direction, and no connection is closed: the other end has vanished.
    Connections that are made afterwards are served when `hole_new` is False. `pause_s`: before each piece of a reply.
    `refuse`: every command that contains one of these is answered with what stands there, or closes its connection
    (`b""`), or lets it fall silent (None); the server never sees it. `refused` counts them.
    """

    def __init__(self, server_socket: str) -> None:
        self._server = server_socket
        self._directory = tempfile.TemporaryDirectory(prefix="tenure-")
        self._path = str(Path(self._directory.name) / "p")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(64)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.cuts: deque[Cut] = deque()
        self.answers: deque[Answer] = deque()
        self.connections = 0
        self._silenced = 0
        self.hole_new = False
        self.pause_s = 0.0
        self.refuse: dict[bytes, bytes | None] = {}
        self.refused = 0

    @property
    def url(self) -> str:
        return f"unix://{self._path}"

    def hole(self, new: bool = False) -> None:
        """Let the connections that there are fall silent, and with `new` also those to come."""
        self._silenced = self.connections
        self.hole_new = new

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def close(self) -> None:
        """Close all connections, and refuse those to come."""
        for sock in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
        for thread in self._threads:
            thread.join(5)
        self._directory.cleanup()

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                upstream = socket.socket(socket.AF_UNIX)
                self._sockets += [client, upstream]
                upstream.connect(self._server)
                self.connections += 1
                self._spawn(self._serve, client, upstream, self.connections)

    def _serve(self, client: socket.socket, upstream: socket.socket, number: int) -> None:
        exchange = Exchange()
        served = _Served(client, upstream, exchange)
        with contextlib.suppress(OSError, ValueError):
            while True:
                ready, _, _ = select.select([client, upstream], [], [])
                if self.hole_new or number <= self._silenced or served.silent:
                    for one in ready:
                        if not one.recv(1 << 16):
                            return  # who was silenced closes by itself: nobody must hear of it
                    continue
                if client in ready:
                    request = client.recv(1 << 16)
                    if not request:
                        break
                    exchange.sent(request)
                if upstream in ready:
                    time.sleep(self.pause_s)
                    reply = upstream.recv(1 << 16)
                    client.sendall(reply if served.cut is None else reply[: served.cut.keep])
                    if not reply or served.cut is not None:
                        break
                    exchange.replied(reply)
                if not self._pass_on(served):
                    break
        for sock in (client, upstream):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, served: _Served) -> bool:
        """Send the commands that are here to the server, or answer them; False: close the connection."""
        exchange = served.exchange
        while exchange.commands and served.cut is None and not served.silent:
            command = exchange.commands[0]
            answer = bool(self.answers) and self.answers[0].marker in command
            refuse = self.refuse
            marker = next((marker for marker in refuse if marker in command), None)
            cut = bool(self.cuts) and self.cuts[0].marker in command
            if (answer or marker is not None or cut) and exchange.waiting:
                return True  # the replies to the commands before it come first
            if answer:
                exchange.commands.popleft()
                served.client.sendall(self.answers.popleft().reply)
            elif marker is not None:
                exchange.commands.popleft()
                self.refused += 1
                if refuse[marker] == b"":
                    return False
                served.silent = refuse[marker] is None
                served.client.sendall(refuse[marker] or b"")
            else:
                served.cut = self.cuts.popleft() if cut else None
                served.upstream.sendall(exchange.pass_on())
        return True
