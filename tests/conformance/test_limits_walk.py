"""Random histories of two queues under limits: at no step is a limit exceeded, a place lost or a gate shut for ever.

TENURE_WALKS=200 pytest tests/conformance/test_limits_walk.py      more of them
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from tenure.core.engine import Feature
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Completed, Crashed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.rates import LimitRule
from tenure.core.shape import Conflict, Shape, UniqueRule
from tenure.core.steps import Command, Invoke, Reply, Steps
from tenure.core.values import replace
from tests.support.gates import shift_limits
from tests.support.stepping import Send, Session, send_with, step
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.LIMITS, Feature.SHARES, Feature.UNIQUE_KEYS)

WALKS: Final = int(os.environ.get("TENURE_WALKS", "3"))
STEPS: Final = 120
HOUR_MS: Final = 3_600_000
QUEUES: Final = ("q", "r")
CONFLICTS: Final = (Conflict.REPLACE, Conflict.REPLACE, Conflict.RERUN, Conflict.EXISTING)
WORKERS: Final = ("w1", "w2", "w3")
CODE: Final = {
    "a": LimitRule("a", concurrency=2),
    "b": LimitRule("b", concurrency=3),
    "rate": LimitRule("rate", interval_us=HOUR_MS * 1000, burst=3),
    "both": LimitRule("both", concurrency=2, interval_us=HOUR_MS * 1000, burst=4),
}


class Walk:
    """One history, and what must be true of it."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        self.session, self.send = Session(f"walk-{seed}"), send_with(world.driver)
        self.held: list[Lease] = []
        self.late: list[Lease] = []
        self.ended: Counter[str] = Counter()
        self.open: set[str] = set()
        self.stored: dict[str, int] = {}
        self.budget = {name: rule.burst for name, rule in CODE.items() if rule.interval_us}
        self.number = 0
        self.log: list[str] = []

    def run(self, steps: Steps[Any]) -> Any:
        """Run an operation. Some of the replies are cut, so that the call is sent twice."""

        def fate(number: int, call: Command | Invoke, send: Send) -> Reply:
            if self.chance.random() < 0.2:
                send(call)
            return send(call)

        return step(steps, self.session, self.send, fate)

    def act(self) -> None:
        acts: list[Callable[[], None]] = (
            3 * [self.enqueue] + 4 * [self.claim] + 4 * [self.settle]
            + [self.die, self.answer_late, self.cancel, self.retry, self.change, self.purge, self.park]
            + [self.hour, self.leave, self.discard, self.pause, self.tidy]
        )  # fmt: skip
        act = self.chance.choice(acts)
        self.log.append(act.__name__)
        act()

    def enqueue(self) -> None:
        lane = self.chance.choice([None, None, "L1", "L2"])
        share = None if lane else self.chance.choice([None, "s1", "s2"])
        queue, rules, key = self.chance.choice(QUEUES), self.rules(), self.chance.choice([None, "k1", "k2"])
        jobs = []
        for _ in range(self.chance.randint(1, 4)):
            self.number += 1
            unique = None if key is None else UniqueRule(key, conflict=self.chance.choice(CONFLICTS))
            shape = Shape(lane=lane, limits=rules, share=share, unique=unique)
            jobs.append(NewJob(queue, f"{queue}{self.number}", b"", shape=shape))
        self.open |= {answer.id for answer in self.run(self.world.engine.enqueue(jobs)) if answer.created}

    def rules(self) -> tuple[LimitRule, ...]:
        names = self.chance.sample(sorted(CODE), self.chance.choice([0, 1, 1, 2]))
        if self.chance.random() < 0.2:
            names = ["a", "b"]  # only for leases that end, places of two limits are kept free
        return tuple(replace(CODE[name], cost=self.chance.choice([1, 1, 2])) for name in names)

    def claim(self) -> None:
        worker, queue = self.chance.choice(WORKERS), self.chance.choice(QUEUES)
        limit, slots = self.chance.randint(1, 6), self.chance.choice([1, 4])
        leased = self.run(self.world.engine.lease(worker, [queue], limit, slots=slots))
        self.held += leased.leases
        for lease in leased.leases:
            for rule in lease.record.shape.limits:
                self.check(rule)

    def check(self, rule: LimitRule) -> None:
        """A job that has just started exceeds no limit."""
        most = self.stored.get(rule.name) or CODE[rule.name].concurrency
        active = self.world.run(self.world.engine.limits.limit(rule.name)).active
        assert most is None or active <= most, f"{active} run under {rule.name}, allowed are {most}"
        if rule.interval_us:
            self.budget[rule.name] -= min(rule.cost, rule.burst)
            assert self.budget[rule.name] >= 0, f"more jobs of {rule.name} started than its rate allows"

    def settle(self) -> None:
        for _ in range(min(len(self.held), self.chance.randint(1, 3))):
            lease = self.held.pop(self.chance.randrange(len(self.held)))
            self.verdict(lease, self.outcome(lease))

    def outcome(self, lease: Lease) -> Outcome:
        name = next((rule.name for rule in lease.record.shape.limits), None)
        choices: list[Outcome] = [
            *4 * [Completed(b"", 0)],
            Completed(b"r", 60_000),
            Failed(BOOM),
            Retried(BOOM, self.chance.choice([0, 60_000])),
            Retried(BOOM, 60_000, deferred=True, limit=self.chance.choice([None, name])),
            Released(),
            Crashed(),
            Unroutable(),
        ]
        return self.chance.choice(choices)

    def verdict(self, lease: Lease, outcome: Outcome) -> bool:
        (settled,) = self.run(self.world.engine.settle([(lease, outcome)]))
        if settled and isinstance(outcome, (Completed, Failed)):
            self.end(lease.record.id)
        if self.chance.random() < 0.2:
            self.late.append(lease)
        return bool(settled)

    def end(self, id: str) -> None:
        self.ended[id] += 1
        self.open.discard(id)

    def answer_late(self) -> None:
        if self.late:
            lease = self.late.pop()
            if lease not in self.held:
                assert not self.verdict(lease, Completed(b"", 0)), "a lease that has ended was settled again"

    def die(self) -> None:
        """All workers are silent for so long that they count as dead, unless Redis seems to have been away."""
        for queue in QUEUES:
            self.world.silence(queue)
        for worker in WORKERS:
            refs = [lease.ref for lease in self.held if lease.worker == worker]
            lost = self.world.run(self.world.engine.heartbeat(worker, QUEUES, refs)).lost
            self.late += [lease for lease in self.held if lease.ref in lost]
            self.held = [lease for lease in self.held if lease.ref not in lost]

    def leave(self) -> None:
        worker = self.chance.choice(WORKERS)
        self.run(self.world.engine.leave(worker, QUEUES, self.chance.random() < 0.3))
        self.late += [lease for lease in self.held if lease.worker == worker]
        self.held = [lease for lease in self.held if lease.worker != worker]

    def waiting(self) -> list[str]:
        held = {lease.record.id for lease in self.held}
        return sorted(self.open - held)

    def cancel(self) -> None:
        for id in self.chance.sample(self.waiting(), min(2, len(self.waiting()))):
            if self.run(self.world.engine.cancel(id[0], id)):
                self.open.discard(id)

    def discard(self) -> None:
        if waiting := self.waiting():
            id = self.chance.choice(waiting)
            if self.run(self.world.engine.discard(id[0], id)):
                self.open.discard(id)

    def retry(self) -> None:
        for queue in QUEUES:
            for state in (State.FAILED, State.CANCELLED, State.SCHEDULED, State.UNROUTABLE):
                for job in self.world.run(self.world.engine.page(queue, state, limit=1)).jobs:
                    edit = (b"", Shape(limits=self.rules())) if self.chance.random() < 0.5 else ()
                    if self.run(self.world.engine.retry(queue, job.id, *edit)):
                        self.open.add(job.id)

    def purge(self) -> None:
        if self.chance.random() < 0.3:
            queue = self.chance.choice(QUEUES)
            self.run(self.world.engine.cancel_all(queue, self.chance.choice([None, "L1"])))
            for id in self.waiting():
                if self.world.state(id, queue) in (None, State.CANCELLED) and id[0] == queue:
                    self.open.discard(id)

    def park(self) -> None:
        lane, queue = self.chance.choice(["L1", "L2"]), self.chance.choice(QUEUES)
        act = self.chance.choice([self.world.engine.park_lane, self.world.engine.resume_lane])
        self.run(act(queue, lane))

    def pause(self) -> None:
        self.run(self.world.engine.settings.configure(self.chance.choice(QUEUES), paused=self.chance.random() < 0.4))

    def change(self) -> None:
        name = self.chance.choice(["a", "b", "both"])
        if self.chance.random() < 0.3:
            self.run(self.world.engine.limits.clear_limit(name))
            self.stored.pop(name, None)
        else:
            self.stored[name] = self.chance.randint(1, 5)
            self.run(self.world.engine.limits.set_limit(name, concurrency=self.stored[name]))

    def hour(self) -> None:
        """Time passes: the leases are kept by heartbeats."""
        for queue in QUEUES:
            self.world.pass_time(HOUR_MS, queue)
            for worker in {lease.worker for lease in self.held}:
                refs = [lease.ref for lease in self.held if lease.worker == worker]
                self.world.run(self.world.engine.heartbeat(worker, [queue], refs))
        shift_limits(self.world.server, self.world.engine.shared(), HOUR_MS)
        for name in self.budget:
            self.budget[name] = min(self.budget[name] + 1, CODE[name].burst)

    def tidy(self) -> None:
        for queue in QUEUES:
            self.run(self.world.engine.maintain([queue], []))
            self.run(self.world.engine.heartbeat(self.chance.choice(WORKERS), [queue], []))

    def finish(self) -> None:
        """All that hindered jobs ends. Then all of them run."""
        for queue in QUEUES:
            self.run(self.world.engine.settings.configure(queue, paused=False))
            for lane in ("L1", "L2"):
                self.run(self.world.engine.lanes.resume_lane(queue, lane))
        for lease in [*self.held]:
            self.verdict(lease, Completed(b"", 0))
        self.held.clear()
        for _ in range(300):
            self.world.run(self.world.engine.maintain(QUEUES, [], raw_queues=QUEUES))
            for queue in QUEUES:
                for lease in self.world.run(self.world.engine.lease("last", [queue], 10, slots=10)).leases:
                    assert self.verdict(lease, Completed(b"", 0))
            # A job that was active when it was cancelled ends when its lease does.
            self.open = {id for id in self.open if not ((view := self.world.job(id, id[0])) and view.state.ended)}
            if not self.open:
                return
            self.hour()
        raise AssertionError(f"these jobs have not run: {[self.world.job(id, id[0]) for id in sorted(self.open)]}")


@pytest.mark.parametrize("case", range(WALKS))
def test_limits_hold_and_lose_nothing_in_a_random_history(world: World, case: int) -> None:
    walk = Walk(world, case)
    try:
        for _ in range(STEPS):
            walk.act()
            world.audit()
        walk.finish()
        world.audit()
        for name in CODE:
            assert world.run(world.engine.limits.limit(name)).active == 0
    except BaseException:
        print(f"seed {case}:", " ".join(walk.log))
        raise
