"""An id is used again while somebody still works on the old job of that name: S42."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, Final

from tenure.core import limits
from tenure.core.job import ErrorInfo, Lease, NewJob
from tenure.core.outcome import Completed, Failed, Outcome, Released, Retried
from tenure.core.steps import Steps
from tenure.redis.sync import SyncDriver
from tests.faults.harness import jobs
from tests.faults.harness.chronicle import BY_HAND
from tests.faults.harness.history import Event, Op
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds

SHORT_MS: Final = 300
LONG_MS: Final = 60_000
LAPSE_S: Final = 15.0
NOTHING_KEPT: Final = Completed(b"", 0)
"""Without a record of its end the id is free at once."""
ERROR: Final = ErrorInfo("Error", "of the old job")


class Story:
    """Leases of engine calls, written down. In the history a job of a later generation has a name of its own."""

    def __init__(self, stage: Stage) -> None:
        self._diary = stage.diary
        self.engine: Any = stage.app.engine
        self._driver = stage.open.enter_context(contextlib.closing(SyncDriver(stage.server.url)))

    def run(self, steps: Steps[Any]) -> Any:
        return self._driver.run(steps)

    def add(self, ids: list[str], generation: int) -> None:
        for phase in ("invoke", "ok"):
            told = [Event(Op.ENQUEUE, phase=phase, job=f"{id}/{generation}", note="completed") for id in ids]
            self._diary.write_all(told)
            if phase == "invoke":
                new = [NewJob(jobs.QUEUE, id, b"", task=jobs.STEP, own_id=True) for id in ids]
                assert all(answer.created for answer in self.run(self.engine.enqueue(new)))

    def claim(self, worker: str, generation: int, ms: int) -> dict[str, Lease]:
        """All that can be had now: one call claims only so many."""
        claimed: dict[str, Lease] = {}
        while leases := self.run(self.engine.lease(worker, [jobs.QUEUE], limits.MAX_BATCH, ms)).leases:
            for lease in leases:
                self._tell(Op.START, lease, generation, ms=ms, note=BY_HAND)
                claimed[lease.record.id] = lease
        return claimed

    def settle(self, lease: Lease, generation: int, outcome: Outcome) -> bool:
        kind = "complete" if isinstance(outcome, Completed) else "other"
        self._tell(Op.SETTLE, lease, generation, phase="invoke", note=kind)
        (done,) = self.run(self.engine.settle([(lease, outcome)]))
        self._tell(Op.SETTLE, lease, generation, phase="ok", note=kind, n=int(done))
        self._tell(Op.END, lease, generation, phase="ok" if done else "lost")
        if done:
            self._tell(Op.FINAL, lease, generation, note="completed")
        return bool(done)

    def _tell(self, op: Op, lease: Lease, generation: int, **told: Any) -> None:
        self._diary.write(Event(op, job=f"{lease.record.id}/{generation}", token=int(lease.token), **told))


@scenario("S42", "an id is used again while a zombie of the old job lives", Bounds({"ids used again": 8}), jobs=20)
def reuse(stage: Stage) -> None:
    """One worker has the old job and the new one, so that nothing but the token tells them apart."""
    stage.serve()
    story = Story(stage)
    ids = [f"id{n}" for n in range(stage.size)]
    story.add(ids, 1)
    old = story.claim("worker", 1, SHORT_MS)
    others: dict[str, Lease] = {}

    def taken() -> bool:
        others.update(story.claim("other", 1, LONG_MS))
        return len(others) == len(ids)

    stage.until(taken, "the old leases lapse", LAPSE_S)
    for id in ids:
        stage.expect(story.settle(others[id], 1, NOTHING_KEPT), f"{id} could not be completed")
    story.add(ids, 2)
    new = story.claim("worker", 2, LONG_MS)
    lost = story.run(story.engine.heartbeat("worker", [jobs.QUEUE], [old[id].ref for id in ids])).lost
    stage.expect(len(lost) == len(ids), f"a beat said of {len(lost)} of {len(ids)} old leases that they are lost")
    outcomes: tuple[Outcome, ...] = (NOTHING_KEPT, Failed(ERROR), Retried(ERROR), Released())
    for id, outcome in zip(ids, itertools.cycle(outcomes), strict=False):
        stage.expect(not story.settle(old[id], 1, outcome), f"{id}: the end of the old job was taken for the new one's")
        stage.expect(not story.run(story.engine.extend(old[id], LONG_MS)), f"{id}: the old lease could be extended")
        stage.fault("ids used again")
    for id in ids:
        stage.expect(story.settle(new[id], 2, NOTHING_KEPT), f"{id}: the new job could not be completed")
    stage.recover()


ALL: Final = (reuse,)
