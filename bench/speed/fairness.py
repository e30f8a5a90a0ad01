"""Whether short jobs wait behind long ones in a busy worker while another worker is idle.

Two workers that run one job at a time get jobs of 1 s and of 1 ms, mixed. What counts is how long a short job that has
been put has not begun, although one of the two workers had nothing to run at that moment.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.environments import CACHE, known_pins
from bench.journal import Line, parse
from bench.roster import adapters
from bench.speed.gauges import fields, info
from bench.speed.results import Machine, this_machine
from bench.speed.stage import START_S, Failed, Stage, staged
from tenure.redis.embedded.binary import find_server
from tenure.testing.server import RedisServer

SHORT_S: Final = 0.001
LONG_S: Final = 1.0
SHORTS: Final = 60
CYCLES: Final = 6
TRICKLE_S: Final = 0.02
END_S: Final = 60.0
SEED: Final = 6
Span = tuple[float, float]


@dataclass(frozen=True)
class Waits:
    """Milliseconds. `idle`: the worst wait of a short job while a worker was idle; `worst`: its worst wait at all."""

    way: str
    short_jobs: int
    idle_ms: float
    worst_ms: float


@dataclass(frozen=True)
class Fairness:
    machine: Machine
    waits: tuple[Waits, ...]


def measure(quick: bool = False, name_of_run: str = "", cache: Path = CACHE) -> Fairness:
    (adapter,) = adapters(["tenure"], known_pins(), cache, name_of_run)
    draw = random.Random(SEED)  # noqa: S311  (which job is the long one)
    with RedisServer(find_server(), aof=False, tcp=True) as server:
        with staged(adapter, server, "mark", variant="one") as stage:
            for _ in range(2):
                stage.workers.start()
            warmed(stage)
            waits = [
                watched(stage, way, gap, 1 if quick else CYCLES, draw)
                for way, gap in (("all at once", None), (f"one every {TRICKLE_S * 1e3:g} ms", TRICKLE_S))
            ]
        return Fairness(this_machine(fields(info(server, "server"))["redis_version"]), tuple(waits))


def warmed(stage: Stage) -> None:
    """Both workers have run short jobs, so both expect short ones, and claim ahead as they do for those."""
    until = time.monotonic() + START_S
    for number in range(1_000):
        run(stage, [(f"warm{number}-{one}", SHORT_S) for one in range(SHORTS)], None)
        if len({line.worker for line in lines(stage)}) == 2:
            return
        if time.monotonic() > until:
            break
    raise Failed("one of two workers had not run a job")


def watched(stage: Stage, way: str, gap: float | None, cycles: int, draw: random.Random) -> Waits:
    worst: list[Span] = []
    for cycle in range(cycles):
        names = [f"{'l' if number in (0, SHORTS // 2) else 's'}{cycle}-{number}-{gap}" for number in range(SHORTS)]
        draw.shuffle(names)
        jobs = [(name, LONG_S if name.startswith("l") else SHORT_S) for name in names]
        put = dict(zip(names, run(stage, jobs, gap), strict=True))
        seen = lines(stage)
        for line in seen:
            if line.what == "start" and line.token in put and line.token.startswith("s"):
                span = (put[line.token], line.at)
                worst.append((idle_within(span, seen), line.at - put[line.token]))
    idle, total = max(idle for idle, _ in worst), max(total for _, total in worst)
    return Waits(way, len(worst), idle * 1e3, total * 1e3)


def run(stage: Stage, jobs: Sequence[tuple[str, float]], gap: float | None) -> tuple[float, ...]:
    """Put jobs and wait until all have ended."""
    sent = stage.these("mark", jobs, gap)
    for token, _ in jobs:
        stage.wait("end", END_S, token)
    return sent


def lines(stage: Stage) -> list[Line]:
    return parse(stage.journal.path.read_text())


def busy(seen: Iterable[Line]) -> list[list[Span]]:
    """For each worker, when it ran a job."""
    open_at: dict[str, float] = {}
    spans: dict[str, list[Span]] = {}
    for line in sorted(seen, key=lambda line: line.at):
        spans.setdefault(line.worker, [])
        if line.what == "start":
            open_at[line.token] = line.at
        elif line.token in open_at:
            spans[line.worker].append((open_at.pop(line.token), line.at))
    return list(spans.values())


def idle_within(span: Span, seen: Iterable[Line]) -> float:
    """The longest time within the span in which one and the same worker ran nothing."""
    longest = 0.0
    for worker in busy(seen):
        at = span[0]
        for begin, end in sorted(worker):
            if end <= span[0] or begin >= span[1]:
                continue
            longest = max(longest, begin - at)
            at = max(at, end)
        longest = max(longest, span[1] - at)
    return longest


def table(found: Fairness) -> str:
    lines = [
        "| jobs come | short jobs | worst wait while a worker is idle, to a long job | worst wait, to a long job | "
        "(ms) |",
        "|---|---:|---:|---:|---:|",
    ]
    long_ms = LONG_S * 1e3
    lines += [
        f"| {one.way} | {one.short_jobs} | {one.idle_ms / long_ms:.3f} | {one.worst_ms / long_ms:.3f} | "
        f"{one.idle_ms:.0f}, {one.worst_ms:.0f} |"
        for one in found.waits
    ]
    return "\n".join(lines)
