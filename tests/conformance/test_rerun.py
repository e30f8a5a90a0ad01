"""Run once more after the one that runs: whoever comes while a job of the key runs is not lost, and runs once."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.job import Enqueued, Lease, NewJob, State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried
from tenure.core.shape import Conflict, Shape, UniqueRule, Until
from tenure.runtime.ports import ROUND_MOST
from tests.support.stepping import stop_after
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.UNIQUE_KEYS)

ENDS: list[Outcome] = [Completed(b"r", 60_000), Completed(b"", 0), Failed(BOOM), Broken(BOOM), Cancelled("no")]


def rerun(world: World, id: str, lane: str | None = None) -> Enqueued:
    return world.put_only(id, conflict=Conflict.RERUN, payload=id.encode(), lane=lane)


def running_and_waiting(world: World) -> Lease:
    """Job `a` runs, job `b` is to run after it."""
    assert rerun(world, "a").created
    lease = world.take_one()
    assert rerun(world, "b") == Enqueued("b", True)
    return lease


@pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: type(outcome).__name__)
def test_it_runs_exactly_once_after_the_end(world: World, outcome: Outcome) -> None:
    lease = running_and_waiting(world)
    assert world.take() == []
    assert world.settle(lease, outcome)
    assert world.state("b") is State.READY
    second = world.take_one()
    assert (second.record.id, second.record.payload, second.attempt) == ("b", b"b", 1)
    world.finish(second)
    assert world.take() == []
    assert world.is_free()


def test_it_wakes_somebody(world: World) -> None:
    lease = running_and_waiting(world)
    assert world.take() == []
    world.finish(lease)
    assert world.wait(["q"], 5_000) == "q"


def test_it_is_listed_as_scheduled_without_a_time(world: World) -> None:
    running_and_waiting(world)
    world.put("late", delay_ms=5_000)
    view = world.view("b")
    assert (view.state, view.due_ms, view.payload) == (State.SCHEDULED, None, b"b")
    assert world.counts() == {"active": 1, "scheduled": 2}
    assert sorted(world.ids(State.SCHEDULED)) == ["b", "late"]


def test_a_second_one_gives_its_payload_to_the_first(world: World) -> None:
    lease = running_and_waiting(world)
    for id in ("c", "d"):
        assert rerun(world, id) == Enqueued("b", False, Conflict.RERUN)
        assert world.job(id) is None
    assert world.counts() == {"active": 1, "scheduled": 1}
    world.finish(lease)
    (second,) = world.take()
    assert (second.record.id, second.record.payload) == ("b", b"d")
    assert rerun(world, "e").created, "the next one after that"
    world.finish(second)
    assert world.drain() == ["e"]


def test_the_others_are_told_of_the_one_that_runs(world: World) -> None:
    running_and_waiting(world)
    assert world.put_only("c") == Enqueued("a", False, Conflict.REJECT)
    assert world.put_only("c", conflict=Conflict.EXISTING) == Enqueued("a", False, Conflict.EXISTING)


@pytest.mark.parametrize("how", ["released", "left", "silent", "retried", "retried later"])
def test_it_waits_while_the_first_is_run_again(world: World, how: str) -> None:
    lease = running_and_waiting(world)
    if how == "released":
        assert world.settle(lease, Released())
    elif how == "left":
        assert world.leave() == 1
    elif how == "silent":
        assert world.silence() == 1
    else:
        assert world.settle(lease, Retried(BOOM, 0 if how == "retried" else 1_000))
        world.pass_time(1_100)
    again = world.take_one("other")
    assert again.record.id == "a"
    assert world.take() == []
    assert world.view("b").state is State.SCHEDULED
    world.finish(again)
    assert world.drain() == ["b"]


def test_it_runs_after_the_first_has_broken(world: World) -> None:
    running_and_waiting(world)
    for _ in range(world.options.max_crashes):
        world.silence()
        world.take(1, "victim")
    assert world.state("a") is State.BROKEN
    assert world.state("b") is State.ACTIVE


@pytest.mark.parametrize("act", ["cancel", "discard", "purge"])
def test_it_can_be_taken_away(world: World, act: str) -> None:
    lease = running_and_waiting(world)
    world.remove(act, "b")
    assert world.counts().get("scheduled", 0) == 0
    assert world.state("b") is (State.CANCELLED if act == "cancel" else None)
    assert rerun(world, "c").created, "its place is free"
    world.remove("discard", "c")
    world.finish(lease)
    assert world.take() == []
    assert world.is_free()


@pytest.mark.parametrize("act", ["cancel", "discard"])
def test_it_runs_when_the_first_is_taken_away_while_it_waits_for_its_retry(world: World, act: str) -> None:
    lease = running_and_waiting(world)
    assert world.settle(lease, Retried(BOOM, 60_000))
    world.remove(act, "a")
    assert world.drain() == ["b"]
    assert world.is_free()


def test_cancelling_all_leaves_nobody_to_run(world: World) -> None:
    lease = running_and_waiting(world)
    count = world.cancel_all()
    assert (count.cancelled, count.requested) == (1, 1)
    assert world.settle(lease, Released())
    assert world.take() == []
    assert world.counts() == {"cancelled": 2}
    assert world.is_free()


@pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
def test_it_has_the_key_once_it_is_its_turn(world: World, state: State) -> None:
    lease = running_and_waiting(world)
    assert world.settle(lease, Failed(BOOM) if state is State.FAILED else Cancelled(""))
    assert world.put_only("c").id == "b"
    assert not world.retry("a"), "the key is another's"
    world.drain()
    assert world.retry("a")
    assert world.drain() == ["a"]


@pytest.mark.needs(Feature.LANES)
def test_it_takes_its_place_in_its_lane(world: World) -> None:
    rerun(world, "a", "L")
    lease = world.take_one()
    rerun(world, "b", "L")
    world.put_in("L", "c")
    world.finish(lease)
    world.put_in("L", "d")
    assert world.in_lane("L") == ["c", "b", "d"], "as a job does whose time has come"
    assert world.drain() == ["c", "b", "d"]


def test_when_nobody_runs_it_is_as_good_as_the_one_that_waits(world: World) -> None:
    assert rerun(world, "a").created
    assert rerun(world, "b") == Enqueued("a", False, Conflict.EXISTING)
    assert world.view("a").payload == b"a"
    assert world.drain() == ["a"]


def test_until_started_a_running_one_is_in_nobodys_way(world: World) -> None:
    world.put_only("a", until=Until.STARTED, conflict=Conflict.RERUN)
    lease = world.take_one()
    assert world.put_only("b", until=Until.STARTED, conflict=Conflict.RERUN).created
    assert world.state("b") is State.READY
    world.finish(lease, *world.take())
    assert world.is_free()


def test_it_cannot_be_run_before_its_turn(world: World) -> None:
    lease = running_and_waiting(world)
    before = world.dump()
    assert not world.retry("b")
    assert world.dump() == before
    world.finish(lease)
    assert world.drain() == ["b"]


@pytest.mark.parametrize("until", [Until.ENDED, Until.WINDOW])
def test_nothing_is_left(world: World, until: Until) -> None:
    world.put_only("a", until=until, window_ms=60_000)
    lease = world.take_one()
    assert world.put_only("b", until=until, conflict=Conflict.RERUN, window_ms=60_000).created
    world.finish(lease)
    assert world.drain() == ["b"]
    world.audit()
    world.pass_time(60_100)
    world.maintain()
    world.take()
    assert world.left() == set()


def follow(world: World, count: int) -> list[str]:
    """So many jobs run, and as many wait, each for one of them."""
    running, waiting = ([f"{letter}{n}" for n in range(count)] for letter in "rw")
    for ids in (running, waiting):
        rules = (UniqueRule(f"k{n}", Until.ENDED, Conflict.RERUN) for n in range(count))
        world.enqueue([NewJob("q", id, b"", shape=Shape(unique=rule)) for id, rule in zip(ids, rules, strict=True)])
        while world.take(ROUND_MOST):
            pass
    return waiting


def test_many_of_them_are_listed_page_by_page_each_once(world: World) -> None:
    waiting = follow(world, 900)
    world.put("late", delay_ms=5_000)
    seen: list[str] = []
    while page := world.run(world.engine.page("q", State.SCHEDULED, len(seen))).jobs:
        seen += [view.id for view in page]
    assert seen[0] == "late"
    assert sorted(seen[1:]) == sorted(waiting)


@pytest.mark.parametrize("act", ["purge", "cancel"])
def test_many_of_them_are_removed_however_many_there_are(world: World, act: str) -> None:
    count = 900
    follow(world, count)
    world.put("late", delay_ms=5_000)
    if act == "purge":
        assert world.purge(State.SCHEDULED) == count + 1
        assert world.counts() == {"active": count}
    else:
        assert world.cancel_all().cancelled == count + 1
    world.audit()


def test_a_purge_that_stopped_half_way_hides_nothing_from_the_next(world: World) -> None:
    follow(world, 900)
    stop_after(3, world.engine.purge("q", State.SCHEDULED), world.driver)
    left = world.counts()["scheduled"]
    assert 0 < left < 900
    assert world.run(world.engine.purge("q", State.SCHEDULED)) == left
    world.audit()
