"""Groups: what follows comes when all members have ended, once, and never early."""

from __future__ import annotations

import itertools

import pytest
from msgspec import structs

from tenure.core.engine import Feature
from tenure.core.flows import Callback, Element, FlowState, FlowView, NewFlow, membership
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed, Failed, Released
from tenure.core.ports import FlowPort
from tenure.core.shape import Shape
from tests.support.stepping import stop_after
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.FLOWS)

DEATHS = itertools.count()
"""Each process that ends has a name of its own."""
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
    assert world.run(flows.grow_flow("q", "F", total, queues or ("q",))) == 0
    for n in range(total):
        queue = (queues or ("q",))[n % max(1, len(queues))]
        assert world.put(f"F.{n}", queue=queue, shape=Shape(flow=membership("q", results))) == [True]
    if seals:
        assert world.run(flows.seal_flow("q", "F"))


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
    assert world.run(flows_of(world).grow_flow("q", "F", 1, ())) is None


def test_a_sealed_group_takes_no_member(world: World) -> None:
    make(world, 1)
    assert world.run(flows_of(world).grow_flow("q", "F", 1, ())) is None
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


def test_members_that_never_came_to_be_are_cancelled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their producer died before it enqueued them: this is not certain for half a minute."""
    make(world, 1, seals=False)
    assert world.run(flows_of(world).grow_flow("q", "F", 2, ())) == 1
    assert world.run(flows_of(world).stop_flow("q", "F", "why"))
    found = view(world)
    assert (found.state, found.cancelled, found.left) == (FlowState.OPEN, 1, 2)
    monkeypatch.setattr("tenure.core.flows.PRODUCER_MS", -1)
    world.maintain()
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


def step(n: int, queue: str) -> Callback:
    shape = Shape(flow=membership("q", results=True, is_chain=True))
    return Callback(NewJob(queue, f"F.{n}", b"[[],{}]", task="t", shape=shape), takes_results=n > 0)


def chain_of(*members: Element) -> NewFlow:
    return NewFlow("q", "F", 60_000, results=True, on_end=END, is_chain=True, members=members)


def run_with_deaths(
    world: World, queues: tuple[str, ...] = ("q", "other"), adds: int = 0, flows: tuple[NewFlow, ...] = ()
) -> list[tuple[str, bytes]]:
    """Complete all jobs, each with its number as result, while the processes end after any of their calls. The first
    `adds` of them add a member, the first one has these flows. Return their ids and payloads."""
    seen: list[tuple[str, bytes]] = []
    for calls in range(1, 60):
        for lease in [one for queue in queues for one in world.take(queues=(queue,))]:
            seen.append((lease.record.id, lease.record.payload))
            more = structs.replace(NewJob("other", "", b"[[],{}]", task="t"), shape=Shape(flow=lease.record.shape.flow))
            after = (more,) if len(seen) <= adds else (), flows if len(seen) == 1 else ()
            outcome = Completed(str(len(seen)).encode(), 0, *after)
            stop_after(1 + calls % 6, world.engine.settle([(lease, outcome)]), world.driver, f"s{next(DEATHS)}")
        for queue in queues:
            stop_after(calls % 5, world.engine.maintain([queue], ()), world.driver, f"m{next(DEATHS)}")
        world.audit()
    return seen


def test_members_that_members_add_come_once_and_keep_the_group_open(world: World) -> None:
    """Also while the producer adds some: no two have one number."""
    make(world, 4, "q", "other", seals=False)
    seen = run_with_deaths(world, adds=20)
    assert world.run(flows_of(world).grow_flow("q", "F", 1, ("q",))) == 24
    assert world.put("F.24", shape=Shape(flow=membership("q", False))) == [True]
    assert world.run(flows_of(world).seal_flow("q", "F"))
    seen += run_with_deaths(world)
    assert sorted(id for id, _ in seen) == sorted(f"F.{n}" for n in range(25))
    found = view(world)
    assert (found.state, found.total, found.completed) == (FlowState.COMPLETED, 25, 25)
    assert followed(world) == ["end", "success"]


def test_flows_that_follow_a_member_or_are_added_by_it_come_once(world: World) -> None:
    make(world, 1)
    shape = Shape(flow=membership("q", results=True, is_chain=True))
    in_chain = [Callback(NewJob(queue, "", b"[]", shape=shape)) for queue in ("q", "other")]
    added = NewFlow("q", "", 60_000, True, is_chain=True, members=(*in_chain, NewFlow("q", "", 60_000)))
    shape = Shape(flow=membership("other", results=False))
    calls = tuple(Callback(NewJob("q", f"T.{n}", b"", shape=shape)) for n in (0, 1))
    after = NewFlow("other", "T", 60_000, members=calls)
    seen = run_with_deaths(world, flows=(added, after))
    assert sorted(id for id, _ in seen) == ["F.0", "F.1.0", "F.1.1", "T.0", "T.1"]
    assert (view(world).state, view(world).completed, followed(world)) == (FlowState.COMPLETED, 2, ["end", "success"])
    world.put("again")  # a failover may undo an end, so that it comes once more
    assert [id for id, _ in run_with_deaths(world, flows=(after,))] == ["again"]
    found = world.run(flows_of(world).flow("other", "T"))
    assert found
    assert (found.state, found.completed) == (FlowState.COMPLETED, 2)


def test_a_flow_follows_each_bad_end_once(world: World) -> None:
    member = Callback(NewJob("other", "", b"", shape=Shape(flow=membership("other", results=False))))
    text = flows_of(world).text_of(NewFlow("other", "T", 60_000, members=(member, member)))
    world.put("a", shape=Shape(on_failed=text))
    for count in (1, 2):
        (lease,) = world.take()
        calls = 1
        while world.state("a") is State.ACTIVE:
            stop_after(calls, world.engine.settle([(lease, Failed(BOOM))]), world.driver, f"s{next(DEATHS)}")
            calls += 1
        run_with_deaths(world)
        views = world.run(flows_of(world).flow_page("other"))
        assert [found.state for found in views] == [FlowState.COMPLETED] * count
        assert world.retry("a")


def test_a_member_that_does_not_complete_adds_none(world: World) -> None:
    make(world, 2)
    first, second = world.take()
    more = NewJob("q", "", b"", shape=Shape(flow=membership("q", False)))
    world.settle_each([first, second], Failed(BOOM), Completed(b"", 0, (more,)))
    found = view(world)
    assert (found.state, found.total, found.left) == (FlowState.OPEN, 3, 1)  # the last one, too, adds before it ends
    [added] = world.take()
    late = (added, Completed(b"", 0, (more,)))
    world.settle(added, Released())
    assert world.run(world.engine.settle([late])) == [False]
    assert view(world).total == 3


def test_flows_in_flows_whatever_ends_in_between(world: World) -> None:
    """A chain of a call, a group with a chain in it, and a call that takes the list of their results."""
    plain = Shape(flow=membership("q", results=True))
    one, other = (Callback(NewJob(queue, "", b"[[],{}]", task="t", shape=plain)) for queue in ("q", "other"))
    inner_shape = Shape(flow=membership("q", results=True, is_chain=True))
    inner = [Callback(NewJob("q", "", b"[[],{}]", task="t", shape=inner_shape), takes) for takes in (False, True)]
    inner_chain = NewFlow("q", "", 60_000, results=True, is_chain=True, members=tuple(inner))
    empty = NewFlow("q", "", 60_000)
    middle = NewFlow("q", "", 60_000, results=True, members=(one, inner_chain, other, empty))
    world.run(flows_of(world).start_flow(chain_of(step(0, "q"), middle, step(2, "other"))))
    seen = run_with_deaths(world)
    results = {id: n + 1 for n, (id, _) in enumerate(seen)}
    assert sorted(results) == ["F.0", "F.1.0", "F.1.1.0", "F.1.1.1", "F.1.2", "F.2"]
    payloads = dict(seen)
    assert payloads["F.1.1.1"] == b"[[%d],{}]" % results["F.1.1.0"]
    assert payloads["F.2"] == b"[[[%d,%d,%d,null]],{}]" % (results["F.1.0"], results["F.1.1.1"], results["F.1.2"])
    assert (view(world).state, view(world).completed, followed(world)) == (FlowState.COMPLETED, 3, ["end"])


def test_a_retry_in_an_inner_flow_opens_the_outer_ones(world: World) -> None:
    inner = Callback(NewJob("q", "", b"", shape=Shape(flow=membership("q", False))))
    world.run(flows_of(world).start_flow(chain_of(NewFlow("q", "", 60_000, members=(inner, inner)), step(1, "q"))))
    first, second = world.take()
    world.settle_each([first, second], Completed(b"", 0), Failed(BOOM))
    world.maintain()
    found = view(world)
    assert (found.state, found.failed, found.cancelled, followed(world)) == (FlowState.FAILED, 1, 1, ["end"])
    assert world.run(flows_of(world).failed_members("q", "F"))[0] == [("F.0", "")]
    assert world.retry("F.0.1")
    world.maintain()
    assert view(world).state is FlowState.OPEN
    world.finish(*world.take())
    world.maintain()
    world.finish(*world.take())
    assert (view(world).state, followed(world)) == (FlowState.COMPLETED, ["end"])


def test_a_cancellation_goes_into_inner_flows(world: World) -> None:
    inner = Callback(NewJob("other", "", b"", shape=Shape(flow=membership("q", False))))
    world.run(flows_of(world).start_flow(chain_of(NewFlow("q", "", 60_000, members=(inner, inner)), step(1, "q"))))
    assert world.run(flows_of(world).stop_flow("q", "F", "why"))
    for queue in ("q", "other", "q"):
        world.maintain(queue=queue)
    found = view(world)
    assert (found.state, found.cancelled, followed(world)) == (FlowState.CANCELLED, 2, ["end"])
    assert world.take(queues=("q", "other")) == []


def test_no_member_on_its_way_to_its_queue_runs_after_the_end_of_a_cancelled_group(world: World) -> None:
    """The producer has died before it handed the members over."""
    member = Callback(NewJob("other", "", b"", shape=Shape(flow=membership("q", False))))
    flow = NewFlow("q", "F", 60_000, on_end=END, members=(member, member))
    for calls in range(1, 10):
        stop_after(calls, flows_of(world).start_flow(flow), world.driver, f"producer{calls}")
        if world.run(flows_of(world).flow("q", "F")):
            break
    assert world.run(flows_of(world).stop_flow("q", "F", "why"))
    assert (view(world).state, view(world).cancelled) == (FlowState.CANCELLED, 2)
    world.maintain()
    assert world.take(queues=("other",)) == []
    assert followed(world) == ["end"]


def test_a_flow_does_not_begin_in_one_that_is_to_stop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was cancelled between the two calls of the producer."""
    monkeypatch.setattr("tenure.core.flows.PRODUCER_MS", -1)
    flows = flows_of(world)
    world.run(flows.open_flow(NewFlow("q", "F", 60_000, on_end=END)))
    assert world.run(flows.grow_flow("q", "F", 1, ())) == 0
    assert world.run(flows.stop_flow("q", "F", "why"))
    inner = Callback(NewJob("q", "", b"", shape=Shape(flow=membership("q", False))))
    world.run(flows.start_flow(NewFlow("q", "F.0", 60_000, members=(inner,))))
    assert world.take() == []
    assert (view(world).state, view(world).cancelled, followed(world)) == (FlowState.CANCELLED, 1, ["end"])


