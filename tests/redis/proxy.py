"""A proxy in front of a test server that loses or cuts the replies it is told to."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Cut:
    """The reply to the next request that contains `marker` ends after `keep` bytes; then the connection is closed."""

    marker: bytes
    keep: int = 0


class Proxy:
    """Listens on a unix socket of its own and passes everything on. The server has executed what is cut."""

    def __init__(self, server_socket: str) -> None:
        self._server = server_socket
        self._directory = tempfile.TemporaryDirectory(prefix="lh-")
        self._path = str(Path(self._directory.name) / "p")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(64)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.cuts: deque[Cut] = deque()
        self.connections = 0

    @property
    def url(self) -> str:
        return f"unix://{self._path}"

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for sock in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
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
                self._spawn(self._serve, client, upstream)

    def _serve(self, client: socket.socket, upstream: socket.socket) -> None:
        # One request, one reply: the drivers never send a second call before the first is answered.
        with contextlib.suppress(OSError):
            while request := client.recv(1 << 16):
                cut = self.cuts.popleft() if self.cuts and self.cuts[0].marker in request else None
                upstream.sendall(request)
                reply = upstream.recv(1 << 16)
                if cut is not None:
                    client.sendall(reply[: cut.keep])
                    break
                client.sendall(reply)
        for sock in (client, upstream):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
