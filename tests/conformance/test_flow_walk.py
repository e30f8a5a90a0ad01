"""Random histories of a group: members end in every way, in two queues, and any process may end between two calls."""

from __future__ import annotations

import itertools
import os
import random

import pytest

from tenure.core.engine import Feature
from tenure.core.flows import Callback, FlowState, NewFlow, member_id, membership
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Completed, Failed, Outcome, Released, Retried
from tenure.core.ports import FlowPort
from tenure.core.shape import Shape
from tests.support.stepping import stop_after
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.FLOWS)

SEEDS = range(int(os.environ.get("TENURE_WALKS", "4")))
QUEUES = ("q", "other")
MEMBERS = 24
STEPS = 120


class Walk:
    """What must hold: `on_end` follows each end of the group once, `on_success` once when all have completed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.draw = random.Random(seed)
        self.deaths = itertools.count()
        assert world.engine.flows is not None
        self.flows: FlowPort = world.engine.flows
        self.state: dict[str, State | None] = {}
        """What a member ended as; None: it has not. A member that is gone is cancelled."""
        self.queue_of: dict[str, str] = {}
        self.held: dict[str, Lease] = {}
        self.followed: list[str] = []
        calls = [Callback(NewJob("end", name, b"[]", task=name)) for name in ("success", "end")]
        world.run(self.flows.open_flow(NewFlow("q", "F", 60_000, on_success=calls[0], on_end=calls[1])))

    def make(self) -> None:
        world = self.world
        world.run(self.flows.grow_flow("q", "F", MEMBERS, QUEUES))
        for n in range(MEMBERS):
            id, queue = member_id("F", n), self.draw.choice(QUEUES)
            shape = Shape(flow=membership("q", results=n % 2 == 0), lane="L" if n % 3 == 0 else None)
            assert world.put(id, queue=queue, shape=shape) == [True]
            self.state[id], self.queue_of[id] = None, queue
            if self.draw.random() < 0.3:
                self.take()
                self.end()

    def step(self) -> None:
        self.draw.choice([self.take, self.take, self.end, self.end, self.end, self.retry, self.remove, self.maintain])()

    def take(self) -> None:
        for queue in QUEUES:
            for lease in self.world.take(2, queues=(queue,)):
                assert self.state[lease.record.id] is None
                self.held[lease.record.id] = lease

    def end(self) -> None:
        if not self.held:
            return
        id = self.draw.choice(sorted(self.held))
        lease = self.held.pop(id)
        outcomes: list[Outcome] = [Completed(b"1", 0), Completed(b"1"), Failed(BOOM), Retried(BOOM), Released()]
        outcome = self.draw.choice(outcomes)
        calls = self.draw.choice([1, 2, 3, 4, 5, 99])
        stop_after(calls, self.world.engine.settle([(lease, outcome)]), self.world.driver, f"s{next(self.deaths)}")
        if self.world.state(id, lease.record.queue) is State.ACTIVE:
            self.held[id] = lease  # the plain script has refused it, and the process ended before it called the other
        elif isinstance(outcome, (Completed, Failed)):
            self.state[id] = State.COMPLETED if isinstance(outcome, Completed) else State.FAILED

    def retry(self) -> None:
        failed = sorted(id for id, state in self.state.items() if state is State.FAILED)
        if failed:
            id = self.draw.choice(failed)
            assert self.world.run(self.world.engine.retry(self.queue_of[id], id))
            self.state[id] = None

    def remove(self) -> None:
        waiting = sorted(id for id, state in self.state.items() if state is None and id not in self.held)
        if waiting and self.draw.random() < 0.3:
            id = self.draw.choice(waiting)
            queue, engine = self.queue_of[id], self.world.engine
            remove = self.draw.choice([engine.discard, engine.cancel])
            assert self.world.run(remove(queue, id))
            self.state[id] = State.CANCELLED

    def maintain(self) -> None:
        for queue in QUEUES:
            steps = self.world.engine.maintain([queue], ())
            stop_after(self.draw.choice([1, 2, 3, 5, 99]), steps, self.world.driver, f"m{next(self.deaths)}")

    def settle_down(self) -> None:
        """Let all that is on its way arrive, and note what has followed."""
        for queue in (*QUEUES, *QUEUES):
            self.world.maintain(queue=queue)
        for lease in self.world.take(100, queues=("end",)):
            self.followed.append(lease.record.task or "")
            self.world.finish(lease)

    def check(self) -> None:
        """The group and the model count the same."""
        self.settle_down()
        view = self.world.run(self.flows.flow("q", "F"))
        assert view is not None
        counts = {state: list(self.state.values()).count(state) for state in State}
        assert (view.completed, view.failed) == (counts[State.COMPLETED], counts[State.FAILED])
        assert view.cancelled == counts[State.CANCELLED]
        is_over = view.sealed and None not in self.state.values()
        assert (view.state is not FlowState.OPEN) == is_over
        assert self.followed.count("success") <= 1
        self.world.audit()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_walk(world: World, seed: int) -> None:
    walk = Walk(world, seed)
    walk.make()
    assert world.run(walk.flows.seal_flow("q", "F"))
    for n in range(STEPS):
        walk.step()
        if n % 20 == 0:
            walk.check()
    for _ in range(200):
        walk.take()
        walk.end()
        if None not in walk.state.values():
            break
    walk.check()
    ends = walk.followed.count("end")
    assert ends >= 1
    is_retried = False
    while State.FAILED in walk.state.values():
        is_retried = True
        walk.retry()
        for _ in range(50):
            walk.take()
            walk.end()
    walk.check()
    assert walk.followed.count("success") == int(set(walk.state.values()) == {State.COMPLETED})
    assert walk.followed.count("end") - ends >= int(is_retried)
