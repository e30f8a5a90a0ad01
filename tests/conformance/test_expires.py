"""Jobs that have not begun by a time end in `cancelled`, whatever they wait for, and free what they had."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.job import JobView, State
from tenure.core.outcome import Completed, Released, Retried, Unroutable
from tenure.core.rates import LimitRule
from tenure.core.shape import Shape, UniqueRule
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.EXPIRES)

SOON = Shape(expires="+1000")
ALONE = LimitRule("gpu", concurrency=1)


def expired(world: World, *ids: str) -> bool:
    """Whether these jobs have ended since they did not begin in time."""
    world.audit()
    views: list[JobView] = [world.view(id) for id in ids]
    return all(view.state is State.CANCELLED and view.error and view.error.type == "Expired" for view in views)


@pytest.mark.parametrize("looks", ["claim", "maintenance", "heartbeat"])
def test_a_job_that_has_not_begun_in_time_ends(world: World, looks: str) -> None:
    world.put("a", shape=SOON)
    world.put("b")
    world.pass_time(1_100)
    if looks == "claim":
        assert world.take_ids() == ["b"]
    elif looks == "maintenance":
        world.maintain()
    else:
        world.beat("w")
    assert expired(world, "a")
    assert world.take_ids() == ([] if looks == "claim" else ["b"])
    assert world.totals()["cancelled"] == 1


def test_a_job_that_begins_in_time_runs_for_as_long_as_it_likes(world: World) -> None:
    world.put("a", shape=SOON)
    world.pass_time(800)
    lease = world.take_one()
    world.pass_time(800)
    world.maintain()
    assert world.settle(lease, Completed(b"r"))
    assert world.view("a").state is State.COMPLETED
    world.audit()


@pytest.mark.parametrize("waits", ["lane", "priority", "limit", "share", "scheduled", "unroutable", "paused", "unique"])
def test_it_ends_wherever_it_waits_and_frees_what_it_has(world: World, waits: str) -> None:
    first = {
        "lane": Shape(lane="L"),
        "limit": Shape(limits=(ALONE,)),
        "unique": Shape(unique=UniqueRule("k")),
    }.get(waits, Shape())
    shape = Shape(
        lane=first.lane,
        priority=5 if waits == "priority" else 0,
        limits=first.limits,
        share="s" if waits == "share" else None,
        unique=first.unique,
        expires="+1000",
    )
    held = None
    if waits in ("lane", "limit"):
        world.put("first", shape=first)
        held = world.take_one()
    world.put("a", shape=shape, delay_ms=900 if waits == "scheduled" else 0, task="t")
    world.put("next", shape=first)
    if waits == "unroutable":
        (lease,) = [one for one in world.take() if one.record.id == "a"]
        world.settle(lease, Unroutable())
    if waits == "paused":
        world.configure(paused=True)
    world.pass_time(1_100)
    world.maintain()
    assert expired(world, "a")
    if waits == "paused":
        world.configure(paused=False)
    if held is not None:
        world.settle(held, Completed(b""))
    if waits == "unique":
        assert world.put("next", shape=first) == [True]
    if waits != "unroutable":
        assert world.take_ids() == ["next"]
    world.audit()


@pytest.mark.parametrize(
    "outcome", [Retried(BOOM, 0), Retried(BOOM, 500), Released()], ids=["now", "later", "released"]
)
def test_a_retry_expires_as_the_job_would_have(world: World, outcome: Retried | Released) -> None:
    for id, wait_ms in (("late", 1_100), ("early", 100)):
        world.put(id, shape=SOON)
        lease = world.take_one()
        world.pass_time(wait_ms)
        assert world.settle(lease, outcome)
        world.pass_time(600)
        assert world.take_ids() == ([] if id == "late" else ["early"])
    assert expired(world, "late")


def test_a_job_of_a_dead_worker_expires(world: World) -> None:
    world.put("a", shape=SOON)
    world.take_one("dead")
    world.silence()
    assert world.take_ids() == []
    assert expired(world, "a")


def test_a_time_may_be_given(world: World) -> None:
    now = int(world.command("TIME")[0]) * 1000
    world.put("over", shape=Shape(expires=str(now - 1)))
    world.put("later", shape=Shape(expires=str(now + 3_600_000)))
    assert world.take_ids() == ["later"]
    assert expired(world, "over")


def test_a_job_that_is_run_again_by_hand_expires_no_more(world: World) -> None:
    world.put("a", shape=SOON, payload=b"an x=+5 in the payload")
    world.pass_time(1_100)
    world.maintain()
    assert world.run(world.engine.retry("q", "a"))
    assert world.view("a").shape.expires is None
    world.pass_time(5_000)
    (lease,) = world.take()
    assert lease.record.payload == b"an x=+5 in the payload"
    world.audit()


def test_more_jobs_than_one_call_ends_start_none_of_them(world: World) -> None:
    world.put(*(f"id-{n}" for n in range(450)), shape=SOON)
    world.pass_time(1_100)
    taken = [id for _ in range(10) for id in world.take_ids(100)]
    assert taken == []
    assert world.counts()[State.CANCELLED] == 450


@pytest.mark.parametrize("how", ["cancel", "discard", "cancel all", "purge"])
def test_a_job_that_ends_otherwise_leaves_nothing(world: World, how: str) -> None:
    world.put("a", shape=SOON)
    match how:
        case "cancel":
            world.cancel("a")
        case "discard":
            world.run(world.engine.discard("q", "a"))
        case "cancel all":
            world.run(world.engine.cancel_all("q"))
        case _:
            world.run(world.engine.purge("q", State.READY))
    world.audit()
    world.put("a", own_id=True)
    world.pass_time(1_100)
    assert world.take_ids() == ([] if how in ("cancel", "cancel all") else ["a"])
