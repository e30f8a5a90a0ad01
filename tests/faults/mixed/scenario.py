"""S60, S62: workers of Tenure and of an original on one queue, with kills, stops and restarts of Redis at once."""

from __future__ import annotations

import contextlib
import itertools
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import redis

from tenure import Tenure
from tenure.core.errors import RedisError
from tenure.testing.death_signal import dies_with_parent
from tenure.testing.server import RedisServer
from tests.faults.harness import broken, ending
from tests.faults.harness.ending import Stuck
from tests.faults.harness.fleet import Fleet
from tests.faults.harness.history import Diary
from tests.faults.harness.scenario import Result
from tests.faults.harness.stage import ALWAYS
from tests.faults.harness.torn import forget_torn_end
from tests.faults.harness.verdict import Report, Rule, Score, Violation
from tests.faults.mixed.jobs import FOLDER, HOLD, PROTOCOL, Line, make_app, read
from tests.wire.hworker.original import Original as Hworker
from tests.wire.worqr.original import Original as Worqr

MIXED: Final = {"S60": "hworker", "S62": "worqr"}
JOBS: Final = 600
CHUNK: Final = 30
FAULT_EVERY_S: Final = 0.7
STOP_S: Final = 4.0
"""Longer than a lease, its grace and the timer of worqr."""
DRAIN_S: Final = 90.0
TAKEN_OVER_S: Final = 10.0
FAULTS: Final = ("kill", "kill", "stop", "kill original", "kill original", "restart")
ORIGINALS, OURS = 2, 3
SECOND: Final = 1_000_000_000


