"""What happens to Redis itself: S17, S20, S21, S23."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Final

from tenure.core.job import State
from tenure.core.steps import Command, Steps
from tenure.redis.sync import SyncDriver
from tests.faults.harness import jobs
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

SLOTS: Final = 4
FLUSH_S: Final = 0.05
PAUSE_S: Final = 4.0
"""Longer than a lease and its grace together: 2.6 s."""
MEGABYTE: Final = 1024 * 1024


@scenario(
    "S17",
    "Redis is killed (SIGKILL) and started again, with appendfsync always",
    Bounds({"held restarts": 3}, drained_s=20, awake_s=5, repeats=0),
    jobs=120,
)
def restarts(stage: Stage) -> None:
    """Redis is killed and comes back with what was acknowledged; the workers come back by themselves."""
    stage.serve()
    stage.fleet(2, SLOTS)
    for _ in range(max(3, stage.size // 60)):
        part = max(1, stage.size // 3)
        stage.add(part, jobs.STEP, stage.draw.randint(20, 60), stage.draw.randint(0, 1))
        stage.until(lambda: stage.app.inspect.queue(jobs.QUEUE).counts[State.ACTIVE] > 0, "something runs")
        stage.spend(stage.draw.uniform(0.05, 0.3))
        held = stage.app.inspect.queue(jobs.QUEUE).counts[State.ACTIVE]
        stage.restart(held)
        stage.add(4, jobs.STEP, 10)
    stage.recover()


@scenario(
    "S20",
    "Redis is stopped (SIGSTOP) for longer than a lease",
    Bounds({"freezes": 1}, drained_s=20, awake_s=5, repeats=0),
    jobs=100,
)
def freeze(stage: Stage) -> None:
    """Redis hangs for longer than a lease: nobody is taken for dead, and what was asked twice happens once."""
    stage.serve()
    stage.fleet(2, SLOTS)
    long = stage.add(SLOTS, jobs.STEP, round(PAUSE_S * 1000 + 1_500))
    stage.until(lambda: stage.started(long), "long jobs run")
    stage.add(stage.size, jobs.STEP, 20)
    stage.spend(0.2)
    stage.server.pause()
    time.sleep(PAUSE_S * max(1.0, min(2.5, stage.size / 100)))
    stage.fault("freezes")
    stage.server.resume()
    stage.recover()


@scenario(
    "S21",
    "Redis forgets all scripts (SCRIPT FLUSH) every 50 ms",
    Bounds({"flushes": 20}, repeats=0, drained_s=20),
    jobs=200,
)
def flushes(stage: Stage) -> None:
    """Redis forgets all scripts, again and again: nobody notices."""
    stage.serve()
    stage.fleet(2, SLOTS)
    over = threading.Event()
    done = [0]

    def flush() -> None:
        def forget() -> Steps[object]:
            return (yield Command(("SCRIPT", "FLUSH")))

        with contextlib.closing(SyncDriver(stage.server.url)) as driver:
            while not over.wait(FLUSH_S):
                driver.run(forget())
                done[0] += 1

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        for _ in range(10):
            stage.add(max(1, stage.size // 10), jobs.STEP, 20, stage.draw.randint(0, 1))
            stage.spend(0.15)
        stage.drain()
    finally:
        over.set()
        thread.join()
    stage.fault("flushes", done[0])
    stage.recover()


@scenario(
    "S23",
    "Redis has reached its maxmemory while jobs run",
    Bounds({"full": 1, "refused": 10}, repeats=0, drained_s=20),
    jobs=100,
)
def full(stage: Stage) -> None:
    """At maxmemory new jobs are refused, and everything that is there goes on to its end."""
    stage.serve()
    # Nothing that Redis does for a new connection may need memory then.
    stage.fleet(2, SLOTS)
    gates = [stage.add_one(jobs.GATE) for _ in range(SLOTS)]
    stage.until(lambda: stage.started(gates), "jobs run")
    stage.add(stage.size, jobs.STEP, 20, 1)
    stage.server.command("CONFIG", "SET", "maxmemory", MEGABYTE)
    stage.fault("full")
    refused = [stage.add_one(jobs.STEP, 1, meant="completed") for _ in range(10)]
    stage.spend(4.0)  # longer than a lease: beats must go through
    for id in gates:
        jobs.mended(id, stage.folder).touch()
    stage.drain()
    stage.expect(all(stage.view(id) is None for id in refused), "a job that was refused is there")
    stage.server.command("CONFIG", "SET", "maxmemory", 0)
    stage.heal()
    stage.add(10, jobs.STEP, 1)
    stage.drain()


ALL: Final = (restarts, freeze, flushes, full)
