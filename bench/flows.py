"""What flows cost Redis beside plain jobs, as ratios within one run.

    python -m bench.flows [--jobs 4000] [--members 1000000]

Starts a Redis of its own and prints a table in Markdown. The time is that of the server's processor in scripts (INFO
commandstats). Both sides of a ratio are measured in turns, and the median of the turns counts. `--members`: of the
large group of which the slowest scripts are shown; 0: none.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from statistics import median
from typing import Any, Final

from tenure import Tenure, group
from tenure.core import limits
from tenure.core.flows import Callback, NewFlow, member_id, membership
from tenure.core.job import Lease, NewJob
from tenure.core.outcome import Completed
from tenure.core.shape import PLAIN, Shape
from tenure.core.steps import Steps
from tenure.engines.native import NativeEngine
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer, available_binaries

QUEUE: Final = "bench"
TURNS: Final = 15
BATCH: Final = 100
PAYLOAD: Final = b"[[1],{}]"
_IDS = itertools.count()


class Bench:
    def __init__(self, server: RedisServer, driver: SyncDriver) -> None:
        self._server = server
        self._driver = driver
        self._engine = NativeEngine("bench")

    def run(self, steps: Steps[Any]) -> Any:
        return self._driver.run(steps)

    def us_of(self, act: Callable[[], object]) -> float:
        """The microseconds that the server spends in scripts and their commands."""
        self._server.command("CONFIG", "RESETSTAT")
        act()
        lines = self._server.command("INFO", "commandstats").decode().splitlines()
        return sum(float(line.split("usec=")[1].split(",")[0]) for line in lines if line.startswith("cmdstat_evalsha:"))

    def jobs(self, count: int, shape: Shape = PLAIN, queue: str = QUEUE) -> list[NewJob]:
        return [NewJob(queue, f"{next(_IDS):032x}", PAYLOAD, task="t", shape=shape) for _ in range(count)]

    def claim(self, count: int, queue: str = QUEUE) -> list[Lease]:
        leases: list[Lease] = []
        for _ in range(0, count, BATCH):
            leases += self.run(self._engine.lease(f"w{next(_IDS)}", (queue,), BATCH, slots=BATCH)).leases
        return leases

    def settle(self, leases: Sequence[Lease], size: int, follow: Sequence[NewJob] = ()) -> None:
        """Complete leases, so many in a call. Each of them is followed by one of these jobs, if there are any."""
        rest = iter(follow)
        for start in range(0, len(leases), size):
            page = leases[start : start + size]
            outcomes = [(one, Completed(b"null", limits.HOUR, tuple(itertools.islice(rest, 1)))) for one in page]
            self.run(self._engine.settle(outcomes))

    def plain(self, count: int, queue: str = QUEUE) -> list[Lease]:
        for start in range(0, count, BATCH):
            self.run(self._engine.enqueue(self.jobs(min(BATCH, count - start), queue=queue)))
        return self.claim(count, queue)

    def members(self, count: int, queue: str = QUEUE) -> list[Lease]:
        """Leases of members of a group, which is in the queue QUEUE."""
        flow = self.group(count, queue)
        shape = Shape(flow=membership(QUEUE, False))
        jobs = [NewJob(queue, member_id(flow, n), PAYLOAD, task="t", shape=shape) for n in range(count)]
        for start in range(0, count, BATCH):
            self.run(self._engine.enqueue(jobs[start : start + BATCH]))
        return self.claim(count, queue)

    def group(self, count: int, *queues: str) -> str:
        id = f"F{next(_IDS)}"
        assert self._engine.flows is not None
        end = Callback(NewJob("end", f"{id}-end", PAYLOAD, task="t"))
        self.run(self._engine.flows.open_flow(NewFlow(QUEUE, id, limits.DAY, on_end=end)))
        self.run(self._engine.flows.grow_flow(QUEUE, id, count, queues))
        self.run(self._engine.flows.seal_flow(QUEUE, id))
        return id

    def settling(self, jobs: int, size: int, queue: str) -> tuple[float, float]:
        """Settle members, and plain jobs."""
        members, plain = self.members(jobs, queue), self.plain(jobs, queue)
        ours, theirs = self.us_of(partial(self.settle, members, size)), self.us_of(partial(self.settle, plain, size))
        return ours / jobs, theirs / jobs

    def living(self, jobs: int, queue: str) -> tuple[float, float]:
        """The whole life of a job: enqueue, claim and settle."""
        ours = self.us_of(lambda: self.settle(self.members(jobs, queue), BATCH))
        return ours / jobs, self.us_of(lambda: self.settle(self.plain(jobs, queue), BATCH)) / jobs

    def following(self, jobs: int) -> tuple[float, float]:
        """Complete jobs, each followed by one of its queue; and complete and enqueue, in two calls."""
        first, second = self.plain(jobs), self.plain(jobs)
        ours = self.us_of(lambda: self.settle(first, 1, self.jobs(jobs)))

        def apart() -> None:
            self.settle(second, 1)
            for job in self.jobs(jobs):
                self.run(self._engine.enqueue([job]))

        theirs = self.us_of(apart)
        self.settle(self.claim(2 * jobs), BATCH)
        return ours / jobs, theirs / jobs

    def large(self, members: int) -> dict[str, float]:
        """The longest scripts, in ms, of a group of so many with results: its last end, and its removal."""
        flow = self.group(members, QUEUE)
        prefix = self._engine.prefix(QUEUE)
        for start in range(0, members - 1, 10_000):
            numbers = range(start, min(start + 10_000, members - 1))
            self._server.command("HSET", f"{prefix}:flow:{flow}:results", *(one for n in numbers for one in (n, n)))
        self._server.command("SET", f"{prefix}:flow:{flow}:ended", b"\xff" * (members // 8))
        self._server.command("SETBIT", f"{prefix}:flow:{flow}:ended", members - 1, 0)
        self._server.command("HSET", f"{prefix}:flow:{flow}", "ended", members - 1, "completed", members - 1)
        shape = Shape(flow=membership(QUEUE, False))
        self.run(self._engine.enqueue([NewJob(QUEUE, member_id(flow, members - 1), PAYLOAD, task="t", shape=shape)]))
        leases = self.claim(1)
        found = {"last end": self.us_of(lambda: self.settle(leases, 1)) / limits.SECOND}
        self._server.command("CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 10_000)
        self._server.command("SLOWLOG", "RESET")
        assert self._engine.flows is not None
        self.run(self._engine.flows.forget_flow(QUEUE, flow))
        slowest = max(int(row[2]) for row in self._server.command("SLOWLOG", "GET", -1))
        found["longest slice of its removal"] = slowest / limits.SECOND
        return found


def enqueueing(url: str, jobs: int) -> tuple[float, float]:
    """The seconds of a group and of `enqueue_many` for so many jobs, from Python."""
    with Tenure(url, namespace=f"bench{next(_IDS)}") as app:
        task: Any = app.task(name="t", queue=QUEUE)(lambda n: None)
        began = time.perf_counter()
        task.enqueue_many(task.call(n) for n in range(jobs))
        middle = time.perf_counter()
        group(task.call(n) for n in range(jobs)).enqueue()
        return time.perf_counter() - middle, middle - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--members", type=int, default=1_000_000)
    given = parser.parse_args()
    with (
        RedisServer(next(iter(available_binaries().values())), aof=False) as server,
        closing(SyncDriver(server.url)) as driver,
    ):
        bench, jobs = Bench(server, driver), given.jobs
        rows: dict[tuple[str, str], Callable[[], tuple[float, float]]] = {
            ("a completion with a job that follows", "a completion and an enqueue"): partial(bench.following, jobs),
            ("settling a member, one a call", "a plain job"): partial(bench.settling, jobs, 1, QUEUE),
            ("settling a member, 100 a call", "a plain job"): partial(bench.settling, jobs, BATCH, QUEUE),
            ("settling one of another queue", "a plain job"): partial(bench.settling, jobs, BATCH, "other"),
            ("a member from enqueue to end", "a plain job"): partial(bench.living, jobs, QUEUE),
            ("enqueueing a member, in Python", "`enqueue_many`"): partial(enqueueing, server.url, jobs),
        }
        sys.stdout.write("| what | beside | µs | µs | ratio |\n|---|---|---|---|---|\n")
        for (what, beside), act in rows.items():
            act()
            pairs = [act() for _ in range(TURNS)]
            ours, theirs = (median(column) for column in zip(*pairs, strict=True))
            ratio = median(one / other for one, other in pairs)
            sys.stdout.write(f"| {what} | {beside} | {ours:.1f} | {theirs:.1f} | {ratio:.2f} |\n")
            sys.stdout.flush()
        for what, ms in bench.large(given.members).items() if given.members else ():
            sys.stdout.write(f"\nA group of {given.members:,}, {what}: {ms:.1f} ms.\n")


if __name__ == "__main__":
    main()
