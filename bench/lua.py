"""What the scripts of the native engine cost Redis: microseconds and commands of each call, beside another checkout.

    python -m bench.lua [--beside PATH] [--turns 15] [--server /usr/bin/redis-server]

The checkouts are measured in turns on one server, each turn in a process of its own. What else runs on the machine
changes the speed of everything, so each measurement is divided by that of a fixed script just before it (REFERENCE):
the median of these ratios counts, times the least that the fixed script took. `--beside`: the folder of another
checkout, as `git worktree add` makes it. A turn prints JSON; the table is Markdown.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

import redis

from bench.speed.gauges import OWN
from tenure.core import limits
from tenure.core.job import Lease, NewJob
from tenure.core.outcome import Completed
from tenure.core.shape import PLAIN, Shape
from tenure.core.steps import Draw, Invoke, Nonce, Reply, Steps
from tenure.engines.native import NativeEngine
from tenure.redis.embedded.binary import find_server

ROOT: Final = Path(__file__).resolve().parents[1]
QUEUE: Final = "bench"
PAYLOAD: Final = b"x" * 100
CALLS: Final = 400
BATCH: Final = 100
WINDOWS: Final = 20
REFERENCE: Final = "local t = {}\n" + "".join(
    f"local function f{n}(a) return a .. KEYS[1] end\n"
    f"t[{n}] = redis.call('HGET', f{n}('{n}'), string.match(KEYS[1], '^(%w+)'))\n"
    for n in range(20)
)
"""A script that does some of everything."""
REFERENCES: Final = 50
_IDS = itertools.count()
T = TypeVar("T")


class Turn:
    """One checkout on the server."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis(unix_socket_path=url.removeprefix("unix://"))
        self._engine = NativeEngine("bench")
        self._numbers = itertools.count(1)
        self._leases: list[Sequence[Lease]] = []
        self._reference = self._client.script_load(REFERENCE)
        self._fastest = math.inf
        for script in self._engine.scripts.values():
            self._client.script_load(script.text)

    def run(self, operations: Sequence[Steps[T]]) -> list[T]:
        """Make the calls of these operations together, so that Redis does nothing else between two of them."""
        results: dict[int, T] = {}
        waiting = [(n, steps, None) for n, steps in enumerate(operations)]
        while waiting:
            calls = [
                (n, steps, call) for n, steps, reply in waiting if (call := self.call_of(n, steps, reply, results))
            ]
            with self._client.pipeline(transaction=False) as pipe:
                for _, _, call in calls:
                    pipe.evalsha(call.script.sha, len(call.keys), *call.keys, *call.args)
                replies = pipe.execute()
            waiting = [(n, steps, reply) for (n, steps, _), reply in zip(calls, replies, strict=True)]
        return [results[n] for n in range(len(operations))]

    def call_of(self, n: int, steps: Steps[T], reply: Reply, results: dict[int, T]) -> Invoke | None:
        """The next call of an operation; None when it has ended: then its answer is in `results`."""
        try:
            asked = steps.send(reply)
            while isinstance(asked, Draw):
                asked = steps.send(Nonce("session", next(self._numbers)))
        except StopIteration as end:
            results[n] = end.value
            return None
        assert isinstance(asked, Invoke)
        return asked

    def enqueue(self, calls: int, count: int, lanes: bool = False) -> None:
        def job(n: int) -> NewJob:
            return NewJob(QUEUE, f"{n:032x}", PAYLOAD, task="t", shape=Shape(lane=f"lane-{n}") if lanes else PLAIN)

        self.run([self._engine.enqueue([job(n) for n in itertools.islice(_IDS, count)]) for _ in range(calls)])

    def claim(self, calls: int, count: int) -> None:
        # One worker holds a limited number of jobs.
        first = len(self._leases)
        workers = [f"worker-{(first + n) * count // limits.MAX_HELD}" for n in range(calls)]
        found = self.run([self._engine.lease(worker, (QUEUE,), count, slots=count) for worker in workers])
        self._leases += [leased.leases for leased in found if leased.leases]

    def settle(self, calls: int) -> None:
        ends = [[(lease, Completed(b"null", 3_600_000)) for lease in self._leases.pop()] for _ in range(calls)]
        self.run([self._engine.settle(end) for end in ends])

    def sections(self) -> Iterator[tuple[str, int, Callable[[int], None]]]:
        """Name, how many calls are measured, and what makes so many calls."""
        yield "claim, empty", CALLS, lambda calls: self.claim(calls, 1)
        for count, calls in ((1, CALLS), (BATCH, CALLS // 20)):
            for lanes, name in ((False, ""), (True, ", lanes")):
                yield f"enqueue {count}{name}", calls, partial(self.enqueue, count=count, lanes=lanes)
                yield f"claim {count}{name}", calls, partial(self.claim, count=count)
                yield f"settle {count}{name}", calls, self.settle
        yield "one job, enqueue to end", CALLS, self.lives

    def lives(self, calls: int) -> None:
        for _ in range(calls):
            self.enqueue(1, 1)
            self.claim(1, 1)
            self.settle(1)

    def measure(self) -> dict[str, list[float]]:
        self._client.flushall()
        self.lives(1)
        found: dict[str, list[float]] = {}
        for name, calls, run in self.sections():
            self._engine = NativeEngine("bench")  # an engine remembers that a queue had more than plain jobs
            ratios, commands = zip(*self.windows(calls, run), strict=True)
            found[name] = [median(ratios), min(commands)]
        return {"": [self._fastest], **found}

    def windows(self, calls: int, run: Callable[[int], None]) -> Iterator[tuple[float, float]]:
        """What a call takes, as a part of what the reference takes, and its commands, in each of some short times."""
        for _ in range(WINDOWS):
            reference, _ = self.stats(REFERENCES, self.refer)
            self._fastest = min(self._fastest, reference)
            us, commands = self.stats(calls // WINDOWS, run)
            yield us / reference, commands

    def refer(self, calls: int) -> None:
        with self._client.pipeline(transaction=False) as pipe:
            for _ in range(calls):
                pipe.evalsha(self._reference, 1, "bench")
            pipe.execute()

    def stats(self, calls: int, run: Callable[[int], None]) -> tuple[float, float]:
        """The microseconds of each call, and the commands that it and its client sent."""
        self._client.config_resetstat()
        run(calls)
        stats = self._client.info("commandstats")
        sent = sum(row["calls"] for name, row in stats.items() if name[8:] not in OWN)
        return stats["cmdstat_evalsha"]["usec"] / calls, sent / calls


def turn(url: str) -> None:
    """Measure this checkout once."""
    sys.stdout.write(json.dumps(Turn(url).measure()))


def measured(tree: Path, url: str, turns: dict[str, list[list[float]]]) -> None:
    """One turn of a checkout, in a process of its own."""
    command = [sys.executable, __file__, "--turn", url]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": f"{tree / 'src'}:{ROOT}"}, check=True, capture_output=True
    )
    for name, row in json.loads(done.stdout).items():
        turns.setdefault(name, []).append(row)


def table(here: dict[str, list[list[float]]], there: dict[str, list[list[float]]]) -> str:
    fastest = min(row[0] for rows in (here, there) for row in rows.get("", []))
    lines = ["| call | µs | other | ratio | commands | other |", "|---|---|---|---|---|---|"]
    for name, rows in here.items():
        if not name:
            continue
        us, commands = (median(column) for column in zip(*rows, strict=True))
        cells = [name, f"{us * fastest:.1f}", "", "", f"{commands:.1f}", ""]
        if there:
            other, others = (median(column) for column in zip(*there[name], strict=True))
            cells[2], cells[3], cells[5] = f"{other * fastest:.1f}", f"{us / other:.2f}", f"{others:.1f}"
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.lua", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--beside", type=Path, help="the folder of another checkout")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--server", default="", help="the server program [default: the first that is found]")
    parser.add_argument("--turn", metavar="URL", help="measure once on this server, as JSON")
    options = parser.parse_args()
    if options.turn:
        return turn(options.turn)
    from tenure.testing.server import RedisServer  # a turn needs no server of its own

    here: dict[str, list[list[float]]] = {}
    there: dict[str, list[list[float]]] = {}
    with RedisServer(os.path.abspath(options.server or find_server()), aof=False) as server:
        for _ in range(options.turns):
            measured(ROOT, server.url, here)
            if options.beside:
                measured(options.beside, server.url, there)
    sys.stdout.write(table(here, there) + "\n")


if __name__ == "__main__":
    main()
