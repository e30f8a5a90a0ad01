"""A queue moves from one server to a cluster of three masters while workers of both sides run: S32."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing, suppress
from itertools import pairwise
from typing import Any, Final

from tenure import Tenure
from tenure.core.steps import Command, Invoke, Reply, Steps
from tenure.core.values import replace
from tenure.manage.transfer import Side, Transfer
from tenure.protocols.registry import entry_of
from tenure.redis.drivers import blocking_driver
from tenure.redis.sync import SyncDriver
from tenure.testing.death_signal import dies_with_parent
from tests.faults.harness import broken, ending, jobs
from tests.faults.harness.chronicle import chronicle
from tests.faults.harness.fleet import Fleet
from tests.faults.harness.history import Event, Op, read
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds
from tests.faults.scenarios.clusters import KEY
from tests.support.cluster import Cluster
from tests.support.stepping import Crashed, Send, Session, send_with, step

LANES: Final = 12
DEATH: Final = 0.05
"""How likely the migration dies at a call: as often before Redis runs it as after."""
DEATHS: Final = 12
COMMANDS: Final = 4
"""Commands that are killed."""
HELD_S: Final = 0.3
WAIT_S: Final = 120


class Move:
    """The migration of the storm, and those who enqueue meanwhile."""

    def __init__(self, stage: Stage, new: Tenure, drivers: tuple[SyncDriver, SyncDriver]) -> None:
        self.stage, self.old, self.new, self.drivers = stage, stage.app, new, drivers
        self.number = self.runs = 0

    def enqueue(self, app: Tenure, count: int) -> None:
        """Jobs in lanes, and as many without one. Some fail at first."""
        step_of = app.tasks[jobs.STEP]
        self.stage.add(count, jobs.STEP, 20, 1, app=app)
        for _ in range(count):
            self.number += 1
            id, lane = f"lane{self.number:06}", f"l{self.number % LANES}"
            offer = Event(Op.ENQUEUE, phase="invoke", job=id, lane=lane, n=self.number, note="completed")
            self.stage.diary.write(offer)
            step_of.using(id=id, lane=lane).enqueue(self.number, 10, int(self.number % 3 == 0))
            self.stage.diary.write(replace(offer, phase="ok"))

    def dying(self) -> bool:
        """Run the migration until a call kills it. False: it came to its end."""
        self.runs += 1

        def fate(number: int, call: Command | Invoke, send: Send) -> Reply:
            drawn = self.stage.draw.random()
            if drawn < DEATH:
                if drawn < DEATH / 2:
                    send(call)
                raise Crashed
            return send(call)

        def runner(driver: SyncDriver) -> Any:
            session = Session(f"move-{self.runs}-{id(driver)}")

            def run(steps: Steps[Any]) -> Any:
                return step(steps, session, send_with(driver), fate)

            return run

        source, target = (
            Side(runner(driver), app.engine, _transfer_of(app), jobs.QUEUE)
            for app, driver in zip((self.old, self.new), self.drivers, strict=True)
        )
        with suppress(Crashed):
            Transfer(source, target).run(first=True)
            return False
        self.stage.fault("deaths")
        return True

    def command(self, *options: str) -> subprocess.Popen[bytes]:
        """The command, in a process of its own."""
        urls = ("--url", self.stage.server.url, "--to-url", self.new.settings.url)
        words = ["migrate", jobs.QUEUE, *urls, "--namespace", jobs.NAMESPACE, "--yes", *options]
        command = dies_with_parent([sys.executable, "-P", "-m", "tenure", *words])
        with (self.stage.folder / f"{time.monotonic_ns()}.migrate").open("wb") as log:
            return subprocess.Popen(
                command, cwd=broken.ROOT, env=broken.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )


def _transfer_of(app: Tenure) -> Any:
    make = entry_of(app.engine).transfer
    assert make is not None
    return make(app.engine)


@scenario(
    "S32",
    "a queue moves from a server to a cluster, workers of both run, producers switch; migrate is killed at random",
    Bounds({"deaths": DEATHS, "commands": COMMANDS, "kills": 2}, awake_s=30, drained_s=WAIT_S),
    jobs=400,
)
def moved(stage: Stage) -> None:
    old_server = stage.serve()
    stage.sampling = False
    old = stage.app
    cluster = stage.open.enter_context(Cluster(stage.binary))
    new = stage.app_at(cluster.url)
    drivers = tuple(stage.open.enter_context(closing(blocking_driver(app.settings.url))) for app in (old, new))
    move = Move(stage, new, (drivers[0], drivers[1]))
    move.enqueue(old, stage.size)
    fleets = [stage.fleet(2, 3)]
    new.control.pause(jobs.QUEUE)
    fleets.append(stage.fleet(2, 3, cluster.url))
    move.enqueue(new, stage.size // 4)
    deaths = 0
    while deaths < DEATHS:
        deaths += move.dying()
        move.enqueue(new, 2)
        stage.tick()
    _kill_commands(stage, move, fleets)
    last = move.command("--wait", str(WAIT_S))
    stage.until(lambda: last.poll() is not None, "the migration was to end", WAIT_S)
    stage.expect(last.returncode == 0, "the last migration found nothing that was left")
    stage.expect(ending.left(old, jobs.QUEUE) == 0, "the source has no job that has not ended")
    ending.write_totals(ending.write_ends(old, jobs.QUEUE, stage.diary), stage.diary)
    stage.expect(old_server.command("KEYS", "*:moving") == [], "no job is on its way")
    # From here on it is the cluster that is looked at.
    stage.borrow(cluster.owner(KEY), cluster.url)
    stage.recover()
    _in_order(stage)


def _kill_commands(stage: Stage, move: Move, fleets: list[Fleet]) -> None:
    """Kill the command while it runs, and a worker of each side."""
    for n in range(COMMANDS):
        stage.add(60, jobs.STEP, 20, app=move.old)
        running = move.command()
        stage.spend(HELD_S + stage.draw.random())
        running.kill()
        running.wait()
        stage.fault("commands")
        if n < len(fleets):
            fleets[n].kill(stage.draw.choice(fleets[n].running))


def _in_order(stage: Stage) -> None:
    """No attempt of a job of a lane began before those of the jobs before it had ended."""
    wrong = []
    for lane in chronicle(read(stage.folder)).lanes.values():
        for before, job in pairwise(lane):
            over = max((one.end_ns for one in before.attempts), default=0)
            wrong += [job.id for one in job.attempts if one.start_ns < over]
    stage.expect(not wrong, f"lanes ran in their order, not {wrong[:5]}")


ALL: Final = (moved,)
