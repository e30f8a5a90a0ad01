"""A Redis Cluster of three masters, in S29 with a replica of each: S28, S29."""

from __future__ import annotations

import time
from typing import Final

from tenure.core.errors import RedisError
from tests.faults.harness import ending, jobs
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds
from tests.faults.scenarios.failovers import DURABLE, surroundings
from tests.support.cluster import Cluster

KEY: Final = f"{{{jobs.NAMESPACE}:{jobs.QUEUE}}}"
NODE_TIMEOUT_MS: Final = 2_000
OTHER_KEY: Final = f"{{{jobs.NAMESPACE}:{jobs.RAW}}}"
STOP_S: Final = 8.0
"""Longer than a lease, and than the patience of a worker with one node."""
BACK_S: Final = 20.0
"""Until the cluster has elected a new master (about 4 s), and a lease has lapsed."""


@scenario(
    "S29",
    "a cluster: CLUSTER FAILOVER, a slot that moves key by key, and a master is killed; durable=1",
    Bounds({"failovers": 2, "moves": 1}, awake_s=BACK_S, drained_s=60),
    jobs=60,
)
def clustered(stage: Stage) -> None:
    cluster = stage.open.enter_context(Cluster(stage.binary, replicas=1, node_timeout_ms=NODE_TIMEOUT_MS))
    stage.sampling = False
    environment = {DURABLE: "1"}
    with surroundings(**environment):
        stage.borrow(cluster.owner(KEY), cluster.url)
    stage.fleet(2, 3, cluster.url, environment=environment)
    stage.add(stage.size, jobs.STEP, 60, 1)
    stage.spend(0.5)
    before, replica = cluster.owner(KEY), cluster.replica(KEY)
    replica.command("CLUSTER", "FAILOVER")
    stage.fault("failovers")
    stage.until(lambda: cluster.owner(KEY) is replica, "the replica was to take over")
    stage.add(stage.size, jobs.STEP, 30)
    stage.until(lambda: before.command("ROLE")[3] == b"connected", "the old master was to follow the new one")
    _move(stage, cluster)
    _kill(stage, cluster)
    stage.recover()
    cluster.until_ok()
    with surroundings(**environment):
        stage.borrow(cluster.owner(KEY), cluster.url)


def _move(stage: Stage, cluster: Cluster) -> None:
    """Move the slot of the queue to another master, key by key, while jobs run and end."""
    source = cluster.owner(KEY)
    target = next(node for node in cluster.nodes if node is not source and node.command("ROLE")[0] == b"master")
    cluster.begin_move(KEY, target)
    while cluster.move_keys(KEY, target, most=1):
        stage.tick()
    cluster.end_move(KEY, target)
    stage.fault("moves")
    stage.add(stage.size, jobs.STEP, 30)
    stage.spend(0.5)


def _kill(stage: Stage, cluster: Cluster) -> None:
    """Kill the master of the queue while jobs run, and start it again once its replica has taken over."""
    master, replica = cluster.owner(KEY), cluster.replica(KEY)
    stage.add(stage.size, jobs.STEP, 60, 1)
    master.kill()
    stage.fault("failovers")
    stage.add(3, jobs.STEP, 30)

    def taken_over() -> bool:
        try:
            return replica.command("ROLE")[0] == b"master" and cluster.owner(KEY) is replica
        except RedisError:
            return False

    stage.until(taken_over, "the replica of the killed master was to take over")
    master.start()
    stage.add(stage.size, jobs.STEP, 5)


@scenario(
    "S28",
    "a cluster: a master without a replica is stopped for 8 s, first that of a queue, then that of the namespace",
    Bounds({"stops": 2}, awake_s=BACK_S, drained_s=60),
    jobs=60,
)
def one_node_stopped(stage: Stage) -> None:
    cluster = stage.open.enter_context(Cluster(stage.binary))
    stage.sampling = False
    stage.borrow(cluster.owner(KEY), cluster.url)
    stage.fleet(2, 3, cluster.url, replace=False)
    stage.add(stage.size, jobs.STEP, 60, 1)
    for key in (KEY, f"{{{jobs.NAMESPACE}}}"):
        stage.add_raw(b"0")
        stage.until(lambda: not ending.left(stage.app, jobs.RAW), "the first raw job was to be done")
        node = cluster.owner(key)
        assert node is not cluster.owner(OTHER_KEY), "the names give the two queues different nodes"
        node.pause()
        stage.fault("stops")
        began = time.monotonic()
        while time.monotonic() - began < STOP_S:
            stage.add_raw(b"1")
            stage.until(lambda: not ending.left(stage.app, jobs.RAW), "a queue on another node was to be served")
        node.resume()
        stage.add(stage.size, jobs.STEP, 30)
    stage.recover()


ALL: Final = (one_node_stopped, clustered)
