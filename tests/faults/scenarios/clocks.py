"""The clock of Redis jumps: S31."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from tenure.core import limits
from tests.faults.harness import jobs
from tests.faults.harness.clock import Clock, compiler
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

SLOTS: Final = 3
STEP_S: Final = 2 * limits.HOUR / limits.SECOND
"""Longer than any timeout here and the 30 s after that."""
JITTER_S: Final = 0.05
JITTERS: Final = 40
LOOK_S: Final = 12.0


@scenario(
    "S31",
    "the clock of Redis jumps two hours ahead, four hours back, and to and fro by 50 ms",
    Bounds(
        {"two hours ahead": 1, "four hours back": 1, "jitters": JITTERS, "kills": 1},
        drained_s=20,
        awake_s=10,
        repeats=0,
        repeats_a_hit=SLOTS,
    ),
    jobs=60,
    missing=lambda: "" if compiler() else "a C compiler",
)
def jumps(stage: Stage) -> None:
    """Ahead nobody who lives is taken for dead, and loses a job. Back nobody who died is hidden."""
    clock = stage.open.enter_context(closing(Clock(stage.folder)))
    stage.serve(binary=clock.wrapped(stage.binary))
    seen = int(stage.server.command("TIME")[0])
    clock.set(STEP_S)
    stage.expect(int(stage.server.command("TIME")[0]) - seen > STEP_S / 2, "the clock of Redis did not move")
    clock.set(0)
    fleet = stage.fleet(3, SLOTS)
    long = stage.add(4, jobs.STEP, 5_000)
    stage.until(lambda: stage.started(long), "long jobs run")
    stage.add(stage.size // 2, jobs.STEP, 30)
    clock.set(STEP_S)
    stage.fault("two hours ahead")
    stage.until(lambda: all(stage.view(id).state.ended for id in long), "long jobs end")
    held = stage.add_one(jobs.GATE)
    stage.until(lambda: stage.started([held]), "a job runs")
    fleet.kill(stage.runner(held), family=True)
    clock.set(-STEP_S)
    stage.fault("four hours back")
    jobs.mended(held, stage.folder).touch()
    stage.until(lambda: stage.view(held).state.ended, "the dead worker's job is run again", LOOK_S)
    stage.add(stage.size // 2, jobs.STEP, 30)
    for _ in range(JITTERS):
        clock.set(-STEP_S + stage.draw.uniform(-JITTER_S, JITTER_S))
        stage.fault("jitters")
        stage.spend(JITTER_S)
    stage.recover()


ALL: Final = (jumps,)
