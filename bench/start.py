"""How fast programs start, in turns with another checkout of Tenure: an app, one enqueue, an empty burst, a first job.

    python -m bench.start ../main . [--rounds 15]

Prints for each the median of the processor time of all its processes and of the time by the wall in both checkouts, and
the second divided by the first. On a busy machine, only the processor time means something.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer

ROUNDS: Final = 15
LIMIT_S: Final = 60.0
LOOK_S: Final = 0.002
APP: Final = """
import os, time
from tenure import Tenure
app = Tenure(os.environ["START_URL"])
@app.task(queue="start")
def mark() -> None:
    with open("mark.tmp", "w") as file:
        file.write(repr(time.time()))
    os.replace("mark.tmp", "mark")
"""
ENQUEUE: Final = ("-c", "from start_app import mark; mark.enqueue()")
WORKER: Final = ("-m", "tenure", "worker", "start_app:app", "--log-level", "error")


class Start:
    """Starts programs of one checkout."""

    def __init__(self, server: RedisServer, folder: str) -> None:
        self.server = server
        self.folder = folder
        self.environment: dict[str, str] = {}

    def use(self, tree: Path) -> None:
        self.environment = os.environ | {"PYTHONPATH": str(tree.resolve() / "src"), "START_URL": self.server.url}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.server.command("FLUSHALL")

    def run(self, *words: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, *words], env=self.environment, cwd=self.folder, check=True, timeout=LIMIT_S)
        return time.perf_counter() - began

    def app(self) -> float:
        return self.run("-c", "import tenure; tenure.Tenure('redis://127.0.0.1:1')")

    def enqueue(self) -> float:
        return self.run(*ENQUEUE)

    def burst(self) -> float:
        return self.run(*WORKER, "--burst")

    def first_job(self) -> float:
        """From the start of the command to the start of a job that waits."""
        mark = Path(self.folder, "mark")
        mark.unlink(missing_ok=True)
        began = time.time()
        words = [sys.executable, *WORKER]
        with subprocess.Popen(words, env=self.environment, cwd=self.folder) as worker:
            while not mark.exists() and time.time() - began < LIMIT_S:
                time.sleep(LOOK_S)
            worker.send_signal(signal.SIGTERM)
        return float(mark.read_text()) - began


def measured(act: Callable[[], float]) -> tuple[float, float]:
    """Processor time and time by the wall, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall_s = act()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent_s * 1e3, wall_s * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.add_argument("trees", type=Path, nargs=2, metavar="CHECKOUT")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    sys.stdout.write("| | processor, ms | | ratio | wall, ms | | ratio |\n|---|---|---|---|---|---|---|\n")
    with tempfile.TemporaryDirectory(prefix="start-") as folder, RedisServer(find_server(), aof=False) as server:
        Path(folder, "start_app.py").write_text(APP)
        start = Start(server, folder)
        for title, act in (
            ("an app is made", start.app),
            ("one job is enqueued", start.enqueue),
            ("an empty burst", start.burst),
            ("the first job starts", start.first_job),
        ):
            found: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
            for number in range(asked.rounds + 1):
                for which in (0, 1) if number % 2 else (1, 0):
                    start.use(asked.trees[which])
                    if act == start.first_job:
                        start.enqueue()
                    one = measured(act)
                    if number:  # the first compiles what is not compiled, and reads it from the disk
                        found[which].append(one)
            row = [title]
            for kind in (0, 1):
                first, second = (median(one[kind] for one in side) for side in found)
                row += [f"{first:.0f}", f"{second:.0f}", f"{second / first:.2f}"]
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
