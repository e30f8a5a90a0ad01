"""Measure queues with partitions on a Redis Cluster: processor time of the servers for a job, the share of claims that
find nothing, and how full the fullest partition is.

    python -m bench.cluster [--jobs 20000] [--masters 1,3,6] [--workers 8]

The servers and the workers share this machine, so jobs a second would say nothing about several machines: what counts
is the servers' processor time for a job, in all and on the busiest node. Workers are simulated: each is an engine with
a state of its own, and they claim and settle ten jobs at a time, in turns. docs/explanation/scale.md uses the figures.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, TypeVar

from leasehold.core.job import NewJob
from leasehold.core.outcome import Completed
from leasehold.core.partitions import home_of
from leasehold.core.shape import PLAIN, Shape
from leasehold.core.steps import Command, Invoke, Steps
from leasehold.engines.native.cluster import NativeClusterEngine
from leasehold.redis.drivers import blocking_driver
from leasehold.redis.embedded.binary import find_server
from leasehold.testing.server import RedisServer
from tests.support.cluster import Cluster

T = TypeVar("T")
QUEUE: Final = "orders"
BATCH: Final = 10
"""Jobs that a worker claims and settles in one call."""
CHUNK: Final = 200
"""Jobs of one enqueue."""


@dataclass
class Cost:
    """Processor time of the servers for a job in microseconds: of all together, and of the busiest one."""

    all_us: float
    busiest_us: float


class Meter:
    """What the servers have used since it was made."""

    def __init__(self, nodes: Sequence[RedisServer]) -> None:
        self._nodes = nodes
        self._before = self._used()

    def cost(self, jobs: int) -> Cost:
        used = [(after - before) * 1e6 / jobs for before, after in zip(self._before, self._used(), strict=True)]
        return Cost(sum(used), max(used))

    def _used(self) -> list[float]:
        return [_cpu(node.command("INFO", "cpu").decode()) for node in self._nodes]


def _cpu(info: str) -> float:
    fields = dict(line.split(":") for line in info.split() if ":" in line)
    return float(fields["used_cpu_user"]) + float(fields["used_cpu_sys"])


def counting(steps: Steps[T], calls: Counter[str]) -> Steps[T]:
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


def engine(partitions: int) -> NativeClusterEngine:
    made = NativeClusterEngine("bench")
    made.want_partitions(QUEUE, partitions)
    return made


def measure(
    cluster: Cluster, partitions: int, lanes: int, asked: argparse.Namespace
) -> tuple[Cost, Cost, Counter[str]]:
    """Enqueue and drain. Return the costs of both, and how many calls there were of each kind."""
    cluster.flush()
    draw = random.Random(1)  # noqa: S311
    with closing(blocking_driver(cluster.url)) as driver:
        producer, meter, calls = engine(partitions), Meter(cluster.masters), Counter[str]()
        for start in range(0, asked.jobs, CHUNK):
            shapes = [Shape(lane=f"lane-{draw.randrange(lanes)}") if lanes else PLAIN for _ in range(CHUNK)]
            jobs = [NewJob(QUEUE, f"{start + n}", b"x", shape=one) for n, one in enumerate(shapes)]
            driver.run(counting(producer.enqueue(jobs), calls))
        added, meter, done = meter.cost(asked.jobs), Meter(cluster.masters), 0
        workers = [engine(partitions) for _ in range(asked.workers)]
        while done < asked.jobs:
            for number, worker in enumerate(workers):
                steps = worker.lease(f"w{number}", [QUEUE], BATCH, of_lane={QUEUE: BATCH} if lanes else None)
                leases = driver.run(counting(steps, calls)).leases
                driver.run(counting(worker.settle([(lease, Completed()) for lease in leases]), calls))
                done += len(leases)
        drained = meter.cost(asked.jobs)
    return added, drained, calls


def skew(lanes: int, partitions: int) -> float:
    """How many times the mean the fullest partition has, with as many lanes of equal length."""
    homes = Counter(home_of(f"lane customer:{number}", partitions) for number in range(lanes))
    return max(homes.values()) * partitions / lanes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--masters", default="1,3,6")
    parser.add_argument("--workers", type=int, default=8)
    asked = parser.parse_args()
    asked.jobs -= asked.jobs % CHUNK
    costs = "enqueue: all, busiest µs | claim and end: all, busiest µs"
    print(f"| masters | partitions | jobs | {costs} | empty claims | calls about the post, a job |")
    print("|---:|---:|---|---:|---:|---:|---:|")
    for masters in map(int, asked.masters.split(",")):
        with Cluster(find_server(), masters=masters) as cluster:
            for partitions, lanes in ((1, 0), (16, 0), (1, 1_000), (16, 1_000)):
                added, drained, calls = measure(cluster, partitions, lanes, asked)
                kind = f"in {lanes:,} lanes" if lanes else "plain"
                costs = " | ".join(f"{cost.all_us:.1f}, {cost.busiest_us:.1f}" for cost in (added, drained))
                empty, posts = calls["empty"] / calls["claim"], calls["post"] / asked.jobs
                print(f"| {masters} | {partitions} | {kind} | {costs} | {empty:.1%} | {posts:.3f} |", flush=True)
    print("\n| lanes | 16 partitions: fullest to mean | 64 | 256 |\n|---:|---:|---:|---:|")
    for lanes in (10_000, 1_000_000):
        print(f"| {lanes:,} | " + " | ".join(f"{skew(lanes, partitions):.3f}" for partitions in (16, 64, 256)) + " |")


if __name__ == "__main__":
    main()
