"""Queues with partitions on a cluster: processor time of the servers for a job, the share of claims that find nothing,
and how evenly jobs lie in the partitions and partitions on the nodes.

The servers and the workers share this machine, so jobs a second would say nothing about several machines: what counts
is the servers' processor time for a job, in all and on the busiest node. Workers are simulated: each is an engine with
a state of its own, and they claim and settle ten jobs at a time, in turns.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import mean
from typing import Final, TypeVar

from bench.speed.gauges import fields, info
from bench.speed.results import Machine, this_machine
from bench.speed.rounds import told
from tenure.core.job import NewJob
from tenure.core.outcome import Completed
from tenure.core.partitions import home_of
from tenure.core.shape import PLAIN, Shape
from tenure.core.steps import Command, Invoke, Steps
from tenure.engines.native.cluster import NativeClusterEngine
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.redis.drivers import blocking_driver
from tenure.redis.embedded.binary import find_server
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support.cluster import Cluster, fullest_node

T = TypeVar("T")
QUEUE: Final = "orders"
WORKERS: Final = 8
BATCH: Final = 10
"""Jobs that a worker claims and settles in one call."""
CHUNK: Final = 200
"""Jobs of one enqueue."""
LANES: Final = 1_000
FEW: Final = 16
"""Partitions that are measured with each number of masters."""
MANY: Final = (64, 256)
"""Partitions that are measured with the most masters only."""
POSTS: Final = 500
POST_WINDOWS: Final = 10
QUEUES: Final = 100
"""Names over which the fullness of nodes is averaged."""
AHEAD: Final = ((16, 64), (100, 256))
"""Masters and partitions that one machine cannot measure."""


@dataclass(frozen=True)
class Cost:
    """Processor time of the servers for a job in microseconds: of all together, and of the busiest one."""

    all_us: float
    busiest_us: float


@dataclass(frozen=True)
class Drained:
    """What the jobs of one queue cost. `empty`: the share of claims that found nothing. `posts`: calls about the post
    for a job."""

    masters: int
    partitions: int
    lanes: int
    enqueue: Cost
    drain: Cost
    empty: float
    posts: float

    @property
    def all_us(self) -> float:
        return self.enqueue.all_us + self.drain.all_us

    @property
    def busiest_us(self) -> float:
        return self.enqueue.busiest_us + self.drain.busiest_us


@dataclass(frozen=True)
class Fullness:
    """Jobs in lanes of equal length: how many times the mean the fullest partition has."""

    lanes: int
    partitions: int
    ratio: float


@dataclass(frozen=True)
class ClusterFound:
    """`post_us`: processor time of one call about the post."""

    machine: Machine
    jobs: int
    drained: tuple[Drained, ...]
    fullness: tuple[Fullness, ...]
    post_us: float

    def of(self, masters: int, partitions: int) -> Drained | None:
        """The costs of plain jobs."""
        found = (one for one in self.drained if (one.masters, one.partitions, one.lanes) == (masters, partitions, 0))
        return next(found, None)

    @property
    def most_masters(self) -> int:
        return max(one.masters for one in self.drained)


class Meter:
    """What the servers have used since it was made."""

    def __init__(self, nodes: Sequence[RedisServer]) -> None:
        self._nodes = nodes
        self._before = self._used()

    def cost(self, jobs: int) -> Cost:
        used = [(after - before) * 1e6 / jobs for before, after in zip(self._before, self._used(), strict=True)]
        return Cost(sum(used), max(used))

    def _used(self) -> list[float]:
        used = (fields(info(node, "cpu")) for node in self._nodes)
        return [float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"]) for cpu in used]


def measure(quick: bool = False) -> ClusterFound:
    jobs, rounds, sizes = (2_000, 1, (1, 3)) if quick else (20_000, 3, (1, 3, 6))
    drained: list[Drained] = []
    post_us, version = 0.0, ""
    for masters in sizes:
        kinds = [(partitions, lanes) for partitions in (1, FEW) for lanes in (0, LANES)]
        if masters == sizes[-1]:
            kinds += [(partitions, 0) for partitions in MANY]
        with Cluster(find_server(), masters=masters) as cluster:
            told(f"cluster: {masters} masters")
            turns = [[drain(cluster, *kind, jobs) for kind in kinds] for _ in range(rounds)]
            drained += [min(same, key=_busiest) for same in zip(*turns, strict=True)]
            post_us = min(_post_us(cluster) for _ in range(POST_WINDOWS))
            version = fields(info(cluster.masters[0], "server"))["redis_version"]
    lanes_counts = (10_000,) if quick else (10_000, 1_000_000)
    fullness = [fullness_of(lanes, partitions) for lanes in lanes_counts for partitions in (FEW, *MANY)]
    return ClusterFound(this_machine(version), jobs, tuple(drained), tuple(fullness), post_us)


def drain(cluster: Cluster, partitions: int, lanes: int, jobs: int) -> Drained:
    """Enqueue and drain, with workers that have looked for jobs before."""
    cluster.flush()
    draw = random.Random(1)  # noqa: S311
    with closing(blocking_driver(cluster.url)) as driver:
        workers = [_engine(partitions) for _ in range(WORKERS)]
        for number, worker in enumerate(workers):
            _work(driver, worker, f"w{number}", None, Counter())
        producer, meter, calls = _engine(partitions), Meter(cluster.masters), Counter[str]()
        for start in range(0, jobs, CHUNK):
            shapes = [Shape(lane=f"lane-{draw.randrange(lanes)}") if lanes else PLAIN for _ in range(CHUNK)]
            added = [NewJob(QUEUE, f"{start + n}", b"x", shape=one) for n, one in enumerate(shapes)]
            driver.run(_counting(producer.enqueue(added), calls))
        enqueue, meter, done = meter.cost(jobs), Meter(cluster.masters), 0
        while done < jobs:
            for number, worker in enumerate(workers):
                done += _work(driver, worker, f"w{number}", {QUEUE: BATCH} if lanes else None, calls)
        costs = enqueue, meter.cost(jobs)
    return Drained(
        len(cluster.masters), partitions, lanes, *costs, calls["empty"] / calls["claim"], calls["post"] / jobs
    )


def _work(
    driver: SyncDriver, worker: PartitionedEngine, name: str, of_lane: dict[str, int] | None, calls: Counter[str]
) -> int:
    leases = driver.run(_counting(worker.lease(name, [QUEUE], BATCH, of_lane=of_lane), calls)).leases
    driver.run(_counting(worker.settle([(lease, Completed()) for lease in leases]), calls))
    return len(leases)


def _engine(partitions: int) -> PartitionedEngine:
    made = PartitionedEngine("bench", make=NativeClusterEngine)
    made.want_partitions(QUEUE, partitions)
    return made


def _counting(steps: Steps[T], calls: Counter[str]) -> Steps[T]:
    """Run an operation, and count its calls: claims, those that found nothing, and those about the post."""
    try:
        call = next(steps)
        while True:
            reply = yield call
            if isinstance(call, Invoke) and call.script.name == "claim":
                calls["claim"] += 1
                calls["empty"] += not reply[1]
            elif isinstance(call, Command) or (isinstance(call, Invoke) and call.script.name == "post"):
                calls["post"] += 1
            call = steps.send(reply)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


def _busiest(one: Drained) -> float:
    """Of several turns the least counts: other work on the machine only adds."""
    return one.busiest_us


def _post_us(cluster: Cluster) -> float:
    """What one call about the post costs its node: half of them name a partition, half take one."""
    engine = _engine(FEW)
    with closing(blocking_driver(cluster.url)) as driver:
        meter = Meter(cluster.masters)
        for number in range(POSTS // 2):
            driver.run(_one(Invoke(engine.native.scripts["post"], (engine.prefix(QUEUE),), (number % FEW,))))
            driver.run(_one(Command(("LPOP", f"{engine.prefix(QUEUE)}:post"))))
        return meter.cost(POSTS).busiest_us


def _one(call: Command | Invoke) -> Steps[None]:
    yield call


def fullness_of(lanes: int, partitions: int) -> Fullness:
    homes = Counter(home_of(f"lane customer:{number}", partitions) for number in range(lanes))
    return Fullness(lanes, partitions, max(homes.values()) * partitions / lanes)


def node_fullness(masters: int, partitions: int) -> float:
    """How many times the mean of the partitions the fullest of nodes with equal ranges of slots has."""
    return mean(fullest_node(f"queue-{n}", partitions, masters) for n in range(QUEUES)) * masters / partitions


def projected(found: ClusterFound, masters: int, partitions: int) -> float | None:
    """How many times as fast as one partition a queue would be, from the costs on the most masters.

    Each node has its share of the cost of all, the fullest one more; the node of partition 0 has the post, too.
    """
    one, spread = found.of(found.most_masters, 1), found.of(found.most_masters, partitions)
    if one is None or spread is None:
        return None
    share = spread.all_us * node_fullness(masters, partitions) / masters
    return one.busiest_us / (share + spread.posts * found.post_us)


def table(found: ClusterFound) -> str:
    costs = "enqueue: all, busiest | claim and end: all, busiest"
    lines = [
        f"| masters | partitions | jobs | {costs} | claims that find nothing | calls about the post, a job |",
        "|---:|---:|---|---:|---:|---:|---:|",
    ]
    for one in found.drained:
        kind = f"in {one.lanes:,} lanes" if one.lanes else "plain"
        both = " | ".join(f"{cost.all_us:.1f}, {cost.busiest_us:.1f}" for cost in (one.enqueue, one.drain))
        lines.append(f"| {one.masters} | {one.partitions} | {kind} | {both} | {one.empty:.1%} | {one.posts:.3f} |")
    return "\n".join([*lines, "", *_fullness_lines(found), "", *_projection_lines(found)])


def _fullness_lines(found: ClusterFound) -> list[str]:
    sizes = sorted({one.partitions for one in found.fullness})
    head = "| lanes | " + " | ".join(f"{size} partitions" for size in sizes) + " |"
    lines = ["### The fullest partition", "", "Its jobs, to the mean, when all lanes are equally long:", ""]
    lines += [head, "|---:|" + "---:|" * len(sizes)]
    for lanes in sorted({one.lanes for one in found.fullness}):
        ratios = {one.partitions: one.ratio for one in found.fullness if one.lanes == lanes}
        lines.append(f"| {lanes:,} | " + " | ".join(f"{ratios[size]:.2f}" for size in sizes) + " |")
    return lines


def _projection_lines(found: ClusterFound) -> list[str]:
    most = found.most_masters
    lines = [
        "### What follows for more masters",
        "",
        f"A calculation from the costs of plain jobs on {most} masters. The busiest node spends `c * s / masters + p` "
        "on a job: `c` is the cost on all nodes, `s` how many times the mean of the partitions the fullest node has, "
        f"and `p` the cost of the post, which is on one node ({found.post_us:.1f} µs a call). One partition costs its "
        f"node {_us(found, 1)} µs a job.",
        "",
        "| masters | partitions | c, µs | s | times as fast as one partition | measured |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for masters, partitions in ((3, FEW), (6, FEW), *AHEAD):
        times, one, seen = projected(found, masters, partitions), found.of(masters, 1), found.of(masters, partitions)
        if times is not None:
            measured = f"{one.busiest_us / seen.busiest_us:.1f}" if one and seen else "-"
            s = node_fullness(masters, partitions)
            lines.append(
                f"| {masters} | {partitions} | {_us(found, partitions)} | {s:.2f} | {times:.1f} | {measured} |"
            )
    return lines


def _us(found: ClusterFound, partitions: int) -> str:
    one = found.of(found.most_masters, partitions)
    return "-" if one is None else f"{one.all_us if partitions > 1 else one.busiest_us:.0f}"
