"""Where jobs wait, said plainly: those that took workers down, those of each priority, those of each lane."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.core.job import State
from tenure.core.shape import PLAIN, Shape


@dataclass(slots=True)
class Job:
    """A job that was acknowledged, or what is left of it.

    `turn`: its place in the order of its lane, which it keeps while its lane waits for it. `doubtful`: of its crashes
    those that others may have caused. `claim`: how it is held: by hand, alone, beside suspects that have run for long,
    or as usual; `window`: for how long nothing else is claimed beside it.
    """

    id: str
    payload: bytes
    task: str | None
    timeout_ms: int
    shape: Shape = PLAIN
    made: int = 0
    state: State = State.READY
    failures: int = 0
    crashes: int = 0
    doubtful: int = 0
    claim: str = ""
    window: int = 0
    due: float = 0
    token: int = 0
    worker: str = ""
    claimed: int = 0
    expires: int = 0
    turn: int = 0
    follows: bool = False
    cancelling: str | None = None
    progress: float | None = None
    claims: list[int] = field(default_factory=list)

    @property
    def lane(self) -> str | None:
        return self.shape.lane


@dataclass(slots=True)
class Lane:
    """`waiting` is in line; `busy` are out of it: held, waiting for their retry, isolated, unroutable, or blocking.

    `limit` None: it is not said, for an idle lane to which the job returns that parked it. `loose`: since it was idle,
    more than one might run at a time, so there is no order. `parked`: by which job, '' by nobody, None: not parked.
    `blockers`: those of `busy` that failed and block.
    """

    waiting: list[str] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    limit: int | None = 1
    loose: bool = False
    parked: str | None = None
    blockers: list[str] = field(default_factory=list)

    @property
    def may_run(self) -> bool:
        return bool(self.waiting) and self.parked is None and len(self.busy) < (self.limit or 1)

    def leave(self, id: str) -> None:
        """It keeps the lane busy no longer."""
        self.busy.discard(id)
        self.blockers = [other for other in self.blockers if other != id]


class Lines:
    """All that waits in line in one queue."""

    def __init__(self, jobs: dict[str, Job]) -> None:
        self.jobs = jobs
        self.isolated: list[str] = []
        self.levels: dict[int, list[str]] = {}
        self.lanes: dict[str, Lane] = {}
        self._turns = 0

    def lane(self, name: str) -> Lane:
        return self.lanes.setdefault(name, Lane())

    def level(self, priority: int) -> list[str]:
        return self.levels.setdefault(priority, [])

    def line_of(self, job: Job) -> list[str]:
        return self.lane(job.lane).waiting if job.lane else self.level(job.shape.priority)

    def place(self, job: Job, *, first: bool) -> None:
        """Make a job ready, at the end or at the very front; in a lane the front means: at the place that it had."""
        job.state = State.READY
        if job.lane is None:
            self.line_of(job).insert(0 if first else len(self.line_of(job)), job.id)
            return
        lane = self.lane(job.lane)
        lane.leave(job.id)
        if not first:
            self._turns += 1
            job.turn = self._turns
            lane.limit = job.shape.lane_limit
            lane.loose = lane.loose or job.shape.lane_limit > 1
        lane.waiting.append(job.id)
        lane.waiting.sort(key=lambda id: self.jobs[id].turn)

    def place_again(self, job: Job) -> None:
        """A job that was out of line: its lane has kept its place, or else it goes to the end."""
        self.place(job, first=self.occupies(job))

    def to_the_head(self, job: Job) -> None:
        """The job that parked its lane goes before all others of it."""
        waiting = self.line_of(job)
        if job.lane and not waiting and not self.lane(job.lane).busy:
            self.lane(job.lane).limit = None
        job.turn = min((self.jobs[id].turn for id in waiting), default=self._turns) - 1
        self.place(job, first=True)

    def occupies(self, job: Job) -> bool:
        return job.lane is not None and job.id in self.lane(job.lane).busy

    def isolate(self, job: Job, *, first: bool) -> None:
        """A job that took several workers down waits apart, and its lane waits for it."""
        job.state = State.READY
        self.isolated.insert(0 if first else len(self.isolated), job.id)
        if job.lane:
            self.lane(job.lane).busy.add(job.id)

    def take_out(self, job: Job) -> None:
        """Out of line, to be held; its lane waits for it."""
        line = self.isolated if job.id in self.isolated else self.line_of(job)
        line.remove(job.id)
        if job.lane:
            self.lane(job.lane).busy.add(job.id)

    def remove(self, job: Job) -> None:
        """Out of everything: it has ended, or is gone."""
        if job.id in self.isolated:
            self.isolated.remove(job.id)
        elif job.id in self.line_of(job):
            self.line_of(job).remove(job.id)
        if job.lane:
            lane = self.lane(job.lane)
            lane.leave(job.id)
            self.rest(lane)

    def rest(self, lane: Lane) -> None:
        """Nothing is kept of an idle lane but that it is parked."""
        if not lane.waiting and not lane.busy:
            lane.limit, lane.loose = 1, False

    def in_order(self) -> list[str]:
        """What waits without a lane, in the order in which it runs."""
        ids = [id for level in sorted(self.levels, reverse=True) for id in self.levels[level]]
        return [*self.isolated, *ids]

    def waiting(self) -> list[str]:
        return [*self.in_order(), *(id for lane in self.lanes.values() for id in lane.waiting)]

    def may_run(self) -> bool:
        """Whether a claim by a worker without suspects must get something."""
        levels = any(self.levels.values())
        return levels or any(lane.may_run for lane in self.lanes.values())