@dataclass
class Mixed:
    """A run. `shaken`: processes that were killed or stopped, or that end by themselves when Redis restarts."""

    kind: str
    server: RedisServer
    app: Tenure
    folder: Path
    draw: random.Random
    fleet: Fleet
    originals: list[subprocess.Popen[bytes]] = field(default_factory=list)
    hits: Counter[str] = field(default_factory=Counter)
    shaken: dict[int, int] = field(default_factory=dict)
    waking: dict[int, float] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def start_original(self) -> None:
        command = [sys.executable, "-m", "tests.faults.mixed.original", self.kind, self.server.url]
        with (self.folder / "originals.log").open("ab") as log:
            self.originals.append(
                subprocess.Popen(
                    dies_with_parent(command),
                    env=broken.environment(**{FOLDER: str(self.folder)}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def kill_original(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self.originals.remove(process)
        self.shaken[process.pid] = time.monotonic_ns()

    def close(self) -> None:
        for process in list(self.originals):
            self.kill_original(process)

    def produce(self, count: int) -> None:
        """Half of the jobs by the commands of the original."""
        numbers = list(itertools.islice(self.numbers, count))
        with redis.Redis.from_url(self.server.url) as db:
            for n in numbers[::2]:
                Hworker(db, "pool").queue(n) if self.kind == "hworker" else Worqr(db).enqueue("default", str(n))
        for n in numbers[1::2]:
            self.app.queue("default").enqueue(str(n).encode())

    def tick(self) -> None:
        self.fleet.look_after()
        for process in [one for one in self.originals if one.poll() is not None]:
            self.kill_original(process)
        while len(self.originals) < ORIGINALS:
            self.start_original()
        for pid, at in list(self.waking.items()):
            if time.monotonic() >= at:
                del self.waking[pid]
                with contextlib.suppress(ProcessLookupError, KeyError):
                    self.fleet.let_go_on(pid)

    def strike(self) -> None:
        """One fault."""
        what = self.draw.choice(FAULTS)
        self.hits[what] += 1
        if what == "restart":
            self.server.restart(kill=True)
            forget_torn_end(self.server)
        elif what == "kill original":
            self.kill_original(self.draw.choice(self.originals))
        elif running := [pid for pid in self.fleet.running if pid not in self.fleet.starting]:
            holders = [line.pid for line in read(self.folder) if line.n == HOLD][-1:]
            pid = self.draw.choice([one for one in holders if one in running and self.draw.random() < 0.5] or running)
            self.shaken[pid] = time.monotonic_ns()
            if what == "kill" or len(running) == 1:  # somebody has to be there who takes over
                self.fleet.kill(pid, family=self.draw.random() < 0.5)
            else:
                self.fleet.stop(pid)
                self.waking[pid] = time.monotonic() + STOP_S

    def play(self, jobs: int) -> None:
        if self.kind == "worqr":
            self.app.tasks["hold"].enqueue()
        self.produce(CHUNK)
        strike_at = time.monotonic() + FAULT_EVERY_S
        while (done := sum(self.hits.values()) * CHUNK) < jobs:
            self.tick()
            if time.monotonic() >= strike_at:
                self.strike()
                self.produce(min(CHUNK, jobs - done))
                strike_at = time.monotonic() + FAULT_EVERY_S
            time.sleep(0.02)
        until = time.monotonic() + DRAIN_S
        while self.waking or self.left():
            if time.monotonic() > until:
                raise Stuck(f"the queue was to be drained\n{self.fleet.trouble()}")
            self.tick()
            time.sleep(0.1)

    def left(self) -> int:
        try:
            return ending.left(self.app, "default")
        except RedisError:
            return 1


def play_mixed(name: str, seed: int, size: int | None, folder: Path, binary: str) -> Result:
    """`size`: about so many jobs."""
    began = time.monotonic()
    jobs = max(JOBS, size or 0)
    kind = MIXED[name]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(binary, args=ALWAYS))
        environment = {"TENURE_URL": server.url, FOLDER: str(folder), PROTOCOL: kind}
        diary = stack.enter_context(contextlib.closing(Diary(folder)))
        fleet = stack.enter_context(Fleet(OURS, 4, environment, folder, diary, app="tests.faults.mixed.jobs:app"))
        fleet.wait_until_started()
        app = stack.enter_context(make_app(kind, server.url))
        mixed = Mixed(kind, server, app, folder, random.Random(seed), fleet)
        stack.callback(mixed.close)
        stuck: list[Violation] = []
        try:
            mixed.play(jobs)
        except (Stuck, AssertionError) as error:
            stuck.append(Violation(Rule.SLOW, f"stuck: {error}"))
        lines = read(folder)
        made = next(mixed.numbers)
    found = [*stuck, *_runs(lines, made, mixed), *_holders(lines, mixed)]
    return Result(name, seed, time.monotonic() - began, Report(_score(lines, made, mixed, found), tuple(found)))


def _runs(lines: list[Line], made: int, mixed: Mixed) -> list[Violation]:
    """Each job ended, and ran again only where somebody had died, had been stopped, or is an original that gives back
    the work of others."""
    found = []
    runs: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        if line.n != HOLD:
            runs[line.n].append(line)
    for n in range(made):
        if not any(line.what == "end" for line in runs[n]):
            found.append(Violation(Rule.LOST, f"job {n} never ended"))
        starts = [line.pid for line in runs[n] if line.what == "start"]
        if mixed.kind == "hworker" and (unexplained := [pid for pid in starts[:-1] if pid not in mixed.shaken]):
            found.append(Violation(Rule.REPEATED, f"job {n} ran in {starts}; nothing happened to {unexplained}"))
    return found


def _holders(lines: list[Line], mixed: Mixed) -> list[Violation]:
    """The persistent job has one holder at a time, and the next one soon."""
    found = []
    for before, after in itertools.pairwise(line for line in lines if line.n == HOLD):
        if after.at - before.at > TAKEN_OVER_S * SECOND:
            found.append(
                Violation(Rule.SLOW, f"nobody held the persistent job for {(after.at - before.at) / 1e9:.1f} s")
            )
    last = {line.pid: line.at for line in lines if line.n == HOLD}
    for before, after in itertools.pairwise(line for line in lines if line.n == HOLD):
        # A worker that was stopped may write a line when it goes on, before it knows that another one has the job.
        calm = not {before.pid, after.pid} & mixed.shaken.keys()
        if before.pid != after.pid and last[before.pid] > after.at and calm:
            found.append(Violation(Rule.OVERLAP, f"{before.pid} and {after.pid} held the persistent job at one time"))
    return found


def _score(lines: list[Line], made: int, mixed: Mixed, found: list[Violation]) -> Score:
    rules = Counter(one.rule for one in found)
    return Score(
        jobs=made,
        runs=sum(line.what == "start" for line in lines),
        completed=made - rules[Rule.LOST],
        kills=mixed.hits["kill"],
        stops=mixed.hits["stop"],
        restarts=mixed.hits["restart"],
        lost=rules[Rule.LOST],
        doubled=rules[Rule.REPEATED],
        worst_recovery_s=_longest_gap(lines),
        faults={"killed originals": mixed.hits["kill original"]},
    )


def _longest_gap(lines: list[Line]) -> float:
    held = [line.at for line in lines if line.n == HOLD]
    return max((after - before for before, after in itertools.pairwise(held)), default=0) / SECOND
