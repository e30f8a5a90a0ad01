"""The package of npm, 2.2.1, as producer and as worker beside Tenure workers; workers of both kinds are killed."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tenure.testing.server import RedisServer
from tests.support.processes import end

ROOT: Final = Path(__file__).parents[3]
AGENTS: Final = Path(__file__).parent / "agents"
PACKAGES: Final = ("queue-farm@2.2.1", "ioredis@4.31.0")
INSTALL_S: Final = 300.0
LIMIT_S: Final = 90.0
QUEUES, JOBS, KILLS = 20, 20, 4


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Where the original is. Skips the test where there is no Node, or it cannot be installed."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no Node here (node and npm)")
    folder = ROOT / ".bench" / "original-queue-farm"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "node_modules" / "ioredis").exists():
            npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
            run = subprocess.run(npm, capture_output=True, text=True, timeout=INSTALL_S)
            if run.returncode != 0:
                pytest.skip(f"the Node package cannot be installed here: {run.stderr.strip()[-200:]}")
    return folder / "node_modules"


class Fleet:
    """Workers of both kinds, each with a name in the histories."""

    def __init__(self, server: RedisServer, node_modules: Path, stack: ExitStack) -> None:
        self.url = f"redis://127.0.0.1:{server.port}/0"
        self._env = os.environ | {"NODE_PATH": str(node_modules), "PYTHONPATH": str(AGENTS), "TENURE_URL": self.url}
        self._stack = stack
        self._count = 0
        self.killed: set[str] = set()
        self.workers: dict[str, tuple[str, subprocess.Popen[str]]] = {}

    def _run(self, *command: str, name: str = "") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            env=self._env | {"HISTORY_NAME": name},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(end, process)
        return process

    def produce(self) -> subprocess.Popen[str]:
        return self._run("node", str(AGENTS / "producer.js"), self.url, str(QUEUES), str(JOBS))

    def start(self, kind: str) -> None:
        self._count += 1
        name = str(self._count)
        if kind == "node":
            process = self._run("node", str(AGENTS / "worker.js"), self.url, f"node-{name}")
        else:
            command = (sys.executable, "-m", "tenure", "worker", "jobs:app", "-c", "4")
            process = self._run(*command, name=name)
        self.workers[f"{kind}-{name}"] = kind, process

    def kill_one(self, chance: random.Random) -> None:
        """And start another in its place."""
        name = chance.choice(sorted(self.workers))
        kind, process = self.workers.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.killed.add(name)
        self.start(kind)


@pytest.fixture
def fleet(server: RedisServer, node_modules: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(server, node_modules, stack)


def faults_of(history: Iterable[str], killed: set[str]) -> list[str]:
    """What is out of order in the history of one queue: lines of `start|end|fail <number> <worker>`."""
    faults: list[str] = []
    ended: set[int] = set()
    running: dict[int, str] = {}
    for line in history:
        what, text, worker = line.split()
        n = int(text)
        if what == "start":
            beside = {other for other in running.values() if other != worker and other not in killed}
            if beside:
                faults.append(f"{line}: beside {beside}")
            running = {m: other for m, other in running.items() if other == worker and m != n}
            before = set(range(n)) - ended - set(running)
            if before:
                faults.append(f"{line}: before {sorted(before)}")
            running[n] = worker
        elif running.pop(n, None) != worker:
            faults.append(f"{line}: not started")
        elif what == "end":
            ended.add(n)
    return faults + [f"{n}: never ended" for n in range(JOBS) if n not in ended]


def test_the_checker_finds_what_is_out_of_order() -> None:
    good = [line for n in range(JOBS) for line in (f"start {n} a", f"end {n} a")]
    assert faults_of(good, set()) == []
    assert faults_of(["start 0 a", *good], {"a"}) == []
    assert faults_of(["start 0 b", *good], set()), "two at one time"
    assert faults_of(["start 1 b", "end 1 b", *good], set()), "the second before the first"
    assert faults_of(good[:-1], set()), "one is missing"


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("node", "tenure"), ("tenure", "tenure")], ids="-".join)
def test_every_queue_runs_in_order_while_workers_are_killed(
    server: RedisServer, fleet: Fleet, kinds: tuple[str, str]
) -> None:
    chance = random.Random(18)
    for kind in kinds:
        fleet.start(kind)
    producer = fleet.produce()
    until = time.monotonic() + LIMIT_S
    while producer.poll() is None or server.command("SCARD", "queue-farm:active"):
        assert time.monotonic() < until, "the queues were not drained in time"
        done = sum(server.command("LLEN", f"history:user:{n}") for n in range(QUEUES))
        if len(fleet.killed) < KILLS and done > (len(fleet.killed) + 1) * QUEUES * JOBS // 3:
            fleet.kill_one(chance)
        time.sleep(0.02)
    assert producer.returncode == 0
    assert fleet.killed
    for n in range(QUEUES):
        history = [line.decode() for line in server.command("LRANGE", f"history:user:{n}", 0, -1)]
        assert faults_of(history, fleet.killed) == [], f"queue {n}, killed: {fleet.killed}"
    assert server.command("HLEN", "queue-farm:tenure:kept") == 0
