"""A small Redis cluster of real processes."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from leasehold.testing.server import RedisServer

NODES: Final = 3
SLOTS: Final = 16_384
PORTS_TRIED: Final = 100
_READY_S: Final = 90.0


@contextmanager
def redis_cluster(binary: str) -> Iterator[int]:
    """Start servers as one cluster without replicas, each with a third of the slots. Yields the port of one."""
    with ExitStack() as stack:
        ports = [_free_port() for _ in range(NODES)]
        options = [("--port", str(port), "--cluster-enabled", "yes", "--bind", "127.0.0.1") for port in ports]
        nodes = [stack.enter_context(RedisServer(binary, args=args, aof=False)) for args in options]
        for number, node in enumerate(nodes):
            first, last = number * SLOTS // NODES, (number + 1) * SLOTS // NODES - 1
            node.command("CLUSTER", "ADDSLOTS", *range(first, last + 1))
            node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            node.command("CLUSTER", "MEET", "127.0.0.1", ports[0])
        until = time.monotonic() + _READY_S
        while not all(_is_ready(node) for node in nodes):
            assert time.monotonic() < until, "the cluster did not form"
            time.sleep(0.02)
        yield ports[0]


def _free_port() -> int:
    """Return a port that is free, as is that of the cluster bus, 10,000 above. Outgoing connections use neither."""
    for port in random.sample(range(10_000, 20_000), PORTS_TRIED):
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as bus:
            one.bind(("127.0.0.1", port))
            bus.bind(("127.0.0.1", port + 10_000))
            return port
    raise AssertionError("no free port was found")


def _is_ready(node: RedisServer) -> bool:
    info: bytes = node.command("CLUSTER", "INFO")
    return b"cluster_state:ok" in info and b"cluster_known_nodes:%d" % NODES in info
