"""The simulation: `python -m tests.simulation --seeds 1000 --queue native`. `make simulate` runs it."""

from __future__ import annotations

import argparse
import logging
import sys
import time

from tenure.testing.server import RedisServer, available_binaries
from tests.simulation.history import ACTIONS
from tests.simulation.reading import Line
from tests.simulation.run import FORMATS, play, report
from tests.support import mutants

TOLD_EVERY = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many histories of each queue")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--queue", choices=["all", *(entry.name for entry in FORMATS)], default="all")
    parser.add_argument("--actions", type=int, default=ACTIONS, help="how long a history is")
    parser.add_argument("--mutant", help="break a script of the native queue, as tests/support/mutants.py names it")
    parser.add_argument("--keep-going", action="store_true", help="play all seeds, whatever fails")
    asked = parser.parse_args()
    logging.getLogger("tenure").setLevel(logging.ERROR)
    if asked.mutant:
        mutants.apply(asked.mutant)
    failures = 0
    with RedisServer(next(iter(available_binaries().values())), aof=False) as server:
        line = Line(server)
        for entry in FORMATS:
            if asked.queue not in ("all", entry.name):
                continue
            began, failed = time.monotonic(), list[int]()
            for seed in range(asked.first, asked.first + asked.seeds):
                if (done := seed - asked.first) and done % TOLD_EVERY == 0:
                    print(f"{entry.name}: {done} seeds so far, {len(failed)} failed", flush=True)
                failure = play(entry, server, line, seed, asked.actions)
                if failure is None:
                    continue
                failed.append(seed)
                print(f"{entry.name} --first {seed}: {failure.what}", flush=True)
                if len(failed) == 1:
                    print(report(entry, server, line, failure), flush=True)
                if not asked.keep_going:
                    break
            failures += len(failed)
            took = time.monotonic() - began
            print(f"{entry.name}: {asked.seeds} seeds, {len(failed)} failed {failed[:20]}, {took:.0f} s", flush=True)
        line.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
