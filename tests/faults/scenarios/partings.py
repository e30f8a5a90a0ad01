"""A Redis Cluster whose nodes are parted, stall, hand slots or partitions to each other, or die: S80 to S84."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from tenure import Tenure
from tenure.core.errors import RedisError
from tenure.core.job import State
from tenure.testing.server import RedisServer
from tests.faults.harness import jobs
from tests.faults.harness.fleet import Fleet
from tests.faults.harness.history import Event, Op
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds, Policy
from tests.faults.scenarios.clusters import BACK_S, KEY, NODE_TIMEOUT_MS
from tests.faults.scenarios.failovers import DURABLE, surroundings
from tests.support.bus import Buses
from tests.support.cluster import Cluster

FOLLOWER: Final = "follower"
"""The user as whom the replicas log in."""
FOLLOWS: Final = (
    *("--user", FOLLOWER, "on", f">{FOLLOWER}", "+psync", "+replconf", "+ping"),
    *("--masteruser", FOLLOWER, "--masterauth", FOLLOWER),
)
"""The options of nodes with that user: when a master refuses it, its replica gets nothing more."""
LANES: Final = 6
MOVES: Final = 6
KEYS_AT_ONCE: Final = 3
KILL_AT: Final = 2
"""During this move a worker is killed."""
NUMBERS: Final = (4, 8, 3, 1)
LOOK_S: Final = 0.3
SLACK_MS: Final = 500
WAIT_S: Final = 60.0


@scenario(
    "S80",
    "a cluster: the master of the queue is cut off from all other nodes, while clients still reach it; durable=1",
    Bounds({"partings": 1, "unknown": 1}, awake_s=BACK_S, drained_s=60),
    jobs=60,
)
def minority(stage: Stage) -> None:
    """The master runs jobs on until it notices (CLUSTERDOWN), its replica takes over, and what only it had is gone."""
    buses = stage.open.enter_context(Buses())
    cluster = _replicated(stage, buses)
    stage.add(stage.size, jobs.STEP, 60, 1)
    stage.spend(0.5)
    master, replica = cluster.owner(KEY), cluster.replica(KEY)
    began = time.monotonic()
    part_replica(master)
    buses.part(cluster.ports[master])
    stage.fault("partings")

    def taken_over() -> bool:
        stage.add(1, jobs.STEP, 30)
        return bool(replica.command("ROLE")[0] == b"master")

    stage.until(taken_over, "the replica of the lonely master was to take over")
    _spare_replicated(stage, began)
    stage.add(stage.size, jobs.STEP, 5)
    stage.expect(bool(master.command("ROLE")[0] == b"master"), "the lonely master was to know nothing of it")
    buses.join(cluster.ports[master])
    stage.until(lambda: bool(master.command("ROLE")[0] == b"slave"), "the lonely master was to follow the new one")
    _end(stage, cluster)


@scenario(
    "S81",
    "a cluster: the master of the queue stalls, its replica takes over, and it comes back with calls to run; durable=1",
    Bounds({"stalls": 1}, awake_s=BACK_S, drained_s=60),
    jobs=60,
)
def stalled(stage: Stage) -> None:
    """Calls wait in the sockets of the stalled master, which believes to be one until it has read the first message of
    another node."""
    cluster = _replicated(stage)
    stage.add(stage.size, jobs.STEP, 60, 1)
    stage.spend(0.5)
    master, replica = cluster.owner(KEY), cluster.replica(KEY)
    began = time.monotonic()
    master.pause()
    stage.fault("stalls")
    stage.add(3, jobs.STEP, 30)
    stage.until(lambda: is_master(replica), "the replica of the stalled master was to take over")
    _spare_replicated(stage, began)
    stage.add(stage.size, jobs.STEP, 5)
    master.resume()
    stage.until(lambda: bool(master.command("ROLE")[0] == b"slave"), "the stalled master was to follow the new one")
    _end(stage, cluster)


@scenario(
    "S82",
    "a cluster: the slot of a queue moves from master to master with claims in flight; lanes keep their order",
    Bounds({"moves": MOVES, "held kills": 1}, awake_s=BACK_S, drained_s=60),
    jobs=60,
    lanes=Policy.SKIP,
)
def resharded(stage: Stage) -> None:
    cluster = stage.open.enter_context(Cluster(stage.binary))
    stage.sampling = False
    stage.borrow(cluster.owner(KEY), cluster.url)
    fleet = stage.fleet(2, 3, cluster.url)
    for number in range(MOVES):
        for lane in range(LANES):
            stage.add(max(2, stage.size // (LANES * MOVES)), jobs.STEP, 20, number % 2, lane=f"lane{lane}")
        stage.add(stage.size // MOVES, jobs.STEP, 60)
        source = cluster.owner(KEY)
        target = cluster.nodes[(cluster.nodes.index(source) + 1) % len(cluster.nodes)]
        if number % 2 == 0 or not cluster.migrate(KEY, target):
            _move(stage, cluster, target, fleet if number == KILL_AT else None)
        stage.fault("moves")
        stage.until(lambda source=source: cluster.owner(KEY) is not source, "the slot was to have another master")  # type: ignore[misc]
    stage.recover()
    stage.borrow(cluster.owner(KEY), cluster.url)


def _move(stage: Stage, cluster: Cluster, target: RedisServer, fleet: Fleet | None) -> None:
    """Move the slot of the queue to another master, some keys at a time. `fleet`: kill one of its workers meanwhile,
    one that runs a job."""
    held = stage.add(1, jobs.GATE) if fleet is not None else []
    stage.until(lambda: stage.started(held), "a job was to run")
    cluster.begin_move(KEY, target)
    while cluster.move_keys(KEY, target, most=KEYS_AT_ONCE):
        stage.tick()
        if fleet is not None and held:
            fleet.kill(stage.runner(held[0]))
            jobs.mended(held.pop(), stage.folder).touch()
    cluster.end_move(KEY, target)


@scenario(
    "S83",
    "a cluster: each node is killed in turn, while callers wait for results and running jobs are cancelled; durable=1",
    Bounds({"kills of nodes": 2, "cancelled": 2, "results": 2}, awake_s=BACK_S, drained_s=60),
    jobs=40,
)
def deaf(stage: Stage) -> None:
    """The subscriptions of workers and callers are at one node each: when that dies, they move to another."""
    cluster = _replicated(stage)
    waiting = stage.open.enter_context(ThreadPoolExecutor(2))
    for node in [node for node in cluster.masters if node is not cluster.owner(KEY)]:
        stage.add(stage.size // 2, jobs.STEP, 30)
        [held] = stage.add(1, jobs.GATE, meant="cancelled")
        [job] = stage.add(1, jobs.GATE)
        stage.until(lambda ids=(held, job): stage.started(ids), "the jobs were to run")  # type: ignore[misc]
        result: Future[object] = waiting.submit(stage.app.tasks[jobs.GATE].job(job).result, WAIT_S)
        node.kill()
        stage.fault("kills of nodes")
        stage.app.control.cancel(jobs.QUEUE, held)
        stage.until(lambda held=held: stage.view(held).state is State.CANCELLED, "the job was to be cancelled")  # type: ignore[misc]
        stage.fault("cancelled")
        jobs.mended(job, stage.folder).touch()
        stage.until(result.done, "the caller was to have its result")
        stage.expect(result.exception() is None, "the caller was to have its result without an error")
        stage.fault("results")
        node.start()
        cluster.until_ok()
    _end(stage, cluster)


@scenario(
    "S84",
    "a cluster: the number of partitions of a queue changes under load, and workers are killed; lanes keep their order",
    Bounds({"changes": len(NUMBERS), "held kills": len(NUMBERS)}, awake_s=BACK_S, drained_s=60),
    jobs=80,
    lanes=Policy.SKIP,
)
def repartitioned(stage: Stage) -> None:
    """From one partition to four, eight, three and one. Jobs of lanes wait, run, fail and are retried meanwhile."""
    cluster = stage.open.enter_context(Cluster(stage.binary))
    stage.sampling = False
    stage.borrow(cluster.owner(KEY), cluster.url)
    producers = [stage.app_at(cluster.url) for _ in range(2)]
    fleet = stage.fleet(3, 3, cluster.url)
    most = max(1, stage.size // (LANES * len(NUMBERS) * 2))
    for number in NUMBERS:
        held = stage.add(1, jobs.GATE)
        _fill_lanes(stage, producers[0], most)
        stage.until(lambda held=held: stage.started(held), "a job was to run")  # type: ignore[misc]
        stage.app.control.configure(jobs.QUEUE, partitions=number)
        _fill_lanes(stage, producers[1], most)
        fleet.kill(stage.runner(held[0]))
        jobs.mended(held[0], stage.folder).touch()
        for app in producers:
            stage.add(most * LANES, jobs.STEP, 40, 1, app=app)
        stage.until(lambda: _is_over(stage), "the change was to be over")
        stage.fault("changes")
    stage.recover()


def _is_over(stage: Stage) -> bool:
    stage.spend(LOOK_S)
    return stage.app.inspect.queue(jobs.QUEUE).repartition is None


def _fill_lanes(stage: Stage, app: Tenure, count: int) -> None:
    for lane in range(LANES):
        stage.add(count, jobs.STEP, 20, lane % 2, app=app, lane=f"lane{lane}")


def _replicated(stage: Stage, buses: Buses | None = None) -> Cluster:
    """A cluster with a replica of each master, and workers; writes wait for the replica."""
    options = FOLLOWS if buses is not None else ()
    made = Cluster(stage.binary, replicas=1, node_timeout_ms=NODE_TIMEOUT_MS, options=options, buses=buses)
    cluster = stage.open.enter_context(made)
    stage.sampling = False
    environment = {DURABLE: "1"}
    with surroundings(**environment):
        stage.borrow(cluster.owner(KEY), cluster.url)
    stage.fleet(2, 3, cluster.url, environment=environment)
    return cluster


def _spare_replicated(stage: Stage, began: float) -> None:
    """Write down that what was written since then may be gone, unless the replica had it."""
    ms = round((time.monotonic() - began) * 1000) + SLACK_MS
    stage.diary.write(Event(Op.WINDOW, ms=ms, phase="durable"))


def part_replica(master: RedisServer) -> None:
    """Nothing of what this master writes from now on reaches its replica."""
    master.command("ACL", "SETUSER", FOLLOWER, "off")
    master.command("CLIENT", "KILL", "TYPE", "replica")


def is_master(node: RedisServer) -> bool:
    try:
        return bool(node.command("ROLE")[0] == b"master")
    except RedisError:
        return False


def _end(stage: Stage, cluster: Cluster) -> None:
    stage.recover()
    cluster.until_ok()
    with surroundings(**{DURABLE: "1"}):
        stage.borrow(cluster.owner(KEY), cluster.url)


ALL: Final = (minority, stalled, resharded, deaf, repartitioned)
