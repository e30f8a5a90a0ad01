"""How long a job waits when a hundred idle workers could take it, beside one: one of them is to be woken, not all."""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.environments import CACHE, known_pins
from bench.roster import adapters
from bench.speed.gauges import fields, info, read
from bench.speed.latency import idle, latency
from bench.speed.results import Machine, percentile, this_machine
from bench.speed.rounds import told
from bench.speed.stage import Failed, Stage, staged
from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer

SIZES: Final = (1, 100)
QUICK_SIZES: Final = (1, 5)
ROUNDS: Final = 3
PINGS: Final = 340
"""With three rounds, a p99 of more than 1,000 jobs."""
READY_S: Final = 600.0
AT_ONCE: Final = 8
"""Workers that are started at one time: the start of one takes a second of processor time."""
REST_S: Final = 15.0
"""An idle worker is at rest ten seconds after its start."""
IDLE_S: Final = 30.0
QUICK_IDLE_S: Final = 3.0


@dataclass(frozen=True)
class Crowded:
    """In milliseconds: the median of the rounds, and the p99 of all jobs. `commands`: what Redis did for a job, with
    the commands of idle workers. `sent`, `cpu`, `memory`: what all workers send in a second without jobs, their share
    of a core in percent, and their memory in MB; None in results from before these were measured."""

    workers: int
    p50: float
    p99: float
    commands: float
    sent: float | None = None
    cpu: float | None = None
    memory: float | None = None


@dataclass(frozen=True)
class CrowdFound:
    machine: Machine
    sizes: tuple[Crowded, ...]


def measure(quick: bool = False, name_of_run: str = "", cache: Path = CACHE) -> CrowdFound:
    (adapter,) = adapters(["tenure"], known_pins(), cache, name_of_run)
    found = []
    with RedisServer(find_server(), aof=False, tcp=True, args=["--maxclients", "10000"]) as server:
        for size in QUICK_SIZES if quick else SIZES:
            with staged(adapter, server, "async") as stage:
                names = start(stage, size)
                time.sleep(REST_S)
                rest, _ = idle(stage, names, QUICK_IDLE_S if quick else IDLE_S)
                found.append(
                    replace(
                        wait_times(stage, size, quick),
                        sent=rest["idle_commands"],
                        cpu=rest["idle_cpu"],
                        memory=rest["worker_total"],
                    )
                )
                told(f"crowd: {found[-1]}")
        return CrowdFound(this_machine(fields(info(server, "server"))["redis_version"]), tuple(found))


def start(stage: Stage, size: int) -> list[str]:
    """So many idle workers: each of them waits in a blocking command. Their names."""
    until, names = time.monotonic() + READY_S, []
    for number in range(size):
        names.append(stage.workers.start())
        while blocked(stage) < min(number + 2 - AT_ONCE, size) or (number == size - 1 and blocked(stage) < size):
            if time.monotonic() > until:
                raise Failed(f"of {size} workers {blocked(stage)} were ready after {READY_S:g} s")
            time.sleep(0.1)
    return names


def blocked(stage: Stage) -> int:
    return int(fields(info(stage.server, "clients"))["blocked_clients"])


def wait_times(stage: Stage, size: int, quick: bool) -> Crowded:
    rounds, pings = (1, 20) if quick else (ROUNDS, PINGS)
    before = read(stage.server).commands
    found = [latency(stage, "async", pings) for _ in range(rounds)]
    commands = (read(stage.server).commands - before) / (rounds * pings)
    p50 = statistics.median(percentile(waits, 0.5) for waits in found)
    return Crowded(size, p50, percentile(itertools.chain(*found), 0.99), commands)


def table(found: CrowdFound) -> str:
    one = found.sizes[0]
    lines = [
        "| idle workers | p50, to one worker | p99, to one worker | p50 (ms) | p99 (ms) | commands a job | "
        "at rest: commands a second | % of a core | MB |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {size.workers} | {size.p50 / one.p50:.2f} | {size.p99 / one.p99:.2f} | {size.p50:.2f} | {size.p99:.2f} | "
        f"{size.commands:.1f} | {shown(size.sent)} | {shown(size.cpu)} | {shown(size.memory)} |"
        for size in found.sizes
    ]
    return "\n".join(lines)


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
