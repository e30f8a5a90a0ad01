"""A waiting job that gets the arguments of another call gets the limits and the share that follow from them, too."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.engine import Alone, Feature
from tenure.core.job import Enqueued, NewJob, State
from tenure.core.outcome import Failed
from tenure.core.rates import LimitRule
from tenure.core.shape import Conflict, Shape, UniqueRule, Until
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.LIMITS, Feature.UNIQUE_KEYS, Feature.SHARES)

A = LimitRule("tenant:a", concurrency=1)
B = LimitRule("tenant:b", concurrency=1)


def put(world: World, id: str, *limits: LimitRule, conflict: Conflict = Conflict.REPLACE, **options: Any) -> Enqueued:
    lane, share, wait_ms = (options.pop(name, None) for name in ("lane", "share", "wait_ms"))
    until = Until.STARTED if conflict is Conflict.POSTPONE else Until.ENDED
    unique = UniqueRule("k", until, conflict, wait_ms=wait_ms or 0)
    shape = Shape(lane=lane, limits=limits, share=share, unique=unique)
    (answer,) = world.enqueue([NewJob("q", id, id.encode(), shape=shape, delay_ms=wait_ms or 0, **options)])
    return answer


def hold(world: World, *limits: LimitRule) -> Any:
    """A job that runs and takes places of these limits."""
    world.put("holder", shape=Shape(limits=limits))
    return world.take_one("other")


def test_a_replaced_job_waits_for_its_new_limit_and_not_for_the_old_one(world: World) -> None:
    holder = hold(world, A)
    put(world, "one", A)
    assert world.take_ids() == []
    assert put(world, "two", B) == Enqueued("one", False, Conflict.REPLACE)
    assert world.view("one").shape.limits == (B,)
    (lease,) = world.take()
    assert (lease.record.id, lease.record.payload) == ("one", b"two")
    assert world.run(world.engine.limits.limit("tenant:b")).active == 1
    world.finish(lease, holder)
    assert world.take() == []
    assert world.left() == set()


def test_it_is_stopped_by_its_new_limit(world: World) -> None:
    holder = hold(world, B)
    put(world, "one", A)
    put(world, "two", B)
    assert world.take_ids() == []
    world.finish(holder)
    assert world.take_ids() == ["one"]


@pytest.mark.parametrize(("before", "after"), [((A,), ()), ((), (A,)), ((A,), (B, A))])
def test_limits_come_and_go_and_return(world: World, before: Any, after: Any) -> None:
    put(world, "one", *before)
    for limits in (after, before, after):
        put(world, "next", *limits)
        assert world.view("one").shape.limits == limits
        assert world.state("one") is State.READY
    (lease,) = world.take()
    assert lease.record.shape.limits == after
    assert world.take() == []
    world.finish(lease)
    assert world.take() == []
    assert world.left() == set()


def test_a_share_follows_as_well(world: World) -> None:
    put(world, "one", share="a")
    put(world, "two", share="b")
    assert world.view("one").shape.share == "b"
    world.finish(*world.take())
    assert world.take() == []
    assert world.left() == set()


def test_a_debounced_job_gets_the_limit_of_the_last_call(world: World) -> None:
    holder = hold(world, A)
    put(world, "one", A, conflict=Conflict.POSTPONE, wait_ms=1_000)
    put(world, "two", B, conflict=Conflict.POSTPONE, wait_ms=1_000)
    world.pass_time(1_100)
    assert world.take_ids() == ["one"]
    world.finish(holder)


def test_a_job_that_follows_another_gets_the_limit_of_the_last_call(world: World) -> None:
    put(world, "one", conflict=Conflict.RERUN)
    (first,) = world.take()
    holder = hold(world, A)
    put(world, "two", A, conflict=Conflict.RERUN)
    assert put(world, "three", B, conflict=Conflict.RERUN).id == "two"
    world.finish(first)
    assert world.take_ids() == ["two"]
    world.finish(holder)


def test_a_job_keeps_its_lane_which_no_longer_waits_for_the_old_limit(world: World) -> None:
    holder = hold(world, A)
    put(world, "one", A, lane="L")
    world.put_in("L", "behind")
    assert world.take_ids() == []
    put(world, "two", B)
    assert world.take_ids() == ["one"]
    world.finish(holder)


def test_in_one_call_with_others_none_is_lost(world: World) -> None:
    def job(id: str, unique: str, limit: LimitRule) -> NewJob:
        rule = UniqueRule(unique, conflict=Conflict.REPLACE)
        return NewJob("q", id, b"p", shape=Shape(limits=(limit,), unique=rule))

    many = LimitRule("many", concurrency=10)
    world.enqueue([job("a", "1", many), job("b", "2", A), job("c", "1", B), job("d", "2", many), job("e", "3", many)])
    leases = world.take()
    assert {lease.record.id for lease in leases} == {"a", "b", "e"}
    world.finish(*leases)
    assert world.take() == []
    assert world.left() == set()


def test_one_that_is_delayed_in_the_same_call_still_waits(world: World) -> None:
    rule = UniqueRule("k", Until.STARTED, Conflict.POSTPONE, wait_ms=10_000)
    jobs = [
        NewJob("q", id, b"p", delay_ms=10_000, shape=Shape(limits=(one,), unique=rule))
        for id, one in zip("ab", (A, B), strict=True)
    ]
    world.enqueue(jobs)
    assert world.counts() == {"scheduled": 1}
    assert world.take() == []
    world.pass_time(10_100)
    (lease,) = world.take()
    assert lease.record.shape.limits == (B,)
    world.finish(lease)
    assert world.take() == []
    assert world.left() == set()


def test_a_suspect_waits_for_its_new_limit(world: World) -> None:
    put(world, "one", A)
    for worker in ("first", "second"):
        assert len(world.take(1, worker, alone=Alone.NO)) == 1
        world.leave(worker, crashed=True)
    world.put("holder", shape=Shape(limits=(A,)), queue="r")
    holder = world.take_one("other", "r")
    assert world.take_ids() == []
    put(world, "two", B)
    leases = world.take() + world.take()  # the first puts it aside
    assert [lease.record.id for lease in leases] == ["one"]
    world.finish(holder, *leases)
    assert world.take() == []
    assert world.left() == set()


@pytest.mark.parametrize("state", [State.FAILED, State.SCHEDULED])
def test_an_edited_job_gets_the_limits_that_its_caller_names(world: World, state: State) -> None:
    holder = hold(world, A)
    if state is State.SCHEDULED:
        put(world, "one", A, wait_ms=10_000)
    else:
        put(world, "one", B)
        world.settle(world.take_one(), Failed(BOOM))
    assert world.state("one") is state
    assert world.run(world.engine.retry("q", "one", b"new", Shape(limits=(B,), share="s")))
    view = world.view("one")
    assert (view.payload, view.shape.limits, view.shape.share) == (b"new", (B,), "s")
    assert view.shape.unique is not None
    assert world.take_ids() == ["one"]
    world.finish(holder)


def test_a_job_without_limits_gets_some_and_loses_them(world: World) -> None:
    world.put("one")
    for number, limits in enumerate(((A,), (B, A), (), (B,))):
        world.settle(world.take_one(), Failed(BOOM))
        assert world.run(world.engine.retry("q", "one", str(number).encode(), Shape(limits=limits)))
        view = world.view("one")
        assert (view.payload, view.shape.limits) == (str(number).encode(), limits)
    world.finish(world.take_one())
    assert world.left() - {b"ended", b"kept", b"failed"} == set()
