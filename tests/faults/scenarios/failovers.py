"""A master dies and its replica takes over, as sentinels see to it: S26, S27."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.faults.harness import jobs
from tests.faults.harness.history import Event, Op
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds
from tests.redis.watched import Watched

DURABLE: Final = "TENURE_DURABLE"
LAG_S: Final = 0.4
"""For so long the replica has got nothing when the master dies."""
SLACK_MS: Final = 200
BACK_S: Final = 15.0
"""Until the sentinels have agreed (about 2 s), and a lease has lapsed."""


@contextmanager
def surroundings(**variables: str) -> Iterator[None]:
    """The environment in which an app is made."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def fail_over(stage: Stage, durable: int) -> None:
    """The replica lags, the master is killed: what had not reached the replica is gone, and nothing else."""
    watched = stage.open.enter_context(Watched(stage.binary))
    stage.sampling = False
    environment = {DURABLE: str(durable)}
    with surroundings(**environment):
        stage.borrow(watched.master, watched.url())
    stage.fleet(2, 3, watched.url(), environment=environment)
    stage.add(stage.size, jobs.STEP, 60, 1)
    stage.spend(0.5)
    # What has left the master would reach even a replica that hangs: so they are parted, too.
    began = time.monotonic()
    watched.replica.pause()
    watched.master.command("CLIENT", "KILL", "TYPE", "replica")
    while time.monotonic() - began < LAG_S:
        stage.add(2, jobs.STEP, 30)
    watched.master.kill()
    lag_ms = round((time.monotonic() - began) * 1000) + SLACK_MS
    stage.diary.write(Event(Op.WINDOW, ms=lag_ms, phase="durable" if durable else ""))
    stage.fault("failovers")
    watched.replica.resume()
    stage.add(stage.size, jobs.STEP, 5)
    stage.recover()
    watched.settle()
    stage.borrow(watched.master, watched.url())


@scenario(
    "S26",
    "the master is killed while its replica lags by 400 ms, and nobody waits for replicas",
    Bounds({"failovers": 1, "gone": 1}, awake_s=BACK_S, drained_s=40),
    jobs=60,
)
def careless(stage: Stage) -> None:
    fail_over(stage, 0)


@scenario(
    "S27",
    "the same, and enqueues and ends of jobs wait for one replica (durable=1)",
    Bounds({"failovers": 1, "unknown": 1}, awake_s=BACK_S, drained_s=40),
    jobs=60,
)
def careful(stage: Stage) -> None:
    fail_over(stage, 1)


ALL: Final = (careless, careful)
