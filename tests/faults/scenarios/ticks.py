"""Schedules while everything fails: S70."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from typing import Final

from tenure import Every
from tenure.core import limits
from tests.faults.harness import jobs
from tests.faults.harness.clock import Clock, compiler
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

SLOTS: Final = 4
WRONG_S: Final = 300.0
SCHEDULES: Final = {"one": 1, "two": 2, "three": 3}
"""Schedules, and their intervals in seconds."""
KILLS: Final = 3
RESTARTS: Final = 2


@scenario(
    "S70",
    "schedules while workers are killed and stopped, with clocks five minutes wrong, and Redis is killed",
    Bounds({"kills": KILLS, "stops": 1}, drained_s=30, awake_s=10),
    jobs=20,
    missing=lambda: "" if compiler() else "a C compiler",
)
def schedules(stage: Stage) -> None:
    """Each tick has one job: none is doubled, and none is lost."""
    stage.serve()
    queues = ("-q", jobs.QUEUE, "-q", jobs.TICKS)
    fleet = stage.fleet(2, SLOTS, args=queues)
    for name, wrong_s in (("ahead", WRONG_S), ("behind", -WRONG_S)):
        folder = stage.folder / name
        folder.mkdir()
        clock = stage.open.enter_context(closing(Clock(folder)))
        clock.set(wrong_s)
        stage.fleet(1, SLOTS, args=queues, environment=clock.environment())
    add(stage)
    stage.add(stage.size, jobs.STEP, 20)
    for n in range(KILLS):
        stage.spend(stage.draw.uniform(0.5, 1.5))
        fleet.kill(stage.draw.choice(fleet.running), family=n % 2 == 0)
        if n < RESTARTS:
            stage.restart(0)
    pid = stage.draw.choice(fleet.running)
    fleet.stop(pid)
    stage.spend(4.0)
    fleet.let_go_on(pid)
    stage.spend(1.0)
    judge(stage)
    stage.recover()


def add(stage: Stage) -> None:
    """Define the schedules."""
    tick = stage.app.tasks[jobs.TICK].using(queue=jobs.TICKS)
    for name, seconds in SCHEDULES.items():
        stage.app.schedules.add(name, tick.call(name), Every(seconds=seconds), overlap="allow", catch_up="all")


def judge(stage: Stage) -> None:
    """End the schedules, wait for their jobs, and compare these with what was planned."""
    for name in SCHEDULES:
        stage.app.schedules.pause(jobs.TICKS, name)
    stage.until(lambda: not sum(stage.app.inspect.queue(jobs.TICKS).counts.values()), "the jobs of the ticks end")
    ran: dict[str, dict[int, set[str]]] = {name: defaultdict(set) for name in SCHEDULES}
    for line in (stage.folder / jobs.TICKS).read_text().splitlines():
        name, planned, id, _ = line.split()
        ran[name][int(planned)].add(id)
    for view in stage.app.schedules.list(jobs.TICKS):
        step = SCHEDULES[view.name] * limits.SECOND
        times = sorted(ran[view.name])
        stage.expect(len(times) > 1, f"{view.name}: only {len(times)} ticks ran")
        stage.expect(times == list(range(times[0], times[-1] + 1, step)), f"{view.name}: a tick is missing")
        stage.expect(all(len(ids) == 1 for ids in ran[view.name].values()), f"{view.name}: a tick had two jobs")
        stage.expect(
            view.runs == len(times) and not view.missed, f"{view.name}: {view.runs} runs, {view.missed} missed"
        )
        now_ms = int(stage.server.command("TIME")[0]) * limits.SECOND
        stage.expect(abs(now_ms - times[-1]) < WRONG_S / 2 * limits.SECOND, f"{view.name}: ticks by a worker's clock")
        stage.app.schedules.remove(jobs.TICKS, view.name)


ALL: Final = (schedules,)
