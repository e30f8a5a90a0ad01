"""Proxies between the nodes of a test cluster, so that some of them can be parted from the others.

The nodes announce the ports of the proxies as those of their cluster bus. Clients and replication pass no proxy.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Final, Self

BUS_ABOVE: Final = 10_000
"""The port of a node's cluster bus is so far above that of its clients."""
_PIECE: Final = 1 << 16
_HEAD: Final = 12
"""A message of the bus begins with a signature, a length, a version, and the port of its sender for clients."""
_JOIN_S: Final = 5.0


class Buses:
    """With `part`, a node neither hears the others nor is heard by them, until `join`.

    with Buses() as buses, Cluster(binary, buses=buses) as cluster:
        buses.part(cluster.ports[node])
    """

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self._parted: set[int] = set()
        self._listeners: list[socket.socket] = []
        self._live: dict[socket.socket, tuple[int, int]] = {}
        """The connection of a sender -> the ports of the sender and of the receiver."""
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with self._lock:
            sockets = [*self._listeners, *self._live]
        for one in sockets:
            _end(one)
        for thread in self._threads:
            thread.join(_JOIN_S)
        for listener in self._listeners:
            listener.close()

    def add(self, port: int) -> int:
        """Make the proxy of the node with this port for clients. Return the port to announce."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listeners.append(listener)
        self.ports[port] = listener.getsockname()[1]
        self._spawn(self._accept, listener, port)
        return self.ports[port]

    def part(self, port: int) -> None:
        with self._lock:
            self._parted.add(port)
            ended = [one for one, ends in self._live.items() if port in ends]
        for one in ended:
            _end(one)

    def join(self, port: int) -> None:
        with self._lock:
            self._parted.discard(port)

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._spawn(self._serve, listener.accept()[0], port)

    def _serve(self, sender: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError), sender, socket.socket() as receiver:
            head = sender.recv(_PIECE)
            if len(head) < _HEAD:
                return
            ends = int.from_bytes(head[_HEAD - 2 : _HEAD], "big"), port
            with self._lock:
                if not self._parted.isdisjoint(ends):
                    return
                self._live[sender] = ends
            try:
                receiver.connect(("127.0.0.1", port + BUS_ABOVE))
                receiver.sendall(head)
                _pass_on(sender, receiver)
            finally:
                with self._lock:
                    del self._live[sender]


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    while True:
        for ready in select.select([one, other], [], [])[0]:
            piece = ready.recv(_PIECE)
            if not piece:
                return
            (other if ready is one else one).sendall(piece)


def _end(one: socket.socket) -> None:
    """End the calls of the thread that serves this socket."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
