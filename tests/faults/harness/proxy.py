"""A proxy in front of a Redis that does harm by chance and by a seed, or does not answer at all."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.exchange import Exchange

CHUNK: Final = 1 << 16
HEAD: Final = 160
"""The name of a script stands within so many bytes of a request that runs it."""
JOIN_S: Final = 5.0
LATE_S: Final = 1.0
DRIP: Final = 256
"""So many bytes of a reply come one by one; a longer one would take for ever."""


class Harm(StrEnum):
    """lost  Redis has executed it, not a byte of the reply arrives
    torn  Redis has executed it, the reply ends in its middle
    unsent  the connection breaks before Redis has got the request
    late  the connection breaks, and Redis gets the request some time afterwards
    error  Redis is not asked: an error reply of `Dice.errors` comes back
    """

    LOST = "lost"
    TORN = "torn"
    UNSENT = "unsent"
    LATE = "late"
    ERROR = "error"


USUAL: Final[Mapping[Harm, int]] = {Harm.LOST: 6, Harm.TORN: 3, Harm.UNSENT: 1}


class Hole(StrEnum):
    """What swallows bytes without a word, both ways. What it has swallowed a part of stays dead for ever.

    none  nothing
    old  the connections that were there when it was set
    all  those and new ones
    """

    NONE = "none"
    OLD = "old"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Dice:
    """Which requests come to harm: of those with one of the markers, `rate`. The rest is drawn by the weights."""

    markers: Sequence[bytes] = ()
    rate: float = 0.0
    weights: Mapping[Harm, int] = field(default_factory=lambda: USUAL)
    errors: Sequence[bytes] = ()

    def throw(self, draw: random.Random, request: bytes) -> Harm | None:
        head = request[:HEAD]
        if not any(marker in head for marker in self.markers) or draw.random() >= self.rate:
            return None
        return draw.choices(list(self.weights), list(self.weights.values()))[0]


@dataclass(frozen=True, slots=True)
class Cut:
    """The next request with this marker is cut after `keep` bytes, or its reply is; then the connection closes."""

    marker: bytes
    keep: int
    of_reply: bool


@dataclass(frozen=True, slots=True)
class Weather:
    """How slowly replies come: each after up to `delay_s`, and (`drip`) byte by byte."""

    delay_s: float = 0.0
    drip: bool = False


@dataclass(slots=True)
class _Pair:
    """A connection from outside, and ours to the server. `harm` and `cut` are meant for the next reply. `error`: the
    next command gets an error reply."""

    client: socket.socket
    upstream: socket.socket
    exchange: Exchange = field(default_factory=Exchange)
    error: bool = False
    deaf: bool = False
    harm: Harm | None = None
    cut: Cut | None = None

    def close(self) -> None:
        for one in (self.client, self.upstream):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Proxy:
    """Listens on a unix socket of its own. `harmed` counts what it did; `calm` switches the harm off.

    with Proxy(server.socket_path, Dice([b"settle"], rate=0.01), random.Random(7)) as proxy: ...
    """

    def __init__(self, server_socket: str, dice: Dice, draw: random.Random, weather: Weather | None = None) -> None:
        self._server = server_socket
        self._dice = dice
        self._draw = draw
        self._weather = weather or Weather()
        self._directory = tempfile.TemporaryDirectory(prefix="tenure-")
        self._path = str(Path(self._directory.name) / "p")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(256)
        self._lock = threading.Lock()
        self._live: dict[threading.Thread, _Pair] = {}
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._closed = False
        self._hole = Hole.NONE
        self.cut: Cut | None = None
        self.harmed: Counter[Harm] = Counter()
        self.swallowed = 0
        self.passed = [0, 0]
        """The bytes of the newest request and of its reply, to know where it can be cut."""
        self.calm = False

    @property
    def url(self) -> str:
        return f"unix://{self._path}"

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._live)

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
            for one in (pair.client, pair.upstream):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        for thread in live:
            thread.join(JOIN_S)
        self._directory.cleanup()

    def dig(self, hole: Hole) -> None:
        """From now on bytes disappear; `Hole.NONE`: new connections work again."""
        with self._lock:
            self._hole = hole
            for pair in self._live.values() if hole is not Hole.NONE else ():
                pair.deaf = True

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
                pair.deaf = self._hole is Hole.ALL
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
        """A piece of what a driver sends: commands, perhaps several, or parts of a long one."""
        piece = pair.client.recv(CHUNK)
        if not piece:
            return False
        if pair.deaf:
            self.swallowed += 1
            return True
        pair.exchange.sent(piece)
        return self._pass_on(pair)

    def _pass_on(self, pair: _Pair) -> bool:
        """Send the commands that are here to the server, or do them harm; False: close the connection."""
        commands = pair.exchange.commands
        while commands and not pair.error and pair.harm is None and pair.cut is None:
            if not self._pass_one(pair):
                return False
        if pair.error and not pair.exchange.waiting:  # the replies to the commands before it come first
            pair.error = False
            commands.popleft()
            pair.client.sendall(self._draw.choice(self._dice.errors))
            return self._pass_on(pair)
        return True

    def _pass_one(self, pair: _Pair) -> bool:
        request = pair.exchange.commands[0]
        self.passed = [len(request), 0]
        harm: Harm | None = None
        if not self.calm:
            with self._lock:
                harm = self._dice.throw(self._draw, request)
                self.harmed.update([harm] if harm else [])
                if self.cut is not None and self.cut.marker in request[:HEAD]:
                    pair.cut, self.cut = self.cut, None
        if harm is Harm.ERROR:
            pair.error = True
            return True
        if harm is Harm.LATE:
            self._deliver_late(pair, request)
        if harm in (Harm.UNSENT, Harm.LATE):
            return False
        pair.harm = harm
        if pair.cut is not None and not pair.cut.of_reply:
            pair.upstream.sendall(request[: pair.cut.keep])
            return False
        pair.upstream.sendall(pair.exchange.pass_on())
        return True

    def _deliver_late(self, pair: _Pair, request: bytes) -> None:
        """As if it had been under way all the time: on a connection of its own, long after its sender gave it up."""

        def deliver() -> None:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as upstream:
                upstream.settimeout(JOIN_S)
                time.sleep(LATE_S)
                upstream.connect(self._server)
                upstream.sendall(request)
                upstream.recv(CHUNK)
            with self._lock:
                self._live.pop(threading.current_thread(), None)

        thread = threading.Thread(target=deliver, daemon=True)
        with self._lock:
            self._live[thread] = pair
        thread.start()

    def _back(self, pair: _Pair) -> bool:
        """A reply, or a piece of one. A harm is done to the next that comes: of several, to the first."""
        reply = pair.upstream.recv(CHUNK)
        if pair.deaf and reply:
            self.swallowed += 1
            return True
        self.passed[1] += len(reply)
        if pair.harm is Harm.TORN:
            pair.client.sendall(reply[: len(reply) // 2])
        if pair.cut is not None:
            pair.client.sendall(reply[: pair.cut.keep])
            return False
        if not reply or pair.harm is not None:
            return False
        self._send(pair.client, reply)
        pair.exchange.replied(reply)
        return self._pass_on(pair)

    def _send(self, client: socket.socket, reply: bytes) -> None:
        if self._weather.delay_s:
            time.sleep(self._draw.uniform(0, self._weather.delay_s))
        slow = DRIP if self._weather.drip else 0
        for byte in reply[:slow]:
            client.sendall(bytes([byte]))
        client.sendall(reply[slow:])
