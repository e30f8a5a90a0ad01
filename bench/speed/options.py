"""What an option of a job costs: its enqueue and its run, beside those of a plain job."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.environments import CACHE, known_pins
from bench.roster import FAST, adapters
from bench.speed import drain, enqueue
from bench.speed.gauges import fields, info
from bench.speed.results import Machine, this_machine
from bench.speed.rounds import told
from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer

PLAIN: Final = "plain"
TITLES: Final = {
    PLAIN: "no option",
    "expires": "a deadline",
    "priority": "a priority",
    "unique": "a unique key of its own",
    "lane": "a lane of its own",
    "limit": "a concurrency limit with room",
}
ROUNDS: Final = 3
ALONE: Final = 2_000
DRAINED: Final = 20_000


@dataclass(frozen=True)
class Optioned:
    """Of one round. `enqueue_us`, `drain_us`: processor time of Redis for a job, enqueued alone and drained."""

    option: str
    enqueue_us: float
    drain_us: float
    rate: float


@dataclass(frozen=True)
class OptionsFound:
    machine: Machine
    rounds: tuple[Optioned, ...]

    def ratio(self, option: str, figure: str) -> float:
        """The median of an option, to the median of plain jobs."""
        return self._median(option, figure) / self._median(PLAIN, figure)

    def _median(self, option: str, figure: str) -> float:
        values: list[float] = [getattr(one, figure) for one in self.rounds if one.option == option]
        return statistics.median(values)


def measure(quick: bool = False, name_of_run: str = "", cache: Path = CACHE) -> OptionsFound:
    """Drain jobs with each option in turns."""
    (adapter,) = adapters(["tenure"], known_pins(), cache, name_of_run)
    facts, found = adapter.facts(), []
    alone, drained = (200, 500) if quick else (ALONE, DRAINED)
    with RedisServer(find_server(), aof=False, tcp=True) as server:
        for _ in range(1 if quick else ROUNDS):
            for option in TITLES:
                with_it = replace(adapter, fast=FAST if option == PLAIN else f"{FAST}-{option}")
                put = enqueue.one_by_one(with_it, facts, server, alone)
                ran = drain.drain(with_it, facts, server, "async", drained)
                found.append(Optioned(option, put["server_enqueue"], ran["server_drain"], ran["drain_async"]))
                told(f"options: {found[-1]}")
        return OptionsFound(this_machine(fields(info(server, "server"))["redis_version"]), tuple(found))


def table(found: OptionsFound) -> str:
    """Write one row for each option that was measured."""
    measured = {one.option for one in found.rounds}
    lines = [
        "| a job with | Redis: enqueue | Redis: run | jobs a second |",
        "|---|---:|---:|---:|",
    ]
    for option, title in ((name, title) for name, title in TITLES.items() if name in measured):
        costs = [found.ratio(option, figure) for figure in ("enqueue_us", "drain_us", "rate")]
        lines.append(f"| {title} | {costs[0]:.2f} | {costs[1]:.2f} | {costs[2]:.2f} |")
    return "\n".join(lines)
