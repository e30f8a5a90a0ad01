"""Clients, workers and keepers: processes with an engine of their own, and what they do as operations of that engine.

Each operation says in its `Doing` what it may change before it makes a call, and compares its answer with what changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tenure.core.engine import Feature, Trait
from tenure.core.errors import InvalidArgument, NotUnique, QueueFull, UnsupportedFeature
from tenure.core.flows import Callback, NewFlow, member_id, membership
from tenure.core.job import Lease, NewJob, State
from tenure.core.limits import HOUR, MAX_HELD
from tenure.core.outcome import Broken, Cancelled, Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.rates import LimitRule
from tenure.core.schedules import rules
from tenure.core.schedules.schedule import CatchUp, Overlap, ScheduleSpec, Ticked
from tenure.core.shape import Conflict, Shape, UniqueRule, Until
from tenure.core.values import replace as replaced
from tests.simulation.model import Model
from tests.simulation.values import Doing, Group, require
from tests.support.schedules import tick_of
from tests.support.world import BOOM

Operation: TypeAlias = Generator[Any, Any, None]
QUEUES: Final = ("q", "p")
LANES: Final = ("A", "B")
KEYS: Final = ("k", "l")
TASK: Final = "t"
RECORD_MS: Final = 7 * 24 * HOUR
LATE_MS: Final = 30_000
STEP_MS: Final = 60_000
CODE: Final = {
    "a": LimitRule("a", concurrency=1),
    "b": LimitRule("b", concurrency=2),
    "rate": LimitRule("rate", interval_us=1000 * HOUR, burst=2),
}
CONFLICTS: Final = (Conflict.REJECT, Conflict.EXISTING, Conflict.REPLACE, Conflict.RERUN)


@dataclass
class Process:
    """A client, a worker or a keeper. `held`: the leases that a worker knows; `old`: others, which it has lost.

    `orphans`: what its last heartbeat named.
    `failed`: jobs of a client whose enqueue ended in doubt, which it enqueues again."""

    name: str
    kind: str
    engine: Any
    model: Model
    clock: Callable[[], int]
    numbers: Callable[[], int]
    dead: list[str]
    partitioned: bool = False
    subject: str = ""
    stopped: bool = False
    held: dict[str, Lease] = field(default_factory=dict)
    old: list[Lease] = field(default_factory=list)
    orphans: frozenset[Any] = frozenset()
    failed: list[NewJob] = field(default_factory=list)
    is_claiming: bool = False

    def has(self, *features: Feature) -> bool:
        return all(feature in self.engine.features for feature in features)

    def known(self, draw: random.Random, *states: State) -> str | None:
        """A job that the model has in one of these states."""
        found = [id for id, job in self.model.jobs.items() if job.state in states]
        return draw.choice(found) if found else None

    # What clients do.

    def shape(self, draw: random.Random) -> Shape:
        """Where a new job waits: plain, in a lane, under limits, with a key, or for a share."""
        options: dict[str, list[Shape]] = {"plain": [Shape()]}
        if self.has(Feature.LANES):
            options["lane"] = 2 * [Shape(lane=draw.choice(LANES))]
        if self.has(Feature.LANE_POLICIES):
            options["lane"].append(Shape(lane="C", lane_limit=2))
        if self.has(Feature.LIMITS) and not self.partitioned:
            names = draw.choice([["a"], ["b"], ["a", "b"], ["rate"], ["b", "rate"]])
            of = tuple(replaced(CODE[name], cost=draw.choice([1, 1, 2])) for name in names)
            where = Shape(lane=draw.choice(LANES)), Shape(share=draw.choice("xy")), Shape(), Shape()
            options["limit"] = [replaced(shape, limits=of) for shape in where]
        if self.has(Feature.UNIQUE_KEYS):
            rule = UniqueRule(draw.choice(KEYS), draw.choice([Until.ENDED, Until.ENDED, Until.STARTED]))
            options["unique"] = 3 * [Shape(unique=replaced(rule, conflict=draw.choice(CONFLICTS)))]
        if self.has(Feature.PRIORITIES):
            options["priority"] = [Shape(priority=draw.choice([-5, 5]))]
        return draw.choice(options.get(self.subject) or [shape for some in options.values() for shape in some])

    def enqueue(self, draw: random.Random, doing: Doing) -> Operation:
        queue, shape = draw.choice(QUEUES), self.shape(draw)
        delay_ms = draw.choice([0, 0, 0, LATE_MS]) if self.has(Feature.DELAY) else 0
        jobs = [
            NewJob(queue, f"{queue}{self.numbers()}", b"p", task=TASK, delay_ms=delay_ms, shape=shape)
            for _ in range(draw.randint(1, 3))
        ]
        yield from self.add(jobs, doing)

    def enqueue_again(self, draw: random.Random, doing: Doing) -> Operation:
        """A caller that got an error enqueues the same jobs again."""
        if self.failed and self.has(Feature.OWN_ID):
            yield from self.add(self.failed, doing)

    def add(self, jobs: list[NewJob], doing: Doing) -> Operation:
        own_id = self.has(Feature.OWN_ID)
        jobs = [
            NewJob(job.queue, job.id, job.payload, task=job.task, delay_ms=job.delay_ms, own_id=own_id, shape=job.shape)
            for job in jobs
        ]
        there = set(self.model.jobs)
        doing.adds.update((job.id, job) for job in jobs)
        self.failed = jobs
        try:
            answers = yield from self.engine.enqueue(jobs)
        except QueueFull:
            self.failed = []
            return
        self.failed = []
        for job, answer in zip(jobs, answers, strict=True):
            require(answer.created == (job.id in doing.did), f"enqueue of {job.id} answers {answer}")
            if answer.conflict is not None:
                rules_of = {one.key for one in (job.shape.unique, self.key_of(answer.id)) if one}
                require(len(rules_of) == 1, f"enqueue of {job.id} names {answer.id}")
            elif not answer.created:
                require(job.id in there, f"enqueue of {job.id} says that it exists")

    def key_of(self, id: str) -> UniqueRule | None:
        return self.model.jobs[id].new.shape.unique

    def act(self, draw: random.Random, doing: Doing, states: tuple[State, ...]) -> Operation:
        """Cancel, discard or retry one job."""
        id = self.known(draw, *states)
        if id is None or self.model.is_moving() or (doing.kind == "retry" and self.is_member(id)):
            return
        doing.ids.add(id)
        try:
            answer = yield from getattr(self.engine, doing.kind)(self.model.jobs[id].new.queue, id)
        except (NotUnique, UnsupportedFeature):  # it is active, where only waiting jobs can be cancelled
            answer = False
        done = str(answer) == "cancelled" if doing.kind == "cancel" else bool(answer)
        if done and self.model.is_moving() and id not in doing.did:
            self.model.drop(id)  # it was on its way, where nobody sees it
        else:
            require(done == (id in doing.did), f"{doing.kind} of {id} answers {answer}")

    def is_member(self, id: str) -> bool:
        return any(self.model.jobs[id].new in group.members for group in self.model.groups.values())

    def cancel(self, draw: random.Random, doing: Doing) -> Operation:
        yield from self.act(draw, doing, (State.READY, State.SCHEDULED, State.ACTIVE, State.UNROUTABLE))

    def discard(self, draw: random.Random, doing: Doing) -> Operation:
        yield from self.act(draw, doing, (State.READY, State.SCHEDULED, State.FAILED))

    def retry(self, draw: random.Random, doing: Doing) -> Operation:
        yield from self.act(draw, doing, (State.FAILED, State.BROKEN, State.CANCELLED))

    def change(self, name: tuple[str, str], value: int | bool, steps: Any) -> Operation:
        """Change a setting: until the change has returned, the old and the new value may hold."""
        self.model.may[name].add(value)
        yield from steps
        self.model.may[name] = {value}

    def pause(self, draw: random.Random, doing: Doing) -> Operation:
        queue, paused = draw.choice(QUEUES), draw.random() < 0.4
        if self.engine.settings is not None and self.has(Feature.PAUSE):
            yield from self.change(("paused", queue), paused, self.engine.settings.configure(queue, paused=paused))

    def park(self, draw: random.Random, doing: Doing) -> Operation:
        queue, lane, parks = draw.choice(QUEUES), draw.choice(LANES), draw.random() < 0.4
        if self.engine.lanes is not None and self.has(Feature.LANE_POLICIES):
            act = self.engine.lanes.park_lane if parks else self.engine.lanes.resume_lane
            yield from self.change((f"parked {queue}", lane), parks, act(queue, lane))

    def limit(self, draw: random.Random, doing: Doing) -> Operation:
        name, most = draw.choice("ab"), draw.randint(1, 3)
        if self.engine.limits is None:
            return
        if draw.random() < 0.3:
            yield from self.change(("limit", name), False, self.engine.limits.clear_limit(name))
        else:
            yield from self.change(("limit", name), most, self.engine.limits.set_limit(name, concurrency=most))

    def flow(self, draw: random.Random, doing: Doing) -> Operation:
        """Make a group or a chain with members in both queues."""
        if self.engine.flows is None:
            return
        number, is_chain = self.numbers(), draw.random() < 0.4
        id, count, queue = f"F{number}", draw.randint(2, 4), draw.choice(QUEUES)
        success, end = (NewJob("q", f"q-{name}{number}", b"[]", task=TASK) for name in ("success", "end"))
        members = [member_id(id, n) for n in range(count)]
        shape = Shape(flow=membership(queue, results=True, is_chain=is_chain))
        jobs = [NewJob(draw.choice(QUEUES), one, b"[]", task=TASK, shape=shape) for one in members]
        flow = NewFlow(queue, id, RECORD_MS, True, False, Callback(success), Callback(end), 2 * HOUR, is_chain)
        self.model.groups[id] = Group(queue, jobs, success, end, is_chain, self.clock() + 2 * HOUR)
        if is_chain:
            parts = tuple(Callback(replace_id(job)) for job in jobs)
            yield from self.engine.flows.start_flow(replaced(flow, members=parts))
            self.model.groups[id].sealed = True
            return
        yield from self.engine.flows.open_flow(flow)
        first = yield from self.engine.flows.grow_flow(queue, id, count, QUEUES)
        require(first in (0, None), f"the first member of {id} is {first}")
        if first == 0:
            doing.adds.update((job.id, job) for job in jobs)
            yield from self.engine.enqueue(jobs)
        yield from self.engine.flows.seal_flow(queue, id)
        self.model.groups[id].sealed = first == 0

    def stop_flow(self, draw: random.Random, doing: Doing) -> Operation:
        if self.engine.flows is not None and self.model.groups:
            id = draw.choice(sorted(self.model.groups))
            self.model.groups[id].stopping = True
            yield from self.engine.flows.stop_flow(self.model.groups[id].queue, id, "no longer wanted", True)

    def schedule(self, draw: random.Random, doing: Doing) -> Operation:
        """Add a schedule, or remove one."""
        if self.engine.schedules is None:
            return
        name = draw.choice(["s1", "s2"])
        queue = "q" if name == "s1" else "p"
        if draw.random() < 0.2:
            yield from self.engine.schedules.remove_schedule(queue, name)
            return
        known = yield from self.engine.schedules.schedule(queue, name)
        if known[1] is None:
            spec = schedule_of(queue, f"{name}.{self.numbers()}", name, draw.choice(list(CatchUp)))
            first = self.model.first_ticks[spec.payload.decode()] = rules.first(spec, self.clock())
            yield from self.engine.schedules.put_schedule(spec, rules.digest_of(spec), "", first, first)

    def repartition(self, draw: random.Random, doing: Doing) -> Operation:
        if self.engine.partitions is not None and self.partitioned:
            try:
                yield from self.engine.partitions.repartition(draw.choice(QUEUES), draw.choice([1, 2, 3, 5]))
            except InvalidArgument:
                return  # another change is under way

    # What workers do.

    def claim(self, draw: random.Random, doing: Doing) -> Operation:
        queues = draw.choice([QUEUES, QUEUES[::-1], QUEUES[:1], QUEUES[1:]])
        yield from self.take(doing, queues, draw.randint(1, 4), draw.choice([1, 4]), draw.choice([1, 1, 3]))

    def take(
        self, doing: Doing, queues: Sequence[str], limit: int, slots: int = MAX_HELD, of_lane: int = 1
    ) -> Operation:
        together = dict.fromkeys(queues, of_lane) if self.has(Feature.LANES) else None
        self.is_claiming = True
        try:
            leased = yield from self.engine.lease(self.name, queues, limit, slots=slots, of_lane=together)
        finally:
            self.is_claiming = False
        got = {lease.record.id: lease for lease in leased.leases}
        # What a call without a reply took is lost on its way, if another queue gave jobs. It may be reclaimed by now.
        held = [id for id in doing.did - set(got) if self.model.is_held_by(self.name, id)]
        is_right = set(got) <= doing.did and (doing.failed or not held)
        require(is_right, f"a claim of {self.name} returned {sorted(got)}, and took {sorted(doing.did)}")
        for id, lease in got.items():
            require(lease.token in self.model.jobs[id].tokens, f"the token of {id} is another one")
        self.old += [self.held[id] for id in got if id in self.held]
        self.held.update(got)

    def settle(self, draw: random.Random, doing: Doing) -> Operation:
        if not self.held:
            return
        if self.old and draw.random() < 0.3:
            yield from self.settle_these([(self.old.pop(), Completed(b"r", 0))], doing)
            return
        first = draw.choice(list(self.held.values()))
        chosen = [first]
        if first.group:
            chosen = [lease for lease in self.held.values() if lease.group == first.group]
        elif draw.random() < 0.3:
            chosen = list(self.held.values())[:3]
            chosen = chosen if not any(lease.group for lease in chosen) else [first]
        for lease in chosen:
            del self.held[lease.record.id]
        yield from self.settle_these([(lease, self.outcome(draw, lease)) for lease in chosen], doing)

    def settle_these(self, settlements: list[tuple[Lease, Outcome]], doing: Doing) -> Operation:
        doing.settles.update((lease.record.id, (lease.token, outcome)) for lease, outcome in settlements)
        answers = yield from self.engine.settle(settlements)
        for (lease, outcome), answer in zip(settlements, answers, strict=True):
            did = lease.record.id in doing.did
            require(answer == did, f"settle of {lease.record.id} with {outcome} answers {answer}")

    def outcome(self, draw: random.Random, lease: Lease) -> Outcome:
        options: list[Outcome] = [Completed(b"r", 0), Completed(b"r", 0), Completed(b"r", RECORD_MS), Failed(BOOM)]
        options += [Retried(BOOM), Released(), Crashed(), Broken(BOOM), Cancelled("x")]
        if Trait.RETRY_DELAY in self.engine.traits:
            options.append(Retried(BOOM, LATE_MS))
        if self.has(Feature.UNROUTABLE):
            options.append(Unroutable())
        if lease.record.shape.limits:
            options.append(Retried(BOOM, LATE_MS, deferred=True, limit=lease.record.shape.limits[0].name))
        if self.has(Feature.FLOWS) and not lease.record.shape.flow:
            follow = NewJob(draw.choice(QUEUES), f"f{self.numbers()}", b"p", task=TASK)
            options += 2 * [Completed(b"r", 0, (follow,))]
        return draw.choice(options)

    def beat(self, draw: random.Random, doing: Doing) -> Operation:
        known = {lease.ref: lease for lease in self.held.values()}
        held = {ref: self.model.is_held_by(self.name, ref.id, ref.token) for ref in known}
        reply = yield from self.engine.heartbeat(self.name, QUEUES, list(known))
        self.model.note(self.name, QUEUES, doing.began)
        for ref in known:
            if ref in reply.lost:
                require(
                    not self.model.is_held_by(self.name, ref.id, ref.token), f"a heartbeat says that {ref.id} is lost"
                )
                if self.held.get(ref.id) is known[ref]:
                    self.old.append(self.held.pop(ref.id))
            else:
                require(held[ref], f"a heartbeat says that {ref.id} is held")
        self.orphans, before = frozenset(lease.ref for lease in reply.orphaned), self.orphans
        lost = [lease for lease in reply.orphaned if lease.ref in before and lease.record.id not in self.held]
        doing.settles.update((lease.record.id, (lease.token, Released())) for lease in lost)
        if lost and not self.is_claiming:
            yield from self.engine.settle([(lease, Released()) for lease in lost])

    def tend(self, draw: random.Random, doing: Doing) -> Operation:
        queue = draw.choice(QUEUES)
        yield from self.engine.maintain([queue], [TASK], draw.choice([1, 2, 100]), raw_queues=[queue])

    def tick(self, draw: random.Random, doing: Doing) -> Operation:
        """Look for due schedules, and make their ticks."""
        if self.engine.schedules is None:
            return
        queue = draw.choice(QUEUES)
        due = yield from self.engine.schedules.due_schedules(queue, 100)
        ticks = [tick_of(one, due.now_ms, f"{queue}{self.numbers()}") for one in due.schedules]
        doing.adds.update((one.job.id, one.job) for one in ticks if one.job)
        if ticks:
            answers = yield from self.engine.schedules.tick(queue, ticks)
            for one, answer in zip(ticks, answers, strict=True):
                added = one.job is not None and one.job.id in doing.did
                require((answer is Ticked.ENQUEUED) == added, f"a tick of {one.name} answers {answer}")

    def leave(self, draw: random.Random, doing: Doing) -> Operation:
        """A worker stops, and gives back what it holds."""
        self.old += self.held.values()
        self.held.clear()
        count = yield from self.engine.leave(self.name, QUEUES)
        require(count == len(doing.did), f"leave of {self.name} answers {count}, and gave back {sorted(doing.did)}")

    def keep(self, draw: random.Random, doing: Doing) -> Operation:
        """A parent process sees that a worker is dead."""
        if self.dead:
            doing.kind, doing.actor = "leave", draw.choice(self.dead)
            count = yield from self.engine.leave(doing.actor, QUEUES, True)
            require(count == len(doing.did), f"leave of {doing.actor} answers {count}, not {len(doing.did)}")


def replace_id(job: NewJob) -> NewJob:
    return NewJob(job.queue, "", job.payload, task=job.task, shape=job.shape)


def schedule_of(queue: str, payload: str, name: str, catch_up: CatchUp) -> ScheduleSpec:
    return ScheduleSpec(
        name=name, queue=queue, every_ms=STEP_MS, window_ms=RECORD_MS, overlap=Overlap.ALLOW, catch_up=catch_up,
        task=TASK, payload=payload.encode(),
    )  # fmt: skip
