"""Measure the drop-in beside the Python package redis-work-queue: an add, a lease and a complete, alone and as a loop.

    python -m bench.dropin [--rounds N] [--items N] [--held N]

Both sides make the same calls, in turns within one run, so that only the ratios count: the medians of the rounds.
Prints a table in Markdown: commands, inside of scripts too; the time that Redis spends in commands, and its processor
time with its network; processor time of the client; and the time of a call. `--held`: how many other items
are leased meanwhile.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import redis

from bench.speed.proc import spent_s, threads_ns
from tenure.compat import redis_work_queue as dropin
from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer

FOLDER: Final = Path(__file__).parents[1] / ".bench" / "original-redis-work-queue"
PACKAGE: Final = "redis-work-queue==0.1.5"
INSTALL_S: Final = 300
PREFIX: Final = "bench"
LEASE_S: Final = 60
HELD_S: Final = 3_600
BATCH: Final = 25
"""Items that are leased at one time. The original looks at all of them for each complete."""
DATA: Final = {"to": "user@example.org", "subject": "hello", "n": 12345}
CALLS: Final = ("add", "lease", "complete")
_SCRIPTS: Final = ("evalsha", "eval")
_MICROSECOND: Final = 1e6


@dataclass(frozen=True)
class Cost:
    """What one call cost, in microseconds but for `commands`."""

    commands: float
    in_commands: float
    server: float
    client: float
    call: float

    @classmethod
    def median(cls, costs: list[Cost]) -> Cost:
        """The medians of the rounds."""
        return cls(*(statistics.median(getattr(one, name) for one in costs) for name in cls.__dataclass_fields__))


class Meter:
    """Adds up what calls of each kind cost."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._spent: dict[str, list[float]] = {}

    @contextmanager
    def measure(self, kind: str, calls: int) -> Iterator[None]:
        """Count what happens meanwhile as this many calls of a kind."""
        self._server.command("CONFIG", "RESETSTAT")
        pid = (self._server.pid,)
        before, cpu, began = threads_ns(pid), time.process_time(), time.perf_counter()
        yield
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        server = spent_s(before, threads_ns(pid))
        commands, micros = self._commands()
        total = self._spent.setdefault(kind, [0.0] * 6)
        for n, more in enumerate((calls, commands, micros, server * _MICROSECOND, cpu * _MICROSECOND)):
            total[n] += more
        total[5] += wall * _MICROSECOND

    def costs(self) -> dict[str, Cost]:
        """Return the costs of one call of each kind."""
        return {kind: Cost(*(part / total[0] for part in total[1:])) for kind, total in self._spent.items()}

    def _commands(self) -> tuple[int, float]:
        """How many commands there were, and their time; that of a script has the time of its commands."""
        found = re.findall(
            r"cmdstat_(\S+):calls=(\d+),usec=(\d+)", self._server.command("INFO", "commandstats").decode()
        )
        stats = {
            name: (int(calls), int(usec)) for name, calls, usec in found if not name.startswith(("config", "info"))
        }
        in_scripts = any(name in stats for name in _SCRIPTS)
        times = [usec for name, (_, usec) in stats.items() if not in_scripts or name in _SCRIPTS]
        return sum(calls for calls, _ in stats.values()), sum(times)


def original() -> ModuleType:
    """The original package. It runs beside our redis client."""
    if not (FOLDER / "redis_work_queue").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        subprocess.run([*pip, "--no-deps", "--target", str(FOLDER), PACKAGE], check=True, timeout=INSTALL_S)
    sys.path.append(str(FOLDER))
    import redis_work_queue  # type: ignore[import-not-found]

    package: ModuleType = redis_work_queue
    return package


def walk(api: Any, db: redis.Redis, meter: Meter, items: int, held: int) -> None:
    """Add items, and lease and complete them: each call alone, in batches, and then as the loop of a program."""
    queue = api.WorkQueue(api.KeyPrefix(PREFIX))
    for _ in range(held):
        queue.add_item(db, api.Item.from_json_data(DATA))
        queue.lease(db, HELD_S)
    new = [api.Item.from_json_data(DATA) for _ in range(items)]
    with meter.measure("add", items):
        for item in new:
            queue.add_item(db, item)
    for _ in range(items // BATCH):
        with meter.measure("lease", BATCH):
            leased = [queue.lease(db, LEASE_S, True, 1) for _ in range(BATCH)]
        with meter.measure("complete", BATCH):
            for item in leased:
                assert queue.complete(db, item)
    with meter.measure("all three", items):
        for _ in range(items):
            queue.add_item(db, api.Item.from_json_data(DATA))
            assert queue.complete(db, queue.lease(db, LEASE_S, True, 1))


def rounds(
    server: RedisServer, db: redis.Redis, sides: dict[str, ModuleType], options: argparse.Namespace
) -> dict[str, dict[str, Cost]]:
    """Measure the sides in turns; each begins as often as the other."""
    found: dict[str, list[dict[str, Cost]]] = {side: [] for side in sides}
    for turn in range(options.rounds + 1):
        for side in list(sides)[:: 1 if turn % 2 else -1]:
            server.command("FLUSHALL")
            meter = Meter(server)
            walk(sides[side], db, meter, options.items, options.held)
            if turn:  # the first warms up
                found[side].append(meter.costs())
    return {
        side: {kind: Cost.median([one[kind] for one in costs]) for kind in costs[0]} for side, costs in found.items()
    }


COLUMNS: Final[dict[str, Callable[[Cost], float]]] = {
    "commands": lambda cost: cost.commands,
    "µs in commands": lambda cost: cost.in_commands,
    "µs of Redis": lambda cost: cost.server,
    "µs of the client": lambda cost: cost.client,
    "µs of a call": lambda cost: cost.call,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--items", type=int, default=250)
    parser.add_argument("--held", type=int, default=0)
    options = parser.parse_args()
    with RedisServer(find_server(), aof=False) as server:
        db = redis.Redis(unix_socket_path=server.url.removeprefix("unix://"))
        costs = rounds(server, db, {"original": original(), "drop-in": dropin}, options)
        db.close()
    sys.stdout.write(f"| call | side | {' | '.join(COLUMNS)} |\n|{'---|' * (2 + len(COLUMNS))}\n")
    for kind in (*CALLS, "all three"):
        ours, theirs = costs["drop-in"][kind], costs["original"][kind]
        for side, cost in (("original", theirs), ("drop-in", ours)):
            cells = (f"{column(cost):.1f}" for column in COLUMNS.values())
            sys.stdout.write(f"| {kind} | {side} | {' | '.join(cells)} |\n")
        ratios = (f"{column(ours) / column(theirs):.2f}" for column in COLUMNS.values())
        sys.stdout.write(f"| {kind} | ratio | {' | '.join(ratios)} |\n")


if __name__ == "__main__":
    main()
