"""A job that ends its workers, and the jobs of another queue on the same machine: S85."""

from __future__ import annotations

import time
from typing import Final

from tests.faults.harness import jobs
from tests.faults.harness.history import Op, read
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import SECOND_NS, Bounds

PERSISTENT: Final = 5
SLOTS: Final = 8
OTHER: Final = "other"
ALWAYS: Final = 1_000
MAX_CRASHES: Final = 6
EVERY_S: Final = 0.5
"""The interval between two jobs of the other queue."""
CLEARED_S: Final = 20.0
"""After that time a persistent job is no suspect, and nothing runs alone."""
MOST_S: Final = 400.0
RECOVERY_S: Final = 75.0
"""The persistent jobs, whose worker died, run alone one after the other."""
WAIT_S: Final = 5.0
"""The longest wait of a job of the other queue."""


@scenario(
    "S85",
    "a job ends its worker (os._exit) beside five persistent jobs; another worker serves another queue",
    Bounds({"kills": MAX_CRASHES}, recovery_s=RECOVERY_S, drained_s=20),
    jobs=40,
)
def shared_machine(stage: Stage) -> None:
    """The jobs of the other queue start within `WAIT_S`, the bad job is broken, the persistent jobs run again."""
    stage.serve()
    stage.queues.append(OTHER)
    environment = {jobs.MAX_CRASHES: str(MAX_CRASHES)}
    for queue in (jobs.QUEUE, OTHER):
        stage.fleet(1, SLOTS, args=["-q", queue], environment=environment)
    persistent = [stage.add_one(jobs.GATE, meant="cancelled", persistent=True) for _ in range(PERSISTENT)]
    stage.until(lambda: stage.started(persistent), "the persistent jobs run")
    bad = stage.add_one(jobs.MISDEED, "os._exit", ALWAYS, meant="broken")
    others: list[str] = []
    next_at = calm_since = time.monotonic()

    def is_over() -> bool:
        nonlocal next_at, calm_since
        now = time.monotonic()
        if now >= next_at:
            next_at += EVERY_S
            others.append(stage.add_one(jobs.STEP, 5, queue=OTHER))
            if not stage.view(bad).state.ended or not stage.started(persistent):
                calm_since = now
        return now - calm_since > CLEARED_S and len(others) >= stage.size

    stage.until(is_over, "the bad job is broken, and the persistent jobs run", MOST_S)
    for id in persistent:
        stage.app.control.cancel(jobs.QUEUE, id)
    stage.recover()
    wait_s = longest_wait_s(stage, others)
    stage.expect(wait_s <= WAIT_S, f"a job of the other queue waited {wait_s:.1f} s, at most {WAIT_S:g} s are allowed")
    print(f"    {len(others)} jobs of the other queue, longest wait {wait_s:.1f} s")


def longest_wait_s(stage: Stage, ids: list[str]) -> float:
    """The longest time from the enqueue of one of these jobs to its first start."""
    asked: dict[str, int] = {}
    began: dict[str, int] = {}
    for event in read(stage.folder):
        if event.op is Op.ENQUEUE and event.phase == "ok":
            asked[event.job] = event.mono_ns
        elif event.op is Op.START:
            began[event.job] = min(event.mono_ns, began.get(event.job, event.mono_ns))
    return max((began[id] - asked[id]) / SECOND_NS for id in ids)


ALL: Final = (shared_machine,)