def test_a_group_that_is_not_sealed_in_time_is_cancelled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its producer has died."""
    monkeypatch.setattr("tenure.core.flows.PRODUCER_MS", -1)
    flows = flows_of(world)
    world.run(flows.open_flow(NewFlow("q", "F", 60_000, on_end=END, open_ms=100)))
    assert world.run(flows.grow_flow("q", "F", 2, ("q",))) == 0
    world.put("F.0", shape=Shape(flow=membership("q", False)))
    world.run(flows.open_flow(NewFlow("q", "sealed", 60_000, open_ms=100)))
    assert world.run(flows.grow_flow("q", "sealed", 1, ())) == 0
    assert world.run(flows.seal_flow("q", "sealed"))
    assert view(world).reason is None
    world.until(lambda: world.maintain() and view(world).reason)
    found = view(world)
    assert (found.state, found.cancelled, found.reason) == (FlowState.CANCELLED, 2, "it was not sealed in time")
    assert followed(world) == ["end"]
    world.audit()
    sealed = world.run(flows.flow("q", "sealed"))
    assert sealed
    assert (sealed.state, sealed.reason) == (FlowState.OPEN, None)


def test_any_process_may_end_while_a_chain_goes_on(world: World) -> None:
    """Each member comes once, with the result before it, whichever call was the last of a process."""
    queues = ["q", "other", "q", "q", "other"]
    steps = [step(n, queue) for n, queue in enumerate(queues)]
    world.run(flows_of(world).start_flow(chain_of(*steps)))
    seen = run_with_deaths(world)
    payloads = [b"[[],{}]", *(b"[[%d],{}]" % n for n in range(1, 5))]
    assert seen == [(f"F.{n}", payload) for n, payload in enumerate(payloads)]
    assert (view(world).state, followed(world)) == (FlowState.COMPLETED, ["end"])


def test_a_chain_goes_on_once_if_it_was_cancelled_while_a_member_completed(world: World) -> None:
    flows = flows_of(world)
    world.run(flows.start_flow(chain_of(step(0, "q"), step(1, "q"), step(2, "q"))))
    (lease,) = world.take()
    assert world.run(flows.stop_flow("q", "F", "why"))
    assert not world.run(flows.continue_chain("q", "F"))  # it is open
    world.settle(lease, Completed(b"7", 0))
    assert (view(world).state, view(world).cancelled, followed(world)) == (FlowState.CANCELLED, 2, ["end"])
    assert [world.run(flows.continue_chain("q", "F")) for _ in range(2)] == [True, False]
    assert (view(world).state, view(world).left, view(world).reason) == (FlowState.OPEN, 2, None)
    (lease,) = world.take()
    assert (lease.record.id, lease.record.payload) == ("F.1", b"[[7],{}]")
    world.settle(lease, Failed(BOOM))
    assert not world.run(flows.continue_chain("q", "F"))  # its member is to run again
    assert world.retry("F.1")
    for _ in range(2):
        world.settle(world.take_one(), Completed(b"8", 0))
    assert (view(world).state, followed(world)) == (FlowState.COMPLETED, ["end", "end"])
    assert not world.run(flows.continue_chain("q", "F"))
    assert world.take() == []


def test_the_record_of_a_group_goes_after_its_time(world: World) -> None:
    flows = flows_of(world)
    world.run(flows.open_flow(NewFlow("q", "F", 1)))
    world.run(flows.seal_flow("q", "F"))
    for _ in range(1_000):
        if world.run(flows.flow("q", "F")) is None:
            break
    world.maintain()
    assert world.run(flows.flow_page("q")) == []
    world.audit()
