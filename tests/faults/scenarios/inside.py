"""What happens inside of a worker: S33, S34, S37."""

from __future__ import annotations

from typing import Final

from tenure.core.engine import LEASE_MS
from tests.faults.harness import broken, jobs
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

BLOCKED_MS: Final = 3 * LEASE_MS + 200
LOOPS: Final = ("fetch", "settle", "watch", "maintain", "present", "report", "listen")
END_S: Final = 40.0
ALWAYS: Final = 1_000_000


@scenario(
    "S33",
    "a handler blocks the event loop, another holds the interpreter's lock (S34), for three leases",
    Bounds({"blocked": 2}, repeats=0, drained_s=20),
    jobs=40,
)
def blocked(stage: Stage) -> None:
    """One worker's event loop stands still, another's interpreter: nobody takes their jobs."""
    stage.serve()
    stage.fleet(3, 1)
    loop = stage.add_one(jobs.BLOCK, "loop", BLOCKED_MS)
    stage.until(lambda: stage.started([loop]), "the loop is blocked")
    gil = stage.add_one(jobs.BLOCK_IN_THREAD, "gil", BLOCKED_MS)
    stage.until(lambda: stage.started([gil]), "the interpreter is blocked")
    stage.fault("blocked", 2)
    stage.add(stage.size, jobs.STEP, 50)
    stage.until(lambda: stage.view(loop).state.ended and stage.view(gil).state.ended, "both end")
    for id in (loop, gil):
        stage.expect(stage.view(id).crashes == 0, f"{id} was taken for dead")
    stage.recover()


@scenario(
    "S37",
    "the background loops of a worker raise, once or always",
    Bounds({"loops raised always": 2}, drained_s=20, repeats=0),
    jobs=20,
)
def loops(stage: Stage) -> None:
    """A background loop of a worker raises. Once: it is run again. Again and again: the worker ends, and says so."""
    stage.serve()
    fleet = stage.fleet(1, 2, environment={broken.LOOP: "all:1"})
    stage.add(stage.size, jobs.STEP, 10, 1)
    stage.drain()
    stage.fault("loops raised once", len(LOOPS))
    chosen = LOOPS if stage.size > loops.jobs else stage.draw.sample(LOOPS, 2)
    # The sound worker runs these: what one without its settle loop runs, it runs for nothing.
    stage.add(stage.size, jobs.STEP, 10)
    doomed = {name: fleet.start(**{broken.LOOP: f"{name}:{ALWAYS}"}) for name in chosen}
    fleet.doomed |= set(doomed.values())
    stage.until(lambda: set(doomed.values()) <= fleet.statuses.keys(), "those without a loop end", END_S)
    for name, pid in doomed.items():
        status = fleet.statuses[pid]
        stage.expect(status == 1, f"without its loop {name!r} a worker ended with status {status}, expected 1")
        stage.fault("loops raised always")
    stage.recover()


ALL: Final = (blocked, loops)
