"""Groups: what follows comes when all members have ended, once, and never early."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.flows import Callback, FlowState, FlowView, NewFlow, membership
from tenure.core.job import NewJob
from tenure.core.outcome import Completed, Failed
from tenure.core.ports import FlowPort
from tenure.core.shape import Shape
from tests.support.stepping import stop_after
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.FLOWS)

SUCCESS, END = (Callback(NewJob("end", name, b"[]", task=name)) for name in ("success", "end"))


def flows_of(world: World) -> FlowPort:
    assert world.engine.flows is not None
    return world.engine.flows


def make(
    world: World, total: int, *queues: str, seals: bool = True, results: bool = False, stops: bool = False
) -> None:
    """A group F in the queue q, with members in these queues by turns."""
    flows = flows_of(world)
    world.run(flows.open_flow(NewFlow("q", "F", 60_000, results, stops, SUCCESS, END)))
    assert world.run(flows.grow_flow("q", "F", total, queues or ("q",)))
    for n in range(total):
        queue = (queues or ("q",))[n % max(1, len(queues))]
        assert world.put(f"F.{n}", queue=queue, shape=Shape(flow=membership("q", results))) == [True]
    if seals:
        assert world.run(flows.seal_flow("q", "F", total))


def view(world: World) -> FlowView:
    found: FlowView | None = world.run(flows_of(world).flow("q", "F"))
    assert found is not None
    return found


def followed(world: World) -> list[str]:
    leases = world.take(100, queues=("end",))
    world.finish(*leases)
    return sorted(str(lease.record.task) for lease in leases)


def test_a_group_is_open_until_it_is_sealed(world: World) -> None:
    make(world, 2, seals=False)
    world.finish(*world.take())
    assert (view(world).state, followed(world)) == (FlowState.OPEN, [])
    assert world.run(flows_of(world).seal_flow("q", "F"))
    assert (view(world).state, followed(world)) == (FlowState.COMPLETED, ["end", "success"])
    assert world.run(flows_of(world).seal_flow("q", "F"))
    assert followed(world) == []
    assert not world.run(flows_of(world).grow_flow("q", "F", 3, ()))


def test_a_sealed_group_takes_no_member(world: World) -> None:
    make(world, 1)
    assert not world.run(flows_of(world).grow_flow("q", "F", 2, ()))
    assert view(world).total == 1


def test_a_member_that_ends_while_the_group_is_cancelled_counts_once(world: World) -> None:
    """Its word is on the way, and its job is gone when the group looks for it."""
    make(world, 2, "q", "other")
    (lease,) = world.take(queues=("other",))
    assert not stop_after(1, world.engine.settle([(lease, Completed(b"", 0))]), world.driver)
    assert world.run(flows_of(world).stop_flow("q", "F", "why"))
    found = view(world)
    assert (found.state, found.completed, found.cancelled) == (FlowState.CANCELLED, 1, 1)
    assert followed(world) == ["end"]


def test_members_that_never_came_to_be_are_cancelled(world: World) -> None:
    """Their producer died before it enqueued them."""
    make(world, 1, seals=False)
    assert world.run(flows_of(world).grow_flow("q", "F", 3, ()))
    assert world.run(flows_of(world).stop_flow("q", "F", "why"))
    found = view(world)
    assert (found.state, found.cancelled, found.left) == (FlowState.CANCELLED, 3, 0)
    members, _ = world.run(flows_of(world).failed_members("q", "F"))
    assert members == [("F.0", "q")]


def test_what_follows_an_end_follows_the_next_one_too(world: World) -> None:
    """Also while the first is still there."""
    make(world, 1)
    world.settle(world.take_one(), Failed(BOOM))
    assert world.retry("F.0")
    world.settle(world.take_one(), Failed(BOOM))
    assert followed(world) == ["end", "end"]


def test_the_results_of_members(world: World) -> None:
    make(world, 3, results=True)
    first, second, third = world.take()
    world.settle_each([first, second, third], Completed(b"1", 0), Failed(BOOM), Completed(b"3"))
    assert world.run(flows_of(world).member_results("q", "F", 0, 3)) == [b"1", None, b"3"]


def test_the_first_failure_stops_the_others(world: World) -> None:
    make(world, 30, "q", "other", stops=True)
    world.settle(world.take_one(), Failed(BOOM))
    world.maintain()
    found = view(world)
    assert (found.state, found.failed, found.cancelled) == (FlowState.CANCELLED, 1, 29)
    assert followed(world) == ["end"]


def test_a_forgotten_group_ignores_its_members(world: World) -> None:
    make(world, 1)
    assert world.run(flows_of(world).forget_flow("q", "F"))
    world.finish(*world.take())
    assert followed(world) == []
    assert world.run(flows_of(world).flow_page("q")) == []


def test_any_process_may_end_while_a_chain_goes_on(world: World) -> None:
    """Each member comes once, with the result before it, whichever call was the last of a process."""
    queues, shape = ["q", "other", "q", "q", "other"], Shape(flow=membership("q", results=True))
    steps = [
        Callback(NewJob(queue, f"F.{n}", b"[[],{}]", task="t", shape=shape), takes_results=n > 0)
        for n, queue in enumerate(queues)
    ]
    world.run(flows_of(world).open_chain(NewFlow("q", "F", 60_000, on_end=END), steps))
    seen: list[tuple[str, bytes]] = []
    for calls in range(1, 60):
        for lease in (*world.take(queues=("q",)), *world.take(queues=("other",))):
            seen.append((lease.record.id, lease.record.payload))
            settling = world.engine.settle([(lease, Completed(str(len(seen)).encode(), 0))])
            stop_after(1 + calls % 6, settling, world.driver, f"chain-{calls}")
        for queue in ("q", "other"):
            stop_after(calls % 5, world.engine.maintain([queue], ()), world.driver, f"maintain-{calls}-{queue}")
        world.audit()
    payloads = [b"[[],{}]", *(b"[[%d],{}]" % n for n in range(1, 5))]
    assert seen == [(f"F.{n}", payload) for n, payload in enumerate(payloads)]
    assert (view(world).state, followed(world)) == (FlowState.COMPLETED, ["end"])


def test_the_record_of_a_group_goes_after_its_time(world: World) -> None:
    flows = flows_of(world)
    world.run(flows.open_flow(NewFlow("q", "F", 1)))
    world.run(flows.seal_flow("q", "F", 0))
    for _ in range(1_000):
        if world.run(flows.flow("q", "F")) is None:
            break
    world.maintain()
    assert world.run(flows.flow_page("q")) == []
    world.audit()
