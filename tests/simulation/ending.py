"""The end of a history: all processes are gone, one worker runs what is left, and then the books are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tenure.core.engine import Feature
from tenure.core.flows import FlowState
from tenure.core.job import NewJob, State
from tenure.core.limits import HOUR
from tenure.core.outcome import Completed
from tenure.core.schedules.schedule import StoredSchedule
from tenure.core.shape import Shape, UniqueRule
from tests.simulation.actors import CODE, KEYS, LANES, QUEUES, STEP_MS, TASK, Process
from tests.simulation.history import PROCESSES, Action
from tests.simulation.scheduler import Stage, Strand
from tests.simulation.values import Doing, Violation, require
from tests.support.engines import GRACE_MS, LEASE_MS
from tests.support.stepping import Session

ROUNDS_MOST: Final = 240


@dataclass(frozen=True, slots=True)
class Ending:
    """Ends a history."""

    stage: Stage

    def finish(self) -> None:
        """All processes are gone. What hindered jobs ends; one worker runs all that is left."""
        for who in range(len(PROCESSES)):
            self.stage.kill(Action("kill", who))
        while self.stage.late:
            self.stage.deliver(Action("deliver"))
        last = self.stage.make_process("worker")
        self.whole(last, self.resume(last))
        for number in range(ROUNDS_MOST):
            self.stage.pass_time((LEASE_MS, GRACE_MS, 3 * HOUR, GRACE_MS)[number % 4] + 50)
            for queue in QUEUES:
                self.whole(last, last.engine.maintain([queue], [TASK], raw_queues=[queue]))
            self.drain(last)
            if not self.stage.model.alive() and not self.stage.model.expected and not self.is_waiting():
                break
        else:
            left = [f"{id} ({self.stage.model.jobs[id].state})" for id in self.stage.model.alive()]
            raise Violation(f"these jobs have not run: {left}, {sorted(self.stage.model.expected)}")
        self.check_end()

    def resume(self, last: Process) -> Any:
        engine = last.engine
        for queue in QUEUES:
            if engine.schedules is not None:
                for name in ("s1", "s2"):
                    _, stored = yield from engine.schedules.schedule(queue, name)
                    if stored is not None:
                        self.check_schedule(stored)
                    yield from engine.schedules.remove_schedule(queue, name)
            if Feature.PAUSE in engine.features:
                yield from engine.settings.configure(queue, paused=False)
                self.stage.model.may["paused", queue] = {False}
            if Feature.LANE_POLICIES in engine.features:
                for lane in LANES:
                    yield from engine.lanes.resume_lane(queue, lane)
                    self.stage.model.may[f"parked {queue}", lane] = {False}

    def check_schedule(self, stored: StoredSchedule) -> None:
        """Every planned time until the next one had a job, or was counted as missed."""
        name, state = (stored.spec.payload.decode() if stored.spec else ""), stored.state
        planned = (state.planned_ms - self.stage.model.first_ticks[name]) // STEP_MS
        ran = sum(of == name for of, _ in self.stage.model.ticks)
        require(state.runs == ran, f"schedule {name} counts {state.runs} runs, and had {ran}")
        require(ran + state.missed == planned, f"schedule {name}: {ran} ran, {state.missed} missed, of {planned}")

    def whole(self, process: Process, steps: Any, doing: Doing | None = None) -> None:
        """Run an operation to its end."""
        strand = Strand(
            Session(f"last{next(self.stage.births)}"), steps, doing or Doing("last", process.name, self.stage.clock)
        )
        self.stage.advance(strand)
        while strand.call is not None and strand.doing is not None:
            self.stage.advance(strand, *self.stage.execute(strand.call, strand.doing))

    def drain(self, last: Process) -> None:
        """Claim and complete, until there is no more."""
        for _ in range(ROUNDS_MOST):
            doing = Doing("claim", last.name, self.stage.clock)
            self.whole(last, last.take(doing, QUEUES, 100), doing)
            leases = list(last.held.values())
            last.held.clear()
            if not leases:
                return
            outcome = Completed(b"r", 0)
            doing = Doing("settle", last.name, self.stage.clock)
            doing.settles.update((lease.record.id, (lease.token, outcome)) for lease in leases)
            self.whole(last, last.engine.settle([(lease, outcome) for lease in leases]), doing)

    def is_waiting(self) -> bool:
        """Whether a change of partitions is under way, or a flow has not ended."""
        views = self.stage.line.read(
            *(self.stage.observer.flows.flow(one.queue, id) for id, one in self.stage.model.groups.items())
        )
        return self.stage.model.moving or any(view is not None and view.state is FlowState.OPEN for view in views)

    def check_end(self) -> None:
        for id, group in self.stage.model.groups.items():
            (view,) = self.stage.line.read(self.stage.observer.flows.flow(group.queue, id))
            if view is not None:
                jobs, has_succeeded = self.stage.model.jobs, view.state is FlowState.COMPLETED
                good = all(one.id in jobs and jobs[one.id].ends[State.COMPLETED] for one in group.members)
                require(good or not has_succeeded, f"{id} has completed without its members")
                require(has_succeeded or not good or group.stopping or not group.sealed, f"{id} has not completed")
                require(self.has_followed(group.end), f"the end of {id} was not followed")
                require(has_succeeded == self.has_followed(group.success), f"{id}: what follows success")
        if Feature.UNIQUE_KEYS in self.stage.entry.features:
            self.check_keys()
        if self.stage.observer.limits is not None:
            for name in CODE:
                active = self.stage.line.read(self.stage.observer.limits.limit(name))[0].active
                require(active == 0, f"{active} places of limit {name} are held by nobody")
        self.stage.audit()

    def check_keys(self) -> None:
        """All jobs have ended, so each key is free."""
        probe = self.stage.make_process("client")
        for queue in QUEUES:
            jobs = [NewJob(queue, f"{queue}-{key}", b"", task=TASK, shape=shape_with(key)) for key in KEYS]
            doing = Doing("enqueue", probe.name, self.stage.clock)
            self.whole(probe, probe.add(jobs, doing), doing)
            require(len(doing.did) == len(KEYS), f"keys of {queue} are held by jobs that have ended")
            doing = Doing("discard", probe.name, self.stage.clock, doing.did)
            for job in jobs:
                self.whole(probe, probe.engine.discard(queue, job.id), doing)
                doing.over = False

    def has_followed(self, new: NewJob) -> bool:
        return not {new.id, f"{new.id}-1"}.isdisjoint(self.stage.model.jobs)


def shape_with(key: str) -> Shape:
    return Shape(unique=UniqueRule(key))
