"""Plays a history: one call after the other, of whichever process the history names, with a clock that it sets."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tenure.core.engine import Feature
from tenure.core.errors import ReplyError, TenureError, Unreachable
from tenure.core.job import JobView, QueueView, State
from tenure.core.steps import Command, Draw, Invoke, Reply, Work
from tenure.testing.server import RedisServer
from tests.simulation.actors import QUEUES, Process
from tests.simulation.history import LATE_MOST, PROCESSES, Action
from tests.simulation.model import Model
from tests.simulation.reading import CLOCK, Line
from tests.simulation.values import Doing, Seen, Violation, require
from tests.simulation.weights import BY_SUBJECT, STRANDS, SUBJECTS, WEIGHTS
from tests.support.engines import GRACE_MS, LEASE_MS, Entry, Options
from tests.support.named import Named
from tests.support.stepping import Session, repeated
from tests.support.world import NAMESPACE

AUDIT_EVERY: Final = 25
PARTITIONED: Final = 4
"""Of the seeds that have partitions: each fourth."""


Asked: TypeAlias = tuple[str, State, str | None, str | None]
"""A page of jobs: queue, state, lane and cursor."""
READING: Final = frozenset({"partitions", "outgoing", "EXISTS", "HGET", "LLEN", "TIME"})
"""Calls that change nothing. The next call follows in the same action."""


def name_of(call: Command | Invoke) -> str:
    return call.script.name if isinstance(call, Invoke) else str(call.args[0])


@dataclass
class Strand:
    """What makes one call at a time. `call`: the next one; None: nothing is under way."""

    session: Session
    steps: Any = None
    doing: Doing | None = None
    call: Command | Invoke | None = None


@dataclass
class Stage:
    """One history on one server. `trace`: what happened, in words."""

    entry: Entry
    server: RedisServer
    line: Line
    seed: int
    kind_of_process: type[Process] = Process
    clock: int = 0
    trace: list[str] = field(default_factory=list)
    late: list[tuple[Command | Invoke, Doing]] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.command("FLUSHALL")
        seconds, micros = self.server.command("TIME")
        self.clock = int(seconds) * 1000 + int(micros) // 1000
        self.options = Options()
        self.names: dict[tuple[str, str], str] = {}
        self.numbers, self.births = itertools.count(), itertools.count()
        self.model = Model(LEASE_MS + GRACE_MS, self.options.max_crashes, Feature.RESULTS in self.entry.features)
        self.is_partitioned = Feature.PARTITIONS in self.entry.features and self.seed % PARTITIONED == 0
        self.subject = SUBJECTS[self.seed % len(SUBJECTS)]
        self.pass_time(0)
        self.observer = self.make_engine()
        self.processes = [self.make_process(kind) for kind in PROCESSES]
        self.strands: list[dict[str, Strand]] = [self.make_strands(one) for one in self.processes]

    def make_engine(self) -> Any:
        engine = self.entry.make(NAMESPACE, self.options)
        if self.is_partitioned:
            engine.partitions.want_partitions("q", 3)
        return engine if Feature.IDS in self.entry.features else Named(engine, self.names)

    def make_process(self, kind: str) -> Process:
        name = f"{kind}{next(self.births)}"
        numbers = self.numbers.__next__
        return self.kind_of_process(
            name,
            kind,
            self.make_engine(),
            self.model,
            lambda: self.clock,
            numbers,
            self.dead,
            self.is_partitioned,
            self.subject,
        )

    def make_strands(self, process: Process) -> dict[str, Strand]:
        return {name: Strand(Session(f"{process.name}.{name}")) for name in STRANDS[process.kind]}

    def audit(self) -> None:
        """Compare the keys of the queues with each other: places without leases, records without places."""
        self.line.ask(Command(("DEL", CLOCK)))
        wrong = self.entry.audit(self.server, NAMESPACE)
        require(not wrong, "; ".join(wrong))
        self.pass_time(0)

    # Actions.

    def play(self, actions: Sequence[Action]) -> None:
        """Play the actions. Raises `Violation`."""
        for number, action in enumerate(actions):
            if number % AUDIT_EVERY == 0:
                self.audit()
            self.pass_time(1)
            getattr(self, action.what)(action)

    def time(self, action: Action) -> None:
        self.pass_time(action.number)
        self.trace.append(f"{action.number} ms pass")

    def stop(self, action: Action) -> None:
        self.processes[action.who].stopped = True
        self.trace.append(f"{self.processes[action.who].name} stops")

    def wake(self, action: Action) -> None:
        if self.processes[action.who].stopped:
            self.processes[action.who].stopped = False
            self.trace.append(f"{self.processes[action.who].name} wakes up")

    def kill(self, action: Action) -> None:
        """The process is gone between two calls. Another one begins in its place."""
        process = self.processes[action.who]
        for strand in self.strands[action.who].values():
            if strand.steps is not None:
                strand.steps.close()
        self.trace.append(f"{process.name} dies")
        if process.kind == "worker":
            self.dead.append(process.name)
        self.processes[action.who] = self.make_process(process.kind)
        self.strands[action.who] = self.make_strands(self.processes[action.who])

    def deliver(self, action: Action) -> None:
        """A copy of a call arrives that was under way for long."""
        if self.late:
            call, doing = self.late.pop(action.number % len(self.late))
            self.trace.append(f"a copy of {doing.actor}'s {doing.kind} arrives late")
            self.execute(call, doing)

    def call(self, action: Action) -> None:
        process, strand = self.processes[action.who], self.strands[action.who][action.strand]
        if process.stopped:
            return
        if strand.call is None:
            self.begin(process, strand, action.strand, random.Random(action.number))
        if strand.call is None and action.strand == "settle":
            # It holds nothing.
            strand = self.strands[action.who]["claim"]
            if strand.call is None:
                self.begin(process, strand, "claim", random.Random(action.number))
        while strand.call is not None and name_of(strand.call) in READING:
            self.advance(strand, *self.line.ask(strand.call))
        call, doing = strand.call, strand.doing
        if call is None or doing is None:
            return
        self.trace.append(f"{process.name} {doing.kind}: {name_of(call)} {action.fate}")
        if action.fate == "late" and len(self.late) < LATE_MOST:
            self.late.append((repeated(call), doing))
            return
        if action.fate == "cut":
            self.advance(strand, error=Unreachable("The call was not sent."))
            return
        reply, error = self.execute(call, doing)
        if action.fate == "gone":
            self.advance(strand, error=Unreachable("The reply did not come."))
        elif action.fate == "lost":
            strand.call = repeated(call)
        else:
            self.advance(strand, reply, error)

    def begin(self, process: Process, strand: Strand, name: str, draw: random.Random) -> None:
        weights = BY_SUBJECT.get(self.subject, {}).get(name) or WEIGHTS[name]
        kind = draw.choices(list(weights), list(weights.values()))[0]
        strand.doing = Doing(kind, process.name, self.clock)
        strand.steps = getattr(process, kind)(draw, strand.doing)
        self.advance(strand)

    def advance(self, strand: Strand, reply: Reply = None, error: TenureError | None = None) -> None:
        """Give an operation the reply to its call. It makes its next call, or ends."""
        steps, doing, strand.call = strand.steps, strand.doing, None
        assert doing is not None
        doing.failed = doing.failed or error is not None
        try:
            call = steps.send(reply) if error is None else steps.throw(error)
            while isinstance(call, Draw | Work):
                call = steps.send(strand.session.draw() if isinstance(call, Draw) else call.function())
            strand.call = call
        except StopIteration:
            doing.over, strand.steps = not doing.failed, None  # else a copy of a call may still arrive
        except Unreachable:
            # The session may have a call under way: it is not used again.
            strand.steps, strand.session = None, Session(f"{strand.session.name}'")
        except TenureError as refusal:
            raise Violation(f"{doing.kind} of {doing.actor} raised {refusal!r}") from refusal

    def execute(self, call: Command | Invoke, doing: Doing) -> tuple[Reply, TenureError | None]:
        """Let Redis execute the call, and compare all jobs with the model."""
        if self.is_partitioned:
            self.observer = self.make_engine()  # one that was there before would trust an old map for a minute
        reply, views = self.line.read_after(call, *map(self.observer.queue, QUEUES))
        error = reply if isinstance(reply, TenureError) else None
        require(error is None or not isinstance(error, ReplyError) or error.prefix.startswith("TN"), f"{error!r}")
        self.model.observe(doing, self.look(doing, views), self.clock)
        return reply, error

    # Redis.

    def pass_time(self, ms: int) -> None:
        self.clock += ms
        self.line.set_clock(self.clock)

    def look(self, doing: Doing, views: Sequence[QueueView]) -> dict[str, Seen]:
        """All jobs, as the inspector shows them."""
        seen: dict[str, Seen] = {}
        is_moving = doing.kind == "repartition"
        pages, known = list[Asked](), [*doing.adds.values(), *(self.model.jobs[id].new for id in self.model.alive())]
        lanes = sorted({(job.queue, job.shape.lane) for job in known if job.shape.lane})
        for queue, view in zip(QUEUES, views, strict=True):
            is_moving = is_moving or view.repartition is not None
            pages += [(queue, state, None, None) for state, count in view.counts.items() if count]
            if view.counts[State.READY]:
                pages += [(queue, State.READY, lane, None) for of, lane in lanes if of == queue]
        while pages:
            found = self.line.read(*map(self.page, pages))
            for page in found:
                self.note(seen, page.jobs)
            following = zip(pages, found, strict=True)
            pages = [(*asked[:3], page.next) for asked, page in following if page.next is not None]
        self.model.moving = is_moving
        return seen

    def page(self, asked: Asked) -> Any:
        queue, state, lane, after = asked
        return self.observer.page(queue, state, lane=lane, after=after, heads=True)

    def note(self, seen: dict[str, Seen], jobs: Sequence[JobView]) -> None:
        for job in jobs:
            active = job.state is State.ACTIVE
            seen[job.id] = Seen(
                job.state,
                job.worker if active else None,
                job.token if active else None,
                job.crashes,
                job.expires_ms,
                job.cancelling is not None,
            )
