"""Plays a history: one call after the other, of whichever process the history names, with a clock that it sets.

A history is a list of actions, drawn from a seed and independent of what happens. An action that has no meaning when it
comes does nothing, so each part of a history is a history, too.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from tenure.core.engine import Feature
from tenure.core.errors import ReplyError, TenureError, Unreachable
from tenure.core.flows import FlowState
from tenure.core.job import JobView, NewJob, QueueView, State
from tenure.core.limits import HOUR
from tenure.core.outcome import Completed
from tenure.core.schedules.schedule import StoredSchedule
from tenure.core.shape import Shape, UniqueRule
from tenure.core.steps import Command, Draw, Invoke, Reply, Work
from tenure.testing.server import RedisServer
from tests.simulation.actors import (
    BY_SUBJECT,
    KEYS,
    LANES,
    QUEUES,
    STEP_MS,
    STRANDS,
    SUBJECTS,
    TASK,
    WEIGHTS,
    Process,
)
from tests.simulation.model import Doing, Model, Seen, Violation, require
from tests.support.engines import GRACE_MS, LEASE_MS, Entry, Options
from tests.support.named import Named
from tests.simulation.reading import CLOCK, Line
from tests.support.stepping import Session, repeated
from tests.support.world import NAMESPACE

PROCESSES: Final = ("client", "client", "worker", "worker", "worker", "keeper")
WORKERS: Final = (2, 3, 4)
ACTIONS: Final = 150
PARTITIONED: Final = 4
"""Of the seeds that have partitions: each fourth."""
LATE_MOST: Final = 8
ROUNDS_MOST: Final = 60


Asked: TypeAlias = tuple[str, State, str | None, str | None]
"""A page of jobs: queue, state, lane and cursor."""
READING: Final = frozenset({"partitions", "outgoing", "EXISTS", "HGET", "LLEN", "TIME"})
"""Calls that change nothing. The next call follows in the same action."""


class Action(NamedTuple):
    """`what`: call, kill, stop, wake, time or deliver. `fate` of a call: its reply arrives (ok), is lost so that the
    call is sent again (lost), the call itself is under way for long and sent again (late), or the caller gives up after
    it was executed (gone) or before (cut). `number` draws all that the operation chooses, or is the time in ms."""

    what: str
    who: int = 0
    strand: str = ""
    fate: str = ""
    number: int = 0

    def __str__(self) -> str:
        parts = (self.what, str(self.who) if self.what != "time" else "", self.strand, self.fate, str(self.number))
        return " ".join(part for part in parts if part)


def history(seed: int, count: int = ACTIONS) -> list[Action]:
    """Draw the history of a seed."""
    draw, actions = random.Random(seed), list[Action]()
    while len(actions) < count:
        chance = draw.random()
        if chance < 0.02:
            actions.append(Action("kill", draw.randrange(len(PROCESSES))))
        elif chance < 0.05:
            actions += _outage(draw)
        elif chance < 0.12:
            actions.append(Action("time", number=draw.choice([100, 600, 5_000, 31_000, 61_000, HOUR])))
        elif chance < 0.16:
            actions.append(Action("deliver", number=draw.randrange(LATE_MOST)))
        elif chance < 0.2:
            actions.append(Action("wake", draw.randrange(len(PROCESSES))))
        else:
            actions.append(_call(draw, draw.randrange(len(PROCESSES))))
    return actions


def _call(draw: random.Random, who: int) -> Action:
    strand = draw.choice(STRANDS[PROCESSES[who]])
    if PROCESSES[who] == "worker":
        strand = draw.choice([strand, "claim", "settle", "settle"])
    fate = draw.choice(["ok"] * 14 + ["lost", "lost", "late", "gone", "cut"])
    return Action("call", who, strand, fate, draw.randrange(10**9))


def _outage(draw: random.Random) -> list[Action]:
    """A process stops for longer than its lease; others look twice. Perhaps it wakes up."""
    who, beats = draw.randrange(len(PROCESSES)), [one for one in WORKERS if draw.random() < 0.5]
    actions = [Action("stop", who)]
    for ms in (LEASE_MS // 2 + 50, LEASE_MS // 2 + 50, GRACE_MS + 50):
        actions.append(Action("time", number=ms))
        for one in beats:
            actions += [Action("call", one, "beat", "ok", draw.randrange(10**9)) for _ in range(2)]
    tends = [Action("call", one, "tend", "ok", draw.randrange(10**9)) for one in WORKERS]
    return [*actions, *tends] + [Action("wake", who)] * (draw.random() < 0.7)


def shape_with(key: str) -> Shape:
    return Shape(unique=UniqueRule(key))


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
        return Process(name, kind, self.make_engine(), self.model, lambda: self.clock, numbers, self.dead, self.is_partitioned, self.subject)

    def make_strands(self, process: Process) -> dict[str, Strand]:
        return {name: Strand(Session(f"{process.name}.{name}")) for name in STRANDS[process.kind]}

    # Actions.

    def play(self, actions: Sequence[Action]) -> None:
        """Play the actions, and then let all that is left end. Raises `Violation`."""
        for action in actions:
            self.pass_time(1)
            getattr(self, action.what)(action)
        self.finish()

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
            doing.over, strand.steps = True, None
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
        pages, known = list[Asked](), [*doing.adds.values(), *map(self.model.new_of, self.model.alive())]
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

    # The end.

    def finish(self) -> None:
        """All processes are gone. What hindered jobs ends; one worker runs all that is left."""
        for who in range(len(PROCESSES)):
            self.kill(Action("kill", who))
        while self.late:
            self.deliver(Action("deliver"))
        last = self.make_process("worker")
        self.whole(last, self.resume(last))
        for number in range(ROUNDS_MOST):
            self.pass_time((LEASE_MS, GRACE_MS, 3 * HOUR, GRACE_MS)[number % 4] + 50)
            for queue in QUEUES:
                self.whole(last, last.engine.maintain([queue], [TASK], raw_queues=[queue]))
            self.drain(last)
            if not self.model.alive() and not self.model.expected and not self.is_waiting():
                break
        else:
            left = [f"{id} ({self.model.jobs[id].state})" for id in self.model.alive()]
            raise Violation(f"these jobs have not run: {left}, {sorted(self.model.expected)}")
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
                self.model.may["paused", queue] = {False}
            if Feature.LANE_POLICIES in engine.features:
                for lane in LANES:
                    yield from engine.lanes.resume_lane(queue, lane)
                    self.model.may[f"parked {queue}", lane] = {False}

    def check_schedule(self, stored: StoredSchedule) -> None:
        """Every planned time until the next one had a job, or was counted as missed."""
        name, state = (stored.spec.payload.decode() if stored.spec else ""), stored.state
        planned = (state.planned_ms - self.model.first_ticks[name]) // STEP_MS
        ran = sum(of == name for of, _ in self.model.ticks)
        require(state.runs == ran, f"schedule {name} counts {state.runs} runs, and had {ran}")
        require(ran + state.missed == planned, f"schedule {name}: {ran} ran, {state.missed} missed, of {planned}")

    def whole(self, process: Process, steps: Any, doing: Doing | None = None) -> None:
        """Run an operation to its end."""
        strand = Strand(Session(f"last{next(self.births)}"), steps, doing or Doing("last", process.name, self.clock))
        self.advance(strand)
        while strand.call is not None and strand.doing is not None:
            self.advance(strand, *self.execute(strand.call, strand.doing))

    def drain(self, last: Process) -> None:
        """Claim and complete, until there is no more."""
        for _ in range(ROUNDS_MOST):
            doing = Doing("claim", last.name, self.clock)
            self.whole(last, last.take(doing, QUEUES, 100), doing)
            leases = list(last.held.values())
            last.held.clear()
            if not leases:
                return
            outcome = Completed(b"r", 0)
            doing = Doing("settle", last.name, self.clock)
            doing.settles.update((lease.record.id, (lease.token, outcome)) for lease in leases)
            self.whole(last, last.engine.settle([(lease, outcome) for lease in leases]), doing)

    def is_waiting(self) -> bool:
        """Whether a change of partitions is under way, or a flow has not ended."""
        views = self.line.read(*(self.observer.flows.flow(one.queue, id) for id, one in self.model.groups.items()))
        return self.model.moving or any(view is not None and view.state is FlowState.OPEN for view in views)

    def check_end(self) -> None:
        for id, group in self.model.groups.items():
            (view,) = self.line.read(self.observer.flows.flow(group.queue, id))
            if view is not None:
                jobs, has_succeeded = self.model.jobs, view.state is FlowState.COMPLETED
                good = all(one.id in jobs and jobs[one.id].ends[State.COMPLETED] for one in group.members)
                require(good or not has_succeeded, f"{id} has completed without its members")
                require(has_succeeded or not good or group.stopping or not group.sealed, f"{id} has not completed")
                require(self.has_followed(group.end), f"the end of {id} was not followed")
                require(has_succeeded == self.has_followed(group.success), f"{id}: what follows success")
        if Feature.UNIQUE_KEYS in self.entry.features:
            self.check_keys()
        if self.observer.limits is not None:
            for name in ("a", "b", "rate"):
                active = self.line.read(self.observer.limits.limit(name))[0].active
                require(active == 0, f"{active} places of limit {name} are held by nobody")
        self.line.ask(Command(("DEL", CLOCK)))
        wrong = self.entry.audit(self.server, NAMESPACE)
        require(not wrong, "; ".join(wrong))

    def check_keys(self) -> None:
        """All jobs have ended, so each key is free."""
        probe = self.make_process("client")
        for queue in QUEUES:
            jobs = [NewJob(queue, f"{queue}-{key}", b"", task=TASK, shape=shape_with(key)) for key in KEYS]
            doing = Doing("enqueue", probe.name, self.clock)
            self.whole(probe, probe.add(jobs, doing), doing)
            require(len(doing.did) == len(KEYS), f"keys of {queue} are held by jobs that have ended")
            doing = Doing("discard", probe.name, self.clock, doing.did)
            for job in jobs:
                self.whole(probe, probe.engine.discard(queue, job.id), doing)
                doing.over = False

    def has_followed(self, new: NewJob) -> bool:
        return not {new.id, f"{new.id}-1"}.isdisjoint(self.model.jobs)
