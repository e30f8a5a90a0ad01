"""Workers that die, by somebody's hand or by their own handlers': S01, S03, S04, S36."""

from __future__ import annotations

from typing import Final

from tenure.core.job import State
from tests.faults.harness import jobs
from tests.faults.harness.chaos import Plan
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

SLOTS: Final = 4
HIT: Final = 2 * SLOTS
"""What a kill can cost: the jobs that run, and those that have just ended and whose end was under way."""
MAX_CRASHES: Final = 3
GRACE_S: Final = 1.0
WAVES: Final = 10
DEEDS: Final = (
    *((jobs.MISDEED_IN_THREAD, kind) for kind in ("memory", "exit", "interrupt", "recurse")),
    *((jobs.MISDEED, kind) for kind in ("exit", "recurse", "fork")),
    *((jobs.MISDEED_APART, kind) for kind in ("memory", "exit", "recurse")),
)


@scenario(
    "S01",
    "workers are killed (SIGKILL) with jobs in their hands",
    Bounds({"held kills": 3}, drained_s=20, awake_s=5, repeats=0, repeats_a_hit=HIT),
    jobs=240,
)
def kills(stage: Stage) -> None:
    """Workers are killed again and again, each with a job in its hands."""
    stage.serve()
    long = stage.size > kills.jobs
    fleet = stage.fleet(3, SLOTS)
    part = max(1, stage.size // WAVES)

    def more() -> None:
        stage.add(part // 2, jobs.STEP, stage.draw.randint(60, 250))

    chaos = stage.chaos(Plan(kill_s=1.0, most=None if long else 3, least=3, spare=1), fleet, more)
    for _ in range(WAVES // 2):
        stage.add(part, jobs.STEP, stage.draw.randint(1, 100), stage.draw.randint(0, 2))
        stage.add(part, jobs.STEP_IN_THREAD, stage.draw.randint(1, 200))
    stage.until(lambda: chaos.enough, "kills", 120)
    if long:
        stage.until(lambda: stage.left() < part, "most of it done", stage.size)
    chaos.ceased = True
    fleet.wait_until_started()
    stage.recover()


@scenario(
    "S03",
    "a job kills (SIGKILL) every worker that runs it",
    Bounds({"kills": MAX_CRASHES}, drained_s=20, deliveries=MAX_CRASHES),
    jobs=30,
)
def poison(stage: Stage) -> None:
    """One job kills every worker that runs it; the others are none the worse for it."""
    stage.serve()
    environment = {jobs.MAX_CRASHES: str(MAX_CRASHES)}
    bad = stage.add_one(jobs.MISDEED, "kill", 1_000, meant="broken")
    good = stage.add(stage.size, jobs.STEP, 150)
    stage.fleet(2, 2, environment=environment)
    stage.until(lambda: stage.view(bad).state is State.BROKEN, "the poison is broken")
    stage.recover()
    view = stage.view(bad)
    counts = (view.crashes, view.failures)
    stage.expect(counts == (MAX_CRASHES, 0), f"{counts} crashes and failures, expected {(MAX_CRASHES, 0)}")
    # From its second crash on it is the only one of its kind in a worker; what runs beside it may be hit.
    stage.expect(all(stage.view(id).failures == 0 for id in good), "a crash was taken for a failure of another job")


@scenario(
    "S04",
    "workers are stopped (SIGTERM) while jobs run, as in a deploy",
    Bounds({"stops in good order": 1}, repeats=1_000, drained_s=10),
    jobs=10,
)
def deploy(stage: Stage) -> None:
    """SIGTERM: what can end in time does, the rest is at the front again and has lost no attempt."""
    stage.serve()
    fleet = stage.fleet(1, 2, args=["--grace", str(GRACE_S)], replace=False)
    for _ in range(max(1, stage.size // 10)):
        held = stage.add_one(jobs.GATE)
        short = stage.add_one(jobs.STEP, 400)
        stage.until(lambda held=held, short=short: stage.started([held, short]), "both run")  # type: ignore[misc]
        behind = stage.add(3, jobs.STEP, 5)
        status = fleet.tell_to_end(fleet.running[0])
        stage.fault("stops in good order")
        stage.expect(status == 0, f"exit status {status} after SIGTERM, expected 0")
        stage.expect(stage.view(short).state is State.COMPLETED, "a job that had time to end has not ended")
        view = stage.view(held)
        what = (str(view.state), view.failures, view.crashes)
        stage.expect(what == ("ready", 0, 0), f"state, failures, crashes of what was handed back: {what}")
        first = stage.app.inspect.page(jobs.QUEUE, State.READY, limit=1).jobs[0].id
        stage.expect(first == held, f"{first} is at the front, expected {held} that was handed back")
        jobs.mended(held, stage.folder).touch()
        fleet.start()
        fleet.wait_until_started()
        stage.until(lambda behind=behind: all(stage.view(id).state.ended for id in behind), "the rest")  # type: ignore[misc]
    stage.recover()


@scenario(
    "S36",
    "handlers run out of memory, call os._exit and sys.exit, fork, recurse without end, also in job processes",
    Bounds({"misdeeds": len(DEEDS) + 2, "kills": 2}, drained_s=20),
    jobs=20,
)
def misdeeds(stage: Stage) -> None:
    """Handlers that eat memory, end their process, fork, raise what nobody catches: each costs its own attempt.

    In a worker and its job processes; in the long form in those of a supervisor, too.
    """
    stage.serve()
    fleet = stage.fleet(1, 4)
    _misbehave(stage)
    if stage.size > misdeeds.jobs:
        fleet.tell_to_end(fleet.running[0])
        stage.fleet(1, 4, args=["--processes", "2"], replace=False)
        _misbehave(stage)
    stage.recover()


def _misbehave(stage: Stage) -> None:
    before = _crashed(stage)
    for task, kind in DEEDS:
        stage.add_one(task, kind, 1)
        stage.fault("misdeeds")
        if kind == "memory" and task != jobs.MISDEED_APART:
            stage.drain()  # alone: whoever runs beside it in its process may run out of memory as well
    stage.drain()
    stage.expect(_crashed(stage) == before, "a process was lost to one of these")
    _end_process(stage, jobs.MISDEED_APART)
    stage.expect(_crashed(stage) == before + 1, "a dead job process has cost other jobs an attempt")
    _end_process(stage, jobs.MISDEED)


def _end_process(stage: Stage, task: str) -> None:
    """A job that ends its process is run again, and has failed nobody else."""
    dead = stage.add_one(task, "os._exit", 1)
    stage.fault("misdeeds")
    others = stage.add(stage.size, jobs.STEP, 20)
    stage.drain()
    view = stage.view(dead)
    counts = (view.crashes, view.failures)
    stage.expect(counts == (1, 0), f"{task}: {counts} crashes and failures, expected {(1, 0)}")
    stage.expect(all(stage.view(id).failures == 0 for id in others), f"{task}: somebody else's job has failed")


def _crashed(stage: Stage) -> int:
    crashed: int = stage.app.inspect.queue(jobs.QUEUE).totals.get("crashed", 0)
    return crashed


ALL: Final = (kills, poison, deploy, misdeeds)
