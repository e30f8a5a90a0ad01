"""The controller: retry, discard, cancel and purge, in every state, and entries that stay behind in the list."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument
from tenure.core.job import State
from tenure.core.outcome import Completed, Failed, Released, Retried, Unroutable
from tenure.core.shape import CancelAnswer
from tenure.engines.kit.config import PURGE_MOST
from tests.conformance.test_cancel_running import act_after
from tests.conformance.test_inspect import NEEDS, fill, states
from tests.support.stepping import Session, send_with, step
from tests.support.world import BOOM, World

WAITING = {State.READY, State.SCHEDULED, State.UNROUTABLE}


@pytest.mark.parametrize("state", states())
def test_retry(world: World, state: State) -> None:
    id = fill(world, state, 2)[0]
    world.put("before")
    can = state in {State.SCHEDULED, State.UNROUTABLE, State.FAILED, State.BROKEN, State.CANCELLED}
    before = world.dump()
    assert world.run(world.engine.retry("q", id)) is can
    if not can:
        assert world.dump() == before
        return
    view = world.view(id)
    assert (view.state, view.failures, view.crashes, view.error) == (State.READY, 0, 0, None)
    assert world.counts() == {state.value: 1, "ready": 2}
    assert world.drain() == ["before", id]


@pytest.mark.parametrize("state", states())
def test_discard(world: World, state: State) -> None:
    id = fill(world, state, 2)[0]
    before = world.dump()
    can = state is not State.ACTIVE
    assert world.run(world.engine.discard("q", id)) is can
    if not can:
        assert world.dump() == before
        return
    assert world.job(id) is None
    assert world.counts() == {state.value: 1}
    assert not world.run(world.engine.discard("q", id))
    world.audit()
    assert world.put(id, own_id=True) == [True]
    world.run(world.engine.purge("q", state))


@pytest.mark.parametrize("state", states(needs=NEEDS | {State.ACTIVE: Feature.CANCEL}))
def test_cancel(world: World, state: State) -> None:
    id = fill(world, state, 2)[0]
    before = world.dump()
    answer = world.run(world.engine.cancel("q", id, "because"))
    if state is State.ACTIVE:
        assert answer is CancelAnswer.REQUESTED
        assert world.view(id).cancelling == "because"
        return
    can = state in WAITING
    assert answer is (CancelAnswer.CANCELLED if can else CancelAnswer.NOTHING)
    if not can:
        assert world.dump() == before
        return
    view = world.view(id)
    assert view.state is State.CANCELLED
    assert view.payload == b"p"
    assert view.error
    assert (view.error.type, view.error.message) == ("Cancelled", "because")
    assert world.counts() == {state.value: 1, "cancelled": 1}


@pytest.mark.parametrize("state", states())
def test_purge(world: World, state: State) -> None:
    fill(world, state, 5)
    fill(world, State.FAILED if state is not State.FAILED else State.READY, 1)
    if state is State.ACTIVE:
        with pytest.raises(InvalidArgument, match="Active"):
            world.run(world.engine.purge("q", state))
        return
    assert world.run(world.engine.purge("q", state)) == 5
    assert state.value not in world.counts()
    assert sum(world.counts().values()) == 1
    assert world.run(world.engine.purge("q", state)) == 0


@pytest.mark.parametrize("state", states(WAITING))
def test_no_job_starts_while_those_in_its_state_are_purged(world: World, state: State) -> None:
    for n in range(3 * PURGE_MOST):
        world.put(f"j{n}", task="t", delay_ms=2_000 if state is State.SCHEDULED else 0)
    if state is State.UNROUTABLE:
        while leases := world.take(100):
            world.settle_each(leases, *[Unroutable() for _ in leases])
    claimed: list[str] = []

    def go_on(_: int) -> None:
        if state is State.SCHEDULED:
            world.pass_time(1_000)
        world.maintain(["t"])
        claimed.extend(world.take_ids(100, "idle"))

    steps = world.engine.purge("q", state)
    assert step(steps, Session("s"), send_with(world.driver), act_after(go_on)) == 3 * PURGE_MOST
    assert claimed == []
    assert world.counts() == {}


@pytest.mark.parametrize("act", ["retry", "discard", "cancel"])
def test_an_unknown_job(world: World, act: str) -> None:
    assert not world.run(getattr(world.engine, act)("q", "nobody"))
    assert world.dump() == {}


def test_purge_takes_as_many_rounds_as_it_needs(world: World) -> None:
    world.put(*(f"j{n}" for n in range(1_200)))
    for n in range(5):
        world.run(world.engine.discard("q", f"j{n * 7}"))
    assert world.run(world.engine.purge("q", State.READY)) == 1_195
    assert world.counts() == {}


@pytest.mark.needs(Feature.UNROUTABLE)
def test_purge_of_parked_jobs_finds_every_task(world: World) -> None:
    for n in range(8):
        world.put(f"j{n}", task=f"t{n}")
    for lease in world.take():
        world.settle(lease, Unroutable())
    for n in range(5):
        assert world.run(world.engine.discard("q", f"j{n}"))
    world.audit()
    assert world.run(world.engine.purge("q", State.UNROUTABLE)) == 3
    assert world.counts() == {}


@pytest.mark.needs(Feature.UNROUTABLE)
@pytest.mark.parametrize("act", ["retry", "discard", "cancel"])
def test_a_task_whose_last_parked_job_is_gone_leaves_no_key(world: World, act: str) -> None:
    world.put("a", task="t")
    world.settle(world.take_one(), Unroutable())
    assert world.run(getattr(world.engine, act)("q", "a"))
    world.audit()


# Ghosts: a cancelled or discarded job leaves its entry in the list.


@pytest.mark.parametrize("act", ["discard", "cancel"])
@pytest.mark.parametrize("limit", [1, 10])
def test_a_ghost_is_not_run(world: World, act: str, limit: int) -> None:
    world.put(*"abc")
    assert world.run(getattr(world.engine, act)("q", "b"))
    assert world.counts()["ready"] == 2
    answers = [world.run(world.engine.lease("w", ["q"], limit)) for _ in range(4)]
    assert [lease.record.id for answer in answers for lease in answer.leases] == ["a", "c"]
    assert all(answer.dropped == () for answer in answers)
    assert world.counts().get("ready", 0) == 0


@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("times", [1, 3])
def test_the_same_id_again_runs_once_in_its_new_place(world: World, limit: int, times: int) -> None:
    world.put("a", "b")
    for n in range(times):
        assert world.run(world.engine.discard("q", "a"))
        assert world.put("a", payload=b"new %d" % n, own_id=True) == [True]
        assert world.counts() == {"ready": 2}
        world.audit()
    ran = []
    for _ in range(20):
        ran += world.take(limit)
    assert [(lease.record.id, lease.record.payload) for lease in ran] == [("b", b"p"), ("a", b"new %d" % (times - 1))]
    assert world.counts() == {"active": 2}


@pytest.mark.needs(Feature.OWN_ID)
def test_cancelled_and_retried_runs_once(world: World) -> None:
    world.put("a", "b")
    for _ in range(3):
        assert world.run(world.engine.cancel("q", "a"))
        assert world.put("a", own_id=True) == [False]
        assert world.run(world.engine.retry("q", "a"))
        assert not world.run(world.engine.retry("q", "a"))
    assert world.counts() == {"ready": 2}
    assert world.drain() == ["b", "a"]
    assert world.counts() == {}


@pytest.mark.needs(Feature.DELAY)
def test_a_job_with_a_ghost_survives_every_way_back(world: World) -> None:
    world.put("x", "a")
    world.run(world.engine.discard("q", "a"))
    world.put("a", delay_ms=1_000)
    world.pass_time(1_100)
    lease = world.take(5)[1]
    assert lease.record.id == "a"
    for outcome in (Released(), Retried(BOOM), Retried(BOOM, 1_000), Released()):
        assert world.settle(lease, outcome)
        world.pass_time(1_100)
        (lease,) = world.take(5)
    assert world.settle(lease, Completed(b"", 0))


def test_counts_are_right_after_a_purge_with_ghosts(world: World) -> None:
    world.put(*"abcd")
    world.run(world.engine.discard("q", "a"))
    world.run(world.engine.cancel("q", "c"))
    assert world.run(world.engine.purge("q", State.READY)) == 2
    assert world.counts() == {"cancelled": 1}
    world.put("a", "e")
    assert world.counts() == {"cancelled": 1, "ready": 2}
    assert world.drain() == ["a", "e"]


@pytest.mark.parametrize("state", states())
def test_retry_with_another_payload(world: World, state: State) -> None:
    id = fill(world, state, 1)[0]
    before = world.view(id)
    can = state in {State.SCHEDULED, State.UNROUTABLE, State.FAILED, State.BROKEN, State.CANCELLED}
    assert world.run(world.engine.retry("q", id, b"line one\nline two")) is can
    view = world.view(id)
    assert (view.task, view.enqueued_ms, view.shape) == (before.task, before.enqueued_ms, before.shape)
    assert view.payload == (b"line one\nline two" if can else before.payload)
    if can:
        assert world.take_one().record.payload == b"line one\nline two"


@pytest.mark.parametrize("payload", [b"", b"\n", b"\x00\xff", b"1 t\nx"])
def test_any_payload_may_be_given(world: World, payload: bytes) -> None:
    world.put("a", task="t")
    assert world.settle(world.take_one(), Failed(BOOM))
    assert world.run(world.engine.retry("q", "a", payload))
    record = world.take_one().record
    assert (record.payload, record.task, record.malformed) == (payload, "t", "")
