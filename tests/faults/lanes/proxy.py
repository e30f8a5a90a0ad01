"""A proxy in front of a test server that, at random but by a seed, loses replies, cuts them and breaks connections."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

CHUNK: Final = 1 << 16
HEAD: Final = 160
"""The name of a script stands within so many bytes of a request that runs it."""
JOIN_S: Final = 5.0


class Harm(StrEnum):
    """lost  Redis has executed it, not a byte of the reply arrives
    torn  Redis has executed it, the reply ends in its middle
    unsent  the connection breaks before Redis has got the request
    """

    LOST = "lost"
    TORN = "torn"
    UNSENT = "unsent"


@dataclass(frozen=True, slots=True)
class Dice:
    """Which requests come to harm: of those with one of the markers, `rate`. The rest is drawn by the weights."""

    markers: Sequence[bytes]
    rate: float
    weights: Sequence[int] = (6, 3, 1)

    def throw(self, draw: random.Random, request: bytes) -> Harm | None:
        head = request[:HEAD]
        if not any(marker in head for marker in self.markers) or draw.random() >= self.rate:
            return None
        return draw.choices(list(Harm), self.weights)[0]


@dataclass(slots=True)
class _Pair:
    """A connection from outside, and ours to the server. `harm` is meant for the next reply."""

    client: socket.socket
    upstream: socket.socket
    harm: Harm | None = None

    def close(self) -> None:
        for one in (self.client, self.upstream):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Proxy:
    """Listens on a unix socket of its own. `harmed` counts what it did; `calm` switches the harm off.

    with Proxy(server.socket_path, Dice([b"settle"], rate=0.01), random.Random(7)) as proxy: ...
    """

    def __init__(self, server_socket: str, dice: Dice, draw: random.Random) -> None:
        self._server = server_socket
        self._dice = dice
        self._draw = draw
        self._directory = tempfile.TemporaryDirectory(prefix="lh-")
        self._path = str(Path(self._directory.name) / "p")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(256)
        self._lock = threading.Lock()
        self._live: dict[threading.Thread, _Pair] = {}
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._closed = False
        self.harmed: Counter[Harm] = Counter()
        self.calm = False

    @property
    def url(self) -> str:
        return f"unix://{self._path}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(JOIN_S)
        with self._lock:
            live = dict(self._live)
        for pair in live.values():
            with contextlib.suppress(OSError):
                pair.client.shutdown(socket.SHUT_RDWR)
        for thread in live:
            thread.join(JOIN_S)
        self._directory.cleanup()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            upstream = socket.socket(socket.AF_UNIX)
            pair = _Pair(client, upstream)
            try:
                upstream.connect(self._server)
            except OSError:  # the server is away
                pair.close()
                continue
            thread = threading.Thread(target=self._serve, args=(pair,), daemon=True)
            with self._lock:
                self._live[thread] = pair
            thread.start()

    def _serve(self, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            poll = select.poll()
            poll.register(pair.client, select.POLLIN)
            poll.register(pair.upstream, select.POLLIN)
            ways: dict[int, Callable[[_Pair], bool]] = {
                pair.client.fileno(): self._forth,
                pair.upstream.fileno(): self._back,
            }
            while all(ways[number](pair) for number, _ in poll.poll()):
                pass
        pair.close()
        with self._lock:
            self._live.pop(threading.current_thread(), None)

    def _forth(self, pair: _Pair) -> bool:
        """A request, or the next piece of a long one, which has no marker at its head."""
        request = pair.client.recv(CHUNK)
        if not request:
            return False
        if not self.calm:
            with self._lock:
                harm = self._dice.throw(self._draw, request)
                self.harmed.update([harm] if harm else [])
            if harm is Harm.UNSENT:
                return False
            pair.harm = harm or pair.harm
        pair.upstream.sendall(request)
        return True

    def _back(self, pair: _Pair) -> bool:
        """A reply. The drivers send nothing before it is there, so it is that of the last request."""
        reply = pair.upstream.recv(CHUNK)
        if pair.harm is Harm.TORN:
            pair.client.sendall(reply[: len(reply) // 2])
        if not reply or pair.harm is not None:
            return False
        pair.client.sendall(reply)
        return True
