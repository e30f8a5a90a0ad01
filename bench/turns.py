"""Compare two checkouts of Tenure in turns: processor time of the worker process and of Redis for a job that does
nothing, and jobs a second.

    python -m bench.turns ../main . [--kind plain|sleep|dict|sync|ping] [--jobs 50000] [--rounds 7]
                          [--python PYTHON] [--worker "--loop uvloop"]

Each turn fills a queue with one checkout and drains it with one worker process of the same checkout. The worker process
measures itself, from its first job to its last. A turn counts only if each job ran once and was settled once. Prints a
row for each measure: the medians, and the median of the second checkout divided by that of the first.

With `--kind ping` the worker is idle and gets its jobs one at a time, 30 ms apart. All its processes are measured, and
how long each job waited for its start: the percentiles are those of the jobs of all turns. `--workers 100` starts as
many worker processes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from subprocess import PIPE
from typing import Final
from uuid import uuid4

from bench.processes import members_of
from bench.speed.proc import spent_s, threads_ns
from bench.speed.results import percentile
from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer

DRAIN_S: Final = 300.0
PING: Final = "ping"
KINDS: Final = ("plain", "sleep", "dict", "sync", PING)
JOBS: Final = 50_000
PINGS: Final = 250
ROWS: Final = {"worker_us": "worker, µs a job", "redis_us": "Redis, µs a job", "rate": "jobs a second"}
PERCENTILES: Final = {"p50, ms": 0.5, "p99, ms": 0.99}


def environment_of(server: RedisServer, tree: Path, asked: argparse.Namespace, report: Path) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": f"{tree.resolve() / 'src'}{os.pathsep}{Path(__file__).parent}",
        "TURNS_URL": server.url,
        "TURNS_JOBS": str(asked.jobs),
        "TURNS_REPORT": str(report),
        "TURNS_WORKERS": str(asked.workers),
    }


def turn(server: RedisServer, tree: Path, asked: argparse.Namespace) -> dict[str, float]:
    """Fill and drain once. Raises `AssertionError` if a job did not run once."""
    server.command("FLUSHALL")
    with tempfile.TemporaryDirectory(prefix="turns-") as folder:
        report = Path(folder, "report.json")
        environment = environment_of(server, tree, asked, report)

        def run(*words: str) -> bytes:
            command = [asked.python, "-m", *words]
            return subprocess.run(command, env=environment, cwd=folder, timeout=DRAIN_S, check=True, stdout=PIPE).stdout

        run("turns_app", asked.kind)
        run("tenure", "worker", "turns_app:app", "--burst", "--log-level", "error", *shlex.split(asked.worker))
        found: dict[str, float] = json.loads(report.read_text())
        completed, left = json.loads(run("turns_app", "check"))
    assert (found.pop("ran_once"), completed, left) == (asked.jobs, asked.jobs, 0), "a job did not run exactly once"
    return found


def pinged(server: RedisServer, tree: Path, asked: argparse.Namespace) -> tuple[dict[str, float], list[float]]:
    """Run jobs one at a time. What one cost, and how long each waited, in ms."""
    server.command("FLUSHALL")
    with tempfile.TemporaryDirectory(prefix="turns-") as folder:
        report, name = Path(folder, "report"), f"w{uuid4().hex}"
        environment = environment_of(server, tree, asked, report)
        words = ["worker", "turns_app:app", "--log-level", "error", "--processes", str(asked.workers)]
        words += shlex.split(asked.worker)
        command, own = [asked.python, "-m", "tenure", *words], environment | {"BENCH_WORKER": name}
        with subprocess.Popen(command, env=own, cwd=folder) as worker:
            try:
                pinger = [asked.python, "-m", "turns_app", PING]
                with subprocess.Popen(pinger, env=environment, cwd=folder, stdin=PIPE, stdout=PIPE) as pings:
                    assert pings.stdin is not None
                    assert pings.stdout is not None
                    pings.stdout.readline()  # the workers are warm
                    before, redis_before = threads_ns(members_of(name)), redis_s(server)
                    pings.stdin.write(b"go\n")
                    pings.stdin.flush()
                    waits: list[float] = json.loads(pings.stdout.readline())
                    worker_s = spent_s(before, threads_ns(members_of(name)))
                    found = {"worker_us": worker_s, "redis_us": redis_s(server) - redis_before}
            finally:
                worker.terminate()
    return {key: seconds / asked.jobs * 1e6 for key, seconds in found.items()}, waits


def redis_s(server: RedisServer) -> float:
    """Processor time of Redis so far."""
    spent = re.findall(r"used_cpu_(?:user|sys):([\d.]+)", server.command("INFO", "cpu").decode())
    return sum(map(float, spent))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.turns", description=__doc__)
    parser.add_argument("trees", type=Path, nargs=2, metavar="CHECKOUT")
    parser.add_argument("--kind", choices=KINDS, default="plain")
    parser.add_argument("--jobs", type=int, help=f"{JOBS:,} by default, {PINGS} with --kind {PING}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--python", default=sys.executable, help="for the checkouts; this one by default")
    parser.add_argument("--slots", type=int, default=100, help="--concurrency of both workers")
    parser.add_argument("--workers", type=int, default=1, help=f"worker processes of a turn, with --kind {PING}")
    parser.add_argument("--worker", default="", help="more options of the worker of the second checkout")
    asked = parser.parse_args()
    asked.jobs = asked.jobs or (PINGS if asked.kind == PING else JOBS)
    slots = f"-c {asked.slots} "
    options = (slots, slots + asked.worker)
    found: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    waits: tuple[list[float], list[float]] = ([], [])
    with RedisServer(find_server(), aof=False) as server:
        for number in range(asked.rounds):
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                asked.worker = options[which]
                if asked.kind == PING:
                    one, waited = pinged(server, asked.trees[which], asked)
                    waits[which].extend(waited)
                else:
                    one = turn(server, asked.trees[which], asked)
                found[which].append(one)
                sys.stderr.write(f"{number} {asked.trees[which]}: {found[which][-1]}\n")
    sys.stdout.write("| | first | second | second / first |\n|---|---|---|---|\n")
    rows = {
        title: [median(one[key] for one in side) for side in found] for key, title in ROWS.items() if key in found[0][0]
    }
    if asked.kind == PING:
        rows |= {title: [percentile(side, part) for side in waits] for title, part in PERCENTILES.items()}
    for title, (first, second) in rows.items():
        sys.stdout.write(f"| {title} | {first:,.2f} | {second:,.2f} | {second / first:.3f} |\n")


if __name__ == "__main__":
    main()
