"""Limits under thousands of simulated deaths, stops and cut replies, call by call in one process: S72."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from tenure.core.job import Lease, NewJob
from tenure.core.outcome import Completed, Crashed, Outcome, Released, Retried
from tenure.core.rates import LimitRule
from tenure.core.shape import Shape
from tenure.core.steps import Command, Invoke, Reply, Steps
from tenure.redis.sync import SyncDriver
from tests.faults.harness.scenario import scenario
from tests.faults.harness.stage import Stage
from tests.faults.harness.verdict import Bounds
from tests.support.engines import GRACE_MS, LEASE_MS, NATIVE, Options
from tests.support.gates import shift_limits
from tests.support.stepping import Crashed as Dead
from tests.support.stepping import Send, Session, send_with, step
from tests.support.world import BOOM, World

RULES: Final = {
    "narrow": LimitRule("narrow", concurrency=2),
    "wide": LimitRule("wide", cost=2, concurrency=5),
    "rate": LimitRule("rate", interval_us=50_000, burst=3),
    "both": LimitRule("both", concurrency=4, interval_us=20_000, burst=2),
}
QUEUES: Final = ("q", "r")
WORKERS: Final = 6
WAITING: Final = 30
DEATH: Final = 0.1
"""How likely a worker dies at a call: as often before Redis runs it as after."""
CUT: Final = 0.1
"""How likely a reply is cut, so that the call is sent again."""
STOP: Final = 0.04
GONE: Final = 6
"""After this many deaths and stops the silent workers count as dead."""
ROUNDS: Final = 2_000
NEVER: Final = 1_000_000
AUDITS: Final = 5
"""After this many times of silence all keys are looked at."""
_LOOK: Final = """
local time = redis.call('TIME')
local found = { time[1] * 1000000 + time[2] }
for n, name in ipairs(ARGV) do found[n + 1] = redis.call('SMEMBERS', KEYS[1] .. ':places:' .. name) end
return found
"""


@dataclass(slots=True)
class Worker:
    """A worker of the storm. `held`: the leases that it knows."""

    name: str
    session: Session
    held: list[Lease] = field(default_factory=list)


class Storm:
    """One storm of deaths. `wrong`: what must not be."""

    def __init__(self, stage: Stage, driver: SyncDriver) -> None:
        self.stage, self.chance = stage, stage.draw
        self.world = World(NATIVE, stage.server, driver, Options(max_crashes=NEVER))
        self.send = send_with(driver)
        self.hits: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.used_us = dict.fromkeys(RULES, 0)
        self.known: dict[str, set[bytes]] = {name: set() for name in RULES}
        self.passed_us = 0
        self.count = self.acts = self.silences = 0
        self.number = 0
        self.live = [self.worker() for _ in range(WORKERS)]
        self.stopped: list[Worker] = []
        self.gone = 0

    def worker(self) -> Worker:
        self.number += 1
        return Worker(f"w{self.number}", Session(f"storm-{self.number}"))

    def run(self, worker: Worker, steps: Steps[Any]) -> Any:
        """Run an operation of a worker, which may die at any call of it. Raises `Dead`."""

        def fate(number: int, call: Command | Invoke, send: Send) -> Reply:
            drawn = self.chance.random()
            if drawn < DEATH:
                if drawn < DEATH / 2:
                    send(call)
                raise Dead
            if drawn < DEATH + CUT:
                self.hits["cut replies"] += 1
                send(call)
            return send(call)

        return step(steps, worker.session, self.send, fate)

    def act(self) -> None:
        self.acts += 1
        if self.acts % WORKERS == 1 and self.waiting() < WAITING:
            self.enqueue()
        worker = self.chance.choice(self.live)
        if self.chance.random() < STOP and len(self.live) > 2:
            self.hits["stops"] += 1
            self.gone += 1
            self.live.remove(worker)
            self.stopped.append(worker)
        else:
            try:
                self.chance.choice((self.claim, self.claim, self.settle, self.settle, self.beat))(worker)
            except Dead:
                self.hits["kills"] += 1
                self.gone += 1
                self.live[self.live.index(worker)] = self.worker()
        if self.gone >= GONE:
            self.silence()

    def enqueue(self) -> None:
        jobs = []
        for _ in range(WAITING):
            self.count += 1
            names = self.chance.sample(sorted(RULES), self.chance.choice([1, 1, 2, 3]))
            share = self.chance.choice([None, "s1", "s2"])
            shape = Shape(limits=tuple(RULES[name] for name in names), share=share)
            queue = self.chance.choice(QUEUES)
            jobs.append(NewJob(queue, f"{queue}{self.count}", b"", shape=shape))
        for queue in QUEUES:
            self.world.run(self.world.engine.enqueue([job for job in jobs if job.queue == queue]))

    def claim(self, worker: Worker) -> None:
        before_us, _ = self.look()
        try:
            found = self.run(worker, self.world.engine.lease(worker.name, [self.chance.choice(QUEUES)], 4, slots=4))
            worker.held += found.leases
        finally:
            self.check(before_us)

    def look(self) -> tuple[int, list[list[bytes]]]:
        """The time, that has passed without waiting included, and the places that are held."""
        now_us, *held = self.world.command("EVAL", _LOOK, 1, self.world.engine.shared(), *RULES)
        return now_us + self.passed_us, held

    def check(self, before_us: int) -> None:
        """No more places are held than a limit has, and no job has started before its rate allowed it.

        The claim was at some time after `before_us` and before now: no start that this finds too early was in time.
        """
        after_us, held = self.look()
        for (name, rule), members in zip(RULES.items(), held, strict=True):
            self.most[name] = max(self.most[name], len(members))
            if rule.concurrency is not None and len(members) > rule.concurrency:
                self.wrong.append(f"{name}: {len(members)} places are held, allowed are {rule.concurrency}")
            leases = {member.rpartition(b" ")[0] for member in members}
            for _ in leases - self.known[name]:
                self.hits["starts"] += 1
                if rule.interval_us is not None:
                    self.used_us[name] = max(self.used_us[name], before_us) + rule.interval_us
                    if self.used_us[name] - after_us > rule.burst * rule.interval_us:
                        self.wrong.append(f"{name}: a job started before the rate allows it")
            self.known[name] = leases

    def settle(self, worker: Worker) -> None:
        for _ in range(min(len(worker.held), 2)):
            lease = worker.held.pop(self.chance.randrange(len(worker.held)))
            outcome = self.outcome(lease)
            (settled,) = self.run(worker, self.world.engine.settle([(lease, outcome)]))
            if not settled:
                self.wrong.append(f"{lease.record.id}: the lease of a living worker was lost")

    def outcome(self, lease: Lease) -> Outcome:
        name = lease.record.shape.limits[0].name
        outcomes: list[Outcome] = [
            *6 * [Completed(b"", 0)],
            Retried(BOOM),
            Retried(BOOM, 5_000),
            Retried(BOOM, 2_000, deferred=True, limit=name),
            Released(),
            Crashed(),
        ]
        return self.chance.choice(outcomes)

    def beat(self, worker: Worker) -> None:
        self.run(worker, self.world.engine.heartbeat(worker.name, QUEUES, [lease.ref for lease in worker.held]))

    def pass_time(self, ms: int) -> None:
        """Let time pass. Those that live keep their leases."""
        for queue in QUEUES:
            self.world.pass_time(ms, queue)
        shift_limits(self.world.server, self.world.engine.shared(), ms)
        self.passed_us += ms * 1_000
        for worker in self.live:
            refs = [lease.ref for lease in worker.held]
            self.world.run(self.world.engine.heartbeat(worker.name, QUEUES, refs))
        for queue in QUEUES:
            while self.world.maintain(queue=queue).more:
                pass

    def silence(self) -> None:
        """The dead and the stopped lose their leases. Those that were stopped continue: what they settle is refused."""
        self.gone = 0
        self.pass_time(LEASE_MS + 50)
        self.pass_time(GRACE_MS + 50)
        for worker in self.stopped:
            for lease in worker.held:
                (settled,) = self.world.run(self.world.engine.settle([(lease, Completed(b"", 0))]))
                if settled:
                    self.wrong.append(f"{lease.record.id}: a worker settled a lease that it had lost")
            worker.held.clear()
        self.live += self.stopped
        self.stopped.clear()
        live = {worker.name.encode() for worker in self.live}
        for queue in QUEUES:
            holders = self.world.command("ZRANGE", self.world.key("holders", queue), 0, -1)
            if lost := set(holders) - live:
                self.wrong.append(f"{lost} have died and hold leases of {queue}")
        self.silences += 1
        if self.silences % AUDITS == 1:
            self.world.audit()

    def finish(self) -> None:
        """The storm is over: all jobs run, and no place is held."""
        for worker in self.live:
            self.world.run(self.world.engine.leave(worker.name, QUEUES))
        last = Worker("last", Session("last"))
        for _ in range(ROUNDS):
            for queue in QUEUES:
                for lease in self.world.run(self.world.engine.lease(last.name, [queue], 10, slots=10)).leases:
                    assert self.world.settle(lease, Completed(b"", 0))
            if not self.waiting():
                break
            self.live = [last]
            self.pass_time(1_000)
        self.world.audit()

    def waiting(self) -> int:
        """How many jobs have not ended."""
        return sum(sum(self.world.counts(queue).values()) for queue in QUEUES)


@scenario(
    "S72",
    "limits in thousands of simulated deaths and stops, each at any call, with cut replies",
    Bounds({"kills at a call": 10}),
    jobs=10,
)
def storm(stage: Stage) -> None:
    """No limit is exceeded, no place is lost, and each job runs."""
    stage.serve()
    with closing(SyncDriver(stage.server.url)) as driver:
        play(stage, Storm(stage, driver))
    stage.server.flush()


def play(stage: Stage, one: Storm) -> None:
    """As many deaths as the size of the stage."""
    while one.hits["kills"] < stage.size and not one.wrong:
        one.act()
    one.silence()
    one.finish()
    stage.expect(not one.wrong, "; ".join(one.wrong[:5]))
    stage.expect(not one.waiting(), f"{one.waiting()} of {one.count} jobs have not run")
    completed = sum(one.world.run(one.world.engine.queue(queue)).totals["completed"] for queue in QUEUES)
    stage.expect(completed == one.count, f"{completed} of {one.count} jobs have completed")
    held = {name: one.world.run(one.world.engine.limits.limit(name)).active for name in RULES}
    stage.expect(not any(held.values()), f"places are lost: {held}")
    for name, what in (("kills", "kills at a call"), ("stops", "stops at a call"), ("cut replies", "cut replies")):
        stage.fault(what, one.hits[name])
    words = ", ".join(f"{count:,} {name}" for name, count in sorted(one.hits.items()))
    print(f"    {one.count:,} jobs, {words}; most places: {dict(one.most)}")


ALL: Final = (storm,)
