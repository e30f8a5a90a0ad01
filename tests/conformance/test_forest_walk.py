"""Random histories of flows in flows: any process may end between two calls, and members add members."""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import dataclass, field

import pytest

from tenure.core.engine import Feature
from tenure.core.flows import Callback, Element, FlowState, NewFlow, membership
from tenure.core.job import Lease, NewJob, State
from tenure.core.outcome import Completed, Failed, Outcome, Released, Retried
from tenure.core.ports import FlowPort
from tenure.core.shape import Shape
from tests.support.stepping import stop_after
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.FLOWS)

SEEDS = range(int(os.environ.get("TENURE_FORESTS", "6")))
"""Each forest has 12 members on average."""
QUEUES = ("q", "other")
ADDS_MOST = 12


@dataclass
class Node:
    """What a member should be. `state` of a job: True if it completed, False if it failed, None before."""

    is_chain: bool = False
    parts: list[Node] = field(default_factory=list)
    is_job: bool = False
    state: bool | None = None
    adds: int = 0
    """Jobs that were added to this group, and not seen yet."""

    def ended(self) -> bool | None:
        """Whether it has completed; None: it has not ended."""
        if self.is_job:
            return self.state
        ends = [part.ended() for part in self.parts]
        if self.is_chain:
            return next((end for end in ends if end is not True), True)
        return None if None in ends or self.adds else all(ends)


class Forest:
    """One flow with flows in it, and what must hold: no job comes early or twice, nothing follows early or is lost."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.draw = random.Random(seed)
        self.deaths = itertools.count()
        assert world.engine.flows is not None
        self.flows: FlowPort = world.engine.flows
        self.root = Node(is_chain=self.draw.random() < 0.5)
        self.held: dict[str, tuple[Lease, Node]] = {}
        self.added = 0
        parts = tuple(self.part(self.root, 1) for _ in range(self.draw.randint(2, 4)))
        success, end = (Callback(NewJob("end", name, b"[]", task=name)) for name in ("success", "end"))
        flow = NewFlow("q", "F", 60_000, True, False, success, end, is_chain=self.root.is_chain, members=parts)
        world.run(self.flows.start_flow(flow))

    def part(self, outer: Node, depth: int) -> Element:
        """Draw a part of a flow."""
        kind = self.draw.choice(["job", "job", "chain", "group"]) if depth < 4 else "job"
        node = Node(is_chain=kind == "chain", is_job=kind == "job")
        outer.parts.append(node)
        if node.is_job:
            shape = Shape(flow=membership("q", True, outer.is_chain), lane=self.draw.choice([None, None, "L"]))
            takes = outer.is_chain and len(outer.parts) > 1 and self.draw.random() < 0.5
            return Callback(NewJob(self.draw.choice(QUEUES), "", b"[[],{}]", task="t", shape=shape), takes)
        least = 2 if node.is_chain else 0
        parts = tuple(self.part(node, depth + 1) for _ in range(self.draw.randint(least, 4)))
        return NewFlow("q", "", 60_000, True, is_chain=node.is_chain, members=parts)

    def node_of(self, id: str) -> Node:
        """The job with this id. One that a member has added is new to the model. A chain must have come to it."""
        node = self.root
        for number in map(int, id.removeprefix("F.").split(".")):
            while number >= len(node.parts):
                assert node.adds, f"{id} was never added"
                node.adds -= 1
                node.parts.append(Node(is_job=True))
            if node.is_chain:
                assert all(part.ended() for part in node.parts[:number]), f"{id} came early"
            node = node.parts[number]
        assert node.is_job
        return node

    def group_of(self, id: str) -> Node | None:
        node = self.root
        for number in map(int, id.removeprefix("F.").split(".")[:-1]):
            node = node.parts[number]
        return None if node.is_chain else node

    def take(self) -> None:
        for lease in self.world.take(2, queues=(self.draw.choice(QUEUES),)):
            node = self.node_of(lease.record.id)
            assert node.state is None, f"{lease.record.id} came twice"
            self.held[lease.record.id] = lease, node

    def end(self) -> None:
        if not self.held:
            return
        id = self.draw.choice(sorted(self.held))
        lease, node = self.held.pop(id)
        group, more = self.group_of(id), tuple[NewJob, ...]()
        if group is not None and self.added < ADDS_MOST and self.draw.random() < 0.3:
            shape = Shape(flow=lease.record.shape.flow)
            more = (NewJob(self.draw.choice(QUEUES), "", b"[[],{}]", task="t", shape=shape),)
        outcomes: list[Outcome] = [*[Completed(b"1", 0, more)] * 6, Failed(BOOM), Retried(BOOM), Released()]
        outcome = self.draw.choice(outcomes)
        settling = self.world.engine.settle([(lease, outcome)])
        stop_after(self.draw.choice([1, 2, 3, 4, 5, 99]), settling, self.world.driver, f"s{next(self.deaths)}")
        if self.world.state(id, lease.record.queue) is State.ACTIVE:
            self.held[id] = lease, node  # the plain script has refused it, and the process ended before the other one
        elif isinstance(outcome, Completed):
            node.state = True
            if group is not None:
                group.adds += len(outcome.follow)
                self.added += len(outcome.follow)
        elif isinstance(outcome, Failed):
            node.state = False

    def retry(self) -> None:
        failed = self.failed(self.root, "F")
        if failed:
            id, node = self.draw.choice(failed)
            assert any(self.world.run(self.world.engine.retry(queue, id)) for queue in QUEUES)
            node.state = None

    def failed(self, node: Node, id: str) -> list[tuple[str, Node]]:
        if node.is_job:
            return [(id, node)] if node.state is False else []
        return [one for n, part in enumerate(node.parts) for one in self.failed(part, f"{id}.{n}")]

    def maintain(self) -> None:
        steps = self.world.engine.maintain([self.draw.choice(QUEUES)], ())
        stop_after(self.draw.choice([1, 2, 3, 5, 99]), steps, self.world.driver, f"m{next(self.deaths)}")

    def settle_down(self) -> None:
        """Let all that is on its way arrive."""
        for queue in QUEUES * 3:
            self.world.maintain(queue=queue)

    def check(self) -> list[str]:
        """The flow is over or open as the model is. Return what has followed."""
        self.settle_down()
        view = self.world.run(self.flows.flow("q", "F"))
        assert view is not None
        states = {None: FlowState.OPEN, True: FlowState.COMPLETED, False: FlowState.FAILED}
        assert view.state is states[self.root.ended()]
        self.world.audit()
        leases = self.world.take(100, queues=("end",))
        self.world.finish(*leases)
        return [lease.record.task or "" for lease in leases]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_forest(world: World, seed: int) -> None:
    forest, followed = Forest(world, seed), list[str]()
    for n in range(400):
        forest.draw.choice([forest.take, forest.take, forest.end, forest.end, forest.retry, forest.maintain])()
        if n % 25 == 0:
            followed += forest.check()
    for _ in range(200):
        if forest.root.ended():
            break
        for act in (forest.take, forest.end, forest.end, forest.retry):
            act()
        forest.settle_down()
    followed += forest.check()
    assert forest.root.ended()
    assert followed.count("success") == 1
    assert followed.count("end") >= 1
