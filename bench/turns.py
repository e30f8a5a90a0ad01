"""Compare two checkouts of Leasehold in turns: processor time of the worker process and of Redis for a job that does
nothing, and jobs a second.

    python -m bench.turns ../main . [--kind plain|sleep|dict|sync] [--jobs 50000] [--rounds 7] [--python PYTHON]
                          [--worker "--loop uvloop"]

Each turn fills a queue with one checkout and drains it with one worker process of the same checkout. The worker process
measures itself, from its first job to its last. A turn counts only if each job ran once and was settled once. Prints a
row for each measure: the medians, and the median of the second checkout divided by that of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from subprocess import PIPE
from typing import Final

from leasehold.redis.embedded.binary import find_server
from leasehold.testing.server import RedisServer

DRAIN_S: Final = 300.0
KINDS: Final = ("plain", "sleep", "dict", "sync")
ROWS: Final = {"worker_us": "worker, µs a job", "redis_us": "Redis, µs a job", "rate": "jobs a second"}


def turn(server: RedisServer, tree: Path, asked: argparse.Namespace) -> dict[str, float]:
    """Fill and drain once. Raises `AssertionError` if a job did not run once."""
    server.command("FLUSHALL")
    with tempfile.TemporaryDirectory(prefix="turns-") as folder:
        report = Path(folder, "report.json")
        environment = os.environ | {
            "PYTHONPATH": f"{tree.resolve() / 'src'}{os.pathsep}{Path(__file__).parent}",
            "TURNS_URL": server.url,
            "TURNS_JOBS": str(asked.jobs),
            "TURNS_REPORT": str(report),
        }

        def run(*words: str) -> bytes:
            command = [asked.python, "-m", *words]
            return subprocess.run(command, env=environment, cwd=folder, timeout=DRAIN_S, check=True, stdout=PIPE).stdout

        run("turns_app", asked.kind)
        run("leasehold", "worker", "turns_app:app", "--burst", "--log-level", "error", *shlex.split(asked.worker))
        found: dict[str, float] = json.loads(report.read_text())
        completed, left = json.loads(run("turns_app", "check"))
    assert (found.pop("ran_once"), completed, left) == (asked.jobs, asked.jobs, 0), "a job did not run exactly once"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.turns", description=__doc__)
    parser.add_argument("trees", type=Path, nargs=2, metavar="CHECKOUT")
    parser.add_argument("--kind", choices=KINDS, default="plain")
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--python", default=sys.executable, help="for the checkouts; this one by default")
    parser.add_argument("--slots", type=int, default=100, help="--concurrency of both workers")
    parser.add_argument("--worker", default="", help="more options of the worker of the second checkout")
    asked = parser.parse_args()
    slots = f"-c {asked.slots} "
    options = (slots, slots + asked.worker)
    found: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    with RedisServer(find_server(), aof=False) as server:
        for number in range(asked.rounds):
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                asked.worker = options[which]
                found[which].append(turn(server, asked.trees[which], asked))
                sys.stderr.write(f"{number} {asked.trees[which]}: {found[which][-1]}\n")
    sys.stdout.write("| | first | second | second / first |\n|---|---|---|---|\n")
    for key, title in ROWS.items():
        first, second = (median(one[key] for one in side) for side in found)
        sys.stdout.write(f"| {title} | {first:,.2f} | {second:,.2f} | {second / first:.3f} |\n")


if __name__ == "__main__":
    main()
