"""What limits cost: a claim among few and among many limits for which jobs wait.

    python -m bench.limits [--keys 10,1000,1000000]

Starts a Redis of its own and prints a table in Markdown. Each of the keys has a job that waits: its rate is used up for
an hour. Then jobs are claimed and settled one by one: of a limit with room, and of one whose jobs wait for each other.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from typing import Final

from tenure.core.job import Lease, NewJob
from tenure.core.outcome import Completed
from tenure.core.rates import LimitRule
from tenure.core.shape import Shape
from tenure.engines.native import NativeEngine
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer, available_binaries

QUEUE: Final = "bench"
HOUR_US: Final = 3_600_000_000
PAIRS: Final = 50
GROUPS: Final = 20
BATCH: Final = 500
ROUNDS_MOST: Final = 1_000_000
SIZES: Final = (10, 1_000, 100_000, 1_000_000)
FREE: Final = Shape(limits=(LimitRule("free", concurrency=1_000),))
NARROW: Final = Shape(limits=(LimitRule("narrow", concurrency=1),))
PLAIN: Final = Shape()
KINDS: Final = {"no limit": PLAIN, "a limit with room": FREE, "a limit of one": NARROW}


class Bench:
    """A queue with waiting keys."""

    def __init__(self, server: RedisServer, driver: SyncDriver) -> None:
        self.server, self.driver = server, driver
        self.engine = NativeEngine("bench")
        self.keys = self.jobs = 0

    def wait_at(self, keys: int) -> None:
        """Let a job wait for each of this many keys."""
        used = f"{int(time.time() * 1_000_000) + HOUR_US} 0"
        for first in range(self.keys, keys, BATCH):
            names = [f"tenant:{n}" for n in range(first, min(keys, first + BATCH))]
            # One used up rate for each, as a start of a job leaves it.
            pairs = [word for name in names for word in (f"{self.engine.shared()}:limit:{escaped(name)}", used)]
            self.server.command("MSET", *pairs)
            rules = [LimitRule(name, interval_us=HOUR_US) for name in names]
            self.enqueue([Shape(limits=(rule,)) for rule in rules])
        self.keys = keys
        for _ in range(ROUNDS_MOST):
            if not self.lease(100) and self.server.command("HLEN", f"{self.engine.prefix(QUEUE)}:gated") == keys:
                return
        raise AssertionError("the jobs do not wait for their limits")

    def enqueue(self, shapes: list[Shape]) -> None:
        jobs = [NewJob(QUEUE, f"{self.jobs + n}", b"p", shape=shape) for n, shape in enumerate(shapes)]
        self.jobs += len(jobs)
        self.driver.run(self.engine.enqueue(jobs))

    def lease(self, limit: int) -> tuple[Lease, ...]:
        return tuple(self.driver.run(self.engine.lease("w", [QUEUE], limit)).leases)

    def costs(self, shape: Shape) -> str:
        """The CPU time of Redis for a claim of one job and its end, and the commands of both.

        Of the best group of pairs, since what else the machine does makes the others slower.
        """
        found: list[tuple[float, float]] = []
        for _ in range(GROUPS):
            self.enqueue([shape] * PAIRS)
            self.server.command("CONFIG", "RESETSTAT")
            before = self.cpu_us()
            for _ in range(PAIRS):
                (lease,) = self.lease(1)
                self.driver.run(self.engine.settle([(lease, Completed(b"", 0))]))
            found.append(((self.cpu_us() - before) / PAIRS, self.commands() / PAIRS))
        us, commands = min(found)
        return f"{us:.0f} | {commands:.0f}"

    def cpu_us(self) -> float:
        """The CPU time of Redis since its start, in microseconds."""
        lines = self.server.command("INFO", "cpu").decode().splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        return 1e6 * (float(fields["used_cpu_user"]) + float(fields["used_cpu_sys"]))

    def commands(self) -> float:
        """How many commands have run since the last reset, those of scripts included."""
        lines = self.server.command("INFO", "commandstats").decode().splitlines()
        calls = {line.split(":")[0]: float(line.split("calls=")[1].split(",")[0]) for line in lines if "calls=" in line}
        return sum(calls.values()) - calls.get("cmdstat_info", 0) - calls.get("cmdstat_config|resetstat", 0)


def escaped(name: str) -> str:
    """A name as it stands in keys."""
    return name.replace(":", "%3A")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", default=",".join(map(str, SIZES)))
    sizes = [int(size) for size in parser.parse_args().keys.split(",")]
    *_, binary = available_binaries().values()
    sys.stdout.write("| waiting keys | a job with | µs of its claim and its end | commands |\n")
    sys.stdout.write("|---|---|---|---|\n")
    with RedisServer(binary, aof=False) as server, closing(SyncDriver(server.url)) as driver:
        bench = Bench(server, driver)
        for size in sizes:
            bench.wait_at(size)
            for name, shape in KINDS.items():
                sys.stdout.write(f"| {size:,} | {name} | {bench.costs(shape)} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
