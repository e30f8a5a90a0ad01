"""Ports of the servers of a test: two test processes that begin at the same moment never get the same one."""

from __future__ import annotations

import random

import pytest

from tenure.testing.ports import Ports
from tenure.testing.server import RedisServer
from tests.support.cluster import Cluster


def test_a_reserved_port_is_no_other_process_s_and_a_server_can_listen_on_it(redis_binary: str) -> None:
    ports, others = Ports(), Ports()
    port = ports.take()
    with pytest.raises(OSError, match="in use"):
        others.take(port)
    with RedisServer(redis_binary, aof=False, args=["--port", str(port)]) as server:
        server.restart(kill=True)
        with pytest.raises(OSError, match="in use"):
            others.take(port)
    ports.close()
    assert others.take(port) == port
    others.close()


def test_clusters_that_begin_with_the_same_seed_have_ports_of_their_own() -> None:
    made = []
    for _ in range(2):
        random.seed(7)
        made.append(Cluster("redis-server"))
    first, second = (set(one.ports.values()) for one in made)
    assert not first & second
    for one in made:
        for node in one.nodes:
            node.close()
        one.__exit__()
