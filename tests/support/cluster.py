"""A small Redis cluster of real processes."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Self

from tenure.core.errors import ReplyError
from tenure.core.partitions import place_of
from tenure.engines.native.keys import queue_prefix
from tenure.redis.slots import SLOTS, slot_of_key
from tenure.testing.ports import Ports
from tenure.testing.server import RedisServer
from tests.support.bus import BUS_ABOVE, Buses

NODES: Final = 3
PORTS_TRIED: Final = 100
READY_S: Final = 90.0


class Cluster:
    """Masters, each with a part of the slots, and as many replicas of each as `replicas`.

        with Cluster(binary, replicas=1) as cluster:
            app = Tenure(cluster.url)

    `nodes`: first the masters, in the order of their slots, then their replicas. `options`: more of the servers. A
    short `node_timeout_ms` makes failovers quick, and on a busy machine also those that no test wants. `tls`: options
    that name certificates; then clients and nodes reach the nodes with TLS only. `buses`: what stands between them.
    """

    def __init__(
        self,
        binary: str,
        *,
        masters: int = NODES,
        replicas: int = 0,
        node_timeout_ms: int = 30_000,
        options: Sequence[str] = (),
        password: str | None = None,
        tls: Sequence[str] = (),
        buses: Buses | None = None,
    ) -> None:
        self._stack = ExitStack()
        self._reserved = Ports()
        self._stack.callback(self._reserved.close)
        self._buses = buses
        self._masters = masters
        self._password = password
        self.nodes: list[RedisServer] = []
        self.ports: dict[RedisServer, int] = {}
        common = ["--cluster-enabled", "yes", "--bind", "127.0.0.1", *options]
        common += ["--cluster-node-timeout", str(node_timeout_ms), "--cluster-require-full-coverage", "no"]
        common += ["--repl-ping-replica-period", "1", "--repl-diskless-sync-delay", "0"]
        if password is not None:
            common += ["--requirepass", password, "--masterauth", password]
        if tls:
            common += ["--tls-cluster", "yes", "--tls-replication", "yes", "--tls-auth-clients", "no", *tls]
        self._scheme = "rediss+cluster" if tls else "redis+cluster"
        for _ in range(masters * (1 + replicas)):
            port = _take_port(self._reserved)
            listens = ["--tls-port" if tls else "--port", str(port)]
            if buses is not None:
                listens += ["--cluster-announce-bus-port", str(buses.add(port))]
            node = RedisServer(binary, args=(*listens, *common), aof=False, password=password)
            self.nodes.append(node)
            self.ports[node] = port

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                self._stack.enter_context(node)
            self._join()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def masters(self) -> list[RedisServer]:
        """The masters of the beginning."""
        return self.nodes[: self._masters]

    @property
    def url(self) -> str:
        secret = f":{self._password}@" if self._password else ""
        return f"{self._scheme}://{secret}{','.join(f'127.0.0.1:{self.ports[node]}' for node in self.masters)}/"

    def owner(self, key: str) -> RedisServer:
        """The node that has the slot of a key, as a living node sees it. During a failover it may see none."""
        slot, found = slot_of_key(key), list[RedisServer]()

        def is_found() -> bool:
            living = next(node for node in self.nodes if node.running)
            for first, last, (_, port, *_), *_ in living.command("CLUSTER", "SLOTS"):
                if first <= slot <= last:
                    found.append(next(node for node, own in self.ports.items() if own == port))
            return bool(found)

        self.until(is_found, f"no node serves slot {slot}")
        return found[0]

    def replica(self, key: str) -> RedisServer:
        """The replica of the node that has the slot of a key."""
        role: list[Any] = self.owner(key).command("ROLE")
        return next(node for node, port in self.ports.items() if port == int(role[2][0][1]))

    def id_of(self, node: RedisServer) -> str:
        found: bytes = node.command("CLUSTER", "MYID")
        return found.decode()

    def queue_on(self, node: RedisServer, namespace: str = "tenure", start: str = "q") -> str:
        """A name of a queue whose keys are on this node."""
        names = (f"{start}{number}" for number in range(1_000))
        return next(name for name in names if self.owner(f"{{{namespace}:{name}}}") is node)

    def begin_move(self, key: str, target: RedisServer) -> None:
        """Begin to move the slot of a key to another node: the first part of `redis-cli --cluster reshard`."""
        source, slot = self.owner(key), slot_of_key(key)
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))

    def move_keys(self, key: str, target: RedisServer, most: int = 1_000) -> int:
        """Move up to so many keys of the slot. Return how many it had before."""
        source, slot = self.owner(key), slot_of_key(key)
        keys = source.command("CLUSTER", "GETKEYSINSLOT", slot, most)
        auth = ("AUTH", self._password) if self._password else ()
        if keys:
            where = ("127.0.0.1", self.ports[target], "", 0, 60_000)
            assert source.command("MIGRATE", *where, *auth, "KEYS", *keys) == b"OK"
        return len(keys)

    def end_move(self, key: str, target: RedisServer) -> None:
        slot, source = slot_of_key(key), self.owner(key)
        others = [node for node in self.nodes if node.running and node.command("ROLE")[0] == b"master"]
        for node in (target, source, *others):  # the new owner first: else there is a moment without any
            node.command("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def move(self, key: str, target: RedisServer) -> None:
        """Move the slot of a key to another node, with all of its keys."""
        self.begin_move(key, target)
        while self.move_keys(key, target):
            pass
        self.end_move(key, target)

    def migrate(self, key: str, target: RedisServer) -> bool:
        """Move the slot of a key to another node in one step, as Valkey 9 can. False: these servers cannot."""
        slot, source = slot_of_key(key), self.owner(key)
        words = ("SLOTSRANGE", slot, slot, "NODE", self.id_of(target))
        try:
            source.command("CLUSTER", "MIGRATESLOTS", *words)
        except ReplyError:
            return False
        self.until(lambda: self.owner(key) is target, "the slot did not move")
        return True

    def blocked(self) -> int:
        """How many clients of all nodes are blocked."""
        found = 0
        for node in self.nodes:
            info: bytes = node.command("INFO", "clients")
            found += int(info.partition(b"blocked_clients:")[2].split()[0])
        return found

    def flush(self) -> None:
        for node in self.nodes:
            if node.running and node.command("ROLE")[0] == b"master":
                node.flush()

    def until(self, holds: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + READY_S
        while not holds():
            assert time.monotonic() < until, what
            time.sleep(0.02)

    def until_ok(self) -> None:
        """Wait until all running nodes see a cluster in order."""
        self.until(lambda: all(_sees(node, b"cluster_state:ok") for node in self.nodes if node.running), "no order")

    def _join(self) -> None:
        masters = self.masters
        for node, slots in zip(masters, equal_ranges(len(masters)), strict=True):
            node.command("CLUSTER", "ADDSLOTS", *slots)
        for number, node in enumerate(self.nodes):
            node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        first_port = self.ports[self.nodes[0]]
        bus = first_port + BUS_ABOVE if self._buses is None else self._buses.ports[first_port]
        for node in self.nodes[1:]:
            node.command("CLUSTER", "MEET", "127.0.0.1", first_port, bus)
        seen = b"cluster_state:ok", b"cluster_known_nodes:%d" % len(self.nodes), b"cluster_slots_assigned:%d" % SLOTS
        self.until(lambda: all(_sees(node, *seen) for node in self.nodes), "it did not form")
        for number, node in enumerate(self.nodes[self._masters :]):
            node.command("CLUSTER", "REPLICATE", self.id_of(masters[number % len(masters)]))
        replicas = self.nodes[self._masters :]
        self.until(lambda: all(node.command("ROLE")[3] == b"connected" for node in replicas), "no replication")


def equal_ranges(masters: int) -> list[range]:
    """The slots of each node, as even as they can be."""
    return [range(n * SLOTS // masters, (n + 1) * SLOTS // masters) for n in range(masters)]


def fullest_node(queue: str, partitions: int, masters: int) -> int:
    """How many partitions of a queue the fullest node has, when nodes have equal ranges of slots."""
    slots = [slot_of_key(queue_prefix("tenure", place_of(queue, partition))) for partition in range(partitions)]
    return max(sum(slot in own for slot in slots) for own in equal_ranges(masters))


@contextmanager
def redis_cluster(binary: str) -> Iterator[int]:
    """Start servers as one cluster without replicas, each with a third of the slots. Yields the port of one."""
    with Cluster(binary) as cluster:
        yield cluster.ports[cluster.nodes[0]]


def _take_port(ports: Ports) -> int:
    """Reserve a port, and that of the cluster bus, 10,000 above. Outgoing connections use neither."""
    # Each test process sets the seed of `random` to the same number before each test.
    for port in random.SystemRandom().sample(range(10_000, 20_000), PORTS_TRIED):
        with contextlib.suppress(OSError):
            ports.take(port + BUS_ABOVE)
            return ports.take(port)
    raise AssertionError("no free port was found")


def _sees(node: RedisServer, *words: bytes) -> bool:
    info: bytes = node.command("CLUSTER", "INFO")
    return all(word in info for word in words)
