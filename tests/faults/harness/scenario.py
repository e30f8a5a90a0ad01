"""A scenario: what happens on a stage, and what must hold. And how one is played and judged."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.harness import broken
from tests.faults.harness.checker import check
from tests.faults.harness.ending import Stuck
from tests.faults.harness.history import read
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds, Policy, Report, Rule, Score, Violation

MEANWHILE: Final = frozenset({Rule.EXPECTED, Rule.REFUSED, Rule.OVERLAP, Rule.STALE, Rule.PLACES, Rule.TOKENS})


@dataclass(frozen=True, slots=True)
class Scenario:
    """`says`: what it does to whom, in a line. `jobs`: of the short form. `play` writes the history; the rest is judged
    from that. `missing`: what is not here and has to be, so that it cannot be played; empty: nothing. `lanes`: what a
    lane does behind a job that fails; None: the order of lanes is not looked at."""

    name: str
    says: str
    play: Callable[[Stage], None]
    bounds: Bounds
    jobs: int
    missing: Callable[[], str]
    lanes: Policy | None = None


def scenario(
    name: str,
    says: str,
    bounds: Bounds,
    *,
    jobs: int,
    missing: Callable[[], str] = str,
    lanes: Policy | None = None,
) -> Callable[[Callable[[Stage], None]], Scenario]:
    """Makes a scenario of the function that plays it.

    @scenario("S33", "a handler blocks the event loop", Bounds({"blocked": 1}), jobs=40)
    def blocked(stage: Stage) -> None: ...
    """
    return lambda play: Scenario(name, says, play, bounds, jobs, missing, lanes)


@dataclass(frozen=True, slots=True)
class Pointer:
    """A scenario that tests elsewhere play in full. Each is a test by its address, without parameters."""

    name: str
    says: str
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """How a scenario went. `stuck`: why it did not come to its end."""

    name: str
    seed: int
    seconds: float
    report: Report

    @property
    def ok(self) -> bool:
        return self.report.ok


def play(scenario: Scenario, seed: int, size: int | None, folder: Path, binary: str) -> Result:
    """Play it and judge it. The history stays in `folder`, which is empty before.

    `size`: so many jobs, and never fewer than in the short form, whose faults its bounds expect.
    """
    began = time.monotonic()
    stuck: list[Violation] = []
    with Stage(seed, max(size or 0, scenario.jobs), folder, binary) as stage:
        try:
            scenario.play(stage)
            stage.sampling = False
            stage.finish()
        except (Stuck, AssertionError) as error:  # a part of the stage may not come about, as on a busy machine
            stuck = [Violation(Rule.SLOW, f"stuck: {error}")]
    report = check(read(folder), scenario.lanes, scenario.bounds)
    if stuck:
        # It never came to its end, so only what was wrong meanwhile counts.
        report = Report(report.score, (*(one for one in report.violations if one.rule in MEANWHILE), *stuck))
    return Result(scenario.name, seed, time.monotonic() - began, report)


def point(pointer: Pointer) -> Result:
    """Run the tests that play it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder:
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--basetemp"]
        done = subprocess.run(
            [*command, f"{folder}/t", *pointer.tests],
            cwd=broken.ROOT,
            env=broken.environment(),
            capture_output=True,
            text=True,
        )
    wrong = () if done.returncode == 0 else (Violation(Rule.EXPECTED, done.stdout[-2_000:]),)
    return Result(pointer.name, 0, time.monotonic() - began, Report(Score(), wrong))
