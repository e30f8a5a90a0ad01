"""Hours of mixed load and faults: `python -m tests.faults.soak --hours 8`. `make soak` runs it.

A run has rounds. After each the faults cease, the queues are drained, the checker of `make faults` judges the round,
and its history is deleted. Redis and two workers that no signal hits live as long as the run: their levels are sampled.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tenure.testing.server import available_binaries
from tests.faults import scoreboard
from tests.faults.harness import broken, ending, jobs, marks
from tests.faults.harness.chaos import Chaos, Plan, Sites
from tests.faults.harness.checker import check
from tests.faults.harness.ending import Stuck
from tests.faults.harness.history import Tail, read
from tests.faults.harness.proxy import Dice
from tests.faults.harness.scenario import Result
from tests.faults.harness.stage import Stage
from tests.faults.harness.torn import forget_torn_end
from tests.faults.harness.verdict import Bounds, Policy, Report, Rule, Violation
from tests.faults.scenarios import flows, ticks
from tests.faults.soak.levels import HOUR_S, LEVELS, Lines, descriptors, family, memory_mb, rises, verdict
from tests.faults.soak.load import Load

ROUND_S: Final = 300.0
ROUNDS_LEAST: Final = 3
SAMPLES_MOST: Final = 1_000
RATE: Final = 5.0
STEP_S: Final = 0.25
ZOMBIES_S: Final = 2.5
"""So long a worker that was stopped may start what it had claimed before."""
HARMED: Final = 0.01
AUDIT_S: Final = 5.0
"""So often all keys are read and compared."""
SHOWN, KEPT = 5, 3
"""Violations of a round, and histories of rounds that went wrong."""
BOUNDS: Final = Bounds(recovery_s=30.0, drained_s=60.0, awake_s=20.0)
QUEUES: Final = (jobs.QUEUE, jobs.RAW, jobs.TICKS, *jobs.FLOWS)
ARGS: Final = ["--no-log-jobs", "--log-errors", "type", *(word for queue in QUEUES for word in ("-q", queue))]
FAULTS: Final = ("kills", "stops", "restarts")


class Soak:
    def __init__(self, stage: Stage, hours: float, rate: float, round_s: float, out: Path) -> None:
        self.stage, self.round_s, self.out = stage, round_s, out
        self.began = time.monotonic()
        self.ends = self.began + hours * HOUR_S
        server = stage.serve()
        self.proxy = stage.proxy(Dice(marks.of("enqueue", "claim", "claim_full", "settle", "settle_full"), HARMED))
        self.load = Load(stage, stage.app_at(self.proxy.url), rate)
        parent = stage.fleet(1, 4, args=[*ARGS, "--processes", "2"]).parent
        self.victims = stage.fleet(2, 3, self.proxy.url, args=ARGS)
        self.totals: Counter[str] = Counter()
        self.results: list[Result] = []
        probes: dict[str, Callable[[], float | None]] = {
            "memory of Redis": lambda: self._info("used_memory") / 1e6,
            "keys": lambda: float(server.command("DBSIZE")),
            "connections of Redis": lambda: self._info("connected_clients"),
            "memory of the parent": lambda: memory_mb([parent]),
            "memory of its workers": lambda: memory_mb(family(parent)),
            "descriptors of both": lambda: descriptors([parent, *family(parent)]),
            "lateness of schedules": self._lateness(jobs.TICKS),
            "lateness of delayed jobs": self._lateness(jobs.DUE),
            "jobs": lambda: stage.added,
            **{name: partial(self._sum, name) for name in (*FAULTS, "lost", "doubled")},
        }
        self.lines = Lines(out / "levels.csv", probes, max(1.0, hours * HOUR_S / SAMPLES_MOST))
        stage.ticks.append(lambda: self.lines.sample(time.monotonic() - self.began))
        stage.sample_s = AUDIT_S
        ticks.add(stage)

    def _info(self, name: str) -> float:
        return float(self.stage.server.command("INFO").partition(f"\n{name}:".encode())[2].split()[0])

    def _sum(self, name: str) -> float:
        return float(sum(getattr(one.report.score, name) for one in self.results))

    def _lateness(self, name: str) -> Callable[[], float | None]:
        """Return a probe: the median of the last words of the lines that came since it was asked last."""
        path, at = self.stage.folder / name, [0]

        def ask() -> float | None:
            found = path.read_bytes()[at[0] :] if path.exists() else b""
            at[0] += len(found)
            late = [float(line.split()[-1]) for line in found.splitlines()]
            return statistics.median(late) if late else None

        return ask

    def run(self) -> bool:
        """Play rounds until the time is over. Return whether all was good and no level rises."""
        while not self.round():
            pass
        lines = {level: self.lines.line(level.name) for level in LEVELS}
        missing = [name for name in FAULTS if not self._sum(name)]
        print(scoreboard.total(self.results, "rounds"), *(f"VOID: no {name}." for name in missing))
        print(*(verdict(*one) for one in lines.items()), sep="\n", flush=True)
        return not missing and all(one.ok for one in self.results) and not any(rises(*one) for one in lines.items())

    def round(self) -> bool:
        """Play and judge one round. Return whether it was the last."""
        began, first = time.monotonic(), self.stage.added
        is_last = began + 2 * self.round_s >= self.ends
        self.load.begin()
        stuck: list[Violation] = []
        try:
            self._shake(began + self.round_s)
            self._calm_down()
            self._write_ends(first, is_last)
        except (Stuck, AssertionError) as error:
            stuck = [Violation(Rule.SLOW, f"stuck: {error}")]
        report = check(read(self.stage.folder), Policy.SKIP, BOUNDS)
        report = Report(report.score, (*report.violations, *stuck))
        name = f"round-{len(self.results) + 1}"
        self.results.append(Result(name, self.stage.seed, time.monotonic() - began, report))
        print(
            scoreboard.line(self.results[-1]),
            *(f"    ! {one}" for one in report.violations[:SHOWN]),
            sep="\n",
            flush=True,
        )
        if not report.ok and sum(not one.ok for one in self.results) <= KEPT:
            shutil.copytree(self.stage.folder, self.out / name)
        (self.out / "levels.svg").write_text(self.lines.picture())
        self._delete_history()
        return is_last or bool(stuck)

    def _shake(self, until: float) -> None:
        """Load and faults."""
        stage, round_s = self.stage, self.round_s
        self.proxy.calm = False
        plan = Plan(kill_s=min(20, round_s / 3), stop_s=min(30, round_s / 3), restart_s=min(60, round_s / 2))
        sites = Sites(stage.server, self.victims, stage.tail, stage.diary)
        chaos = Chaos(plan, sites, stage.server.url, random.Random(stage.draw.random()))
        try:
            while time.monotonic() < until:
                self.load.put()
                chaos.go_on()
                stage.tick()
                time.sleep(STEP_S)
        finally:
            chaos.end()

    def _calm_down(self) -> None:
        """The faults are over: all goes on, and comes to its end."""
        stage, self.proxy.calm = self.stage, True
        self.victims.wait_until_started()
        stage.recover()
        stage.until(lambda: flows.are_over(stage, self.load.flows), "the flows end")
        stage.spend(ZOMBIES_S)
        stage.tail.poll()
        # The start of a killed worker's job may be read after its kill, so the dead are left out.
        busy = [pid for pid, runs in stage.tail.running.items() if runs and Path(f"/proc/{pid}").exists()]
        stage.expect(not busy, f"handlers of {busy} run although nothing is left")

    def _write_ends(self, first: int, is_last: bool) -> None:
        """Write down what Redis says of the jobs of this round, and of its counters."""
        stage = self.stage
        if is_last:
            ticks.judge(stage)
        stage.sample()
        totals: Counter[str] = Counter()
        for queue in stage.queues:
            totals.update(ending.write_ends(stage.app, queue, stage.diary, lambda id: int(id[3:]) >= first))
        ending.write_totals(totals - self.totals, stage.diary)
        self.totals = totals
        self.load.judge()
        if is_last:
            ending.write_keys(stage.server, stage.diary)

    def _delete_history(self) -> None:
        """Bound the disk: no line of this round is needed any more, nor what dead workers have logged."""
        folder = self.stage.folder
        for path in [*folder.glob("*.jsonl"), *folder.glob("worker-*.log")]:
            if not Path("/proc", path.stem.removeprefix("worker-").partition("-")[0]).exists():
                path.unlink()
            elif path.suffix == ".jsonl":
                os.truncate(path, 0)
        (folder / jobs.FLOWS[0]).unlink(missing_ok=True)
        self.stage.tail = Tail(folder)
        forget_torn_end(self.stage.server)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--hours", type=float, required=True)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--rate", type=float, default=RATE, help="jobs a second")
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    broken.apply()
    shutil.rmtree(asked.out, ignore_errors=True)
    asked.out.mkdir(parents=True)
    round_s = min(ROUND_S, asked.hours * HOUR_S / ROUNDS_LEAST)
    os.environ[jobs.KEEP] = str(round_s * 1.5 + 90)
    print(f"seed {asked.seed}, {asked.hours:g} hours, {asked.rate:g} jobs a second, into {asked.out}", flush=True)
    binary = list(available_binaries().values())[-1]
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder, Stage(asked.seed, 0, Path(folder), binary) as stage:
        return 0 if Soak(stage, asked.hours, asked.rate, round_s, asked.out).run() else 1


if __name__ == "__main__":
    sys.exit(main())
