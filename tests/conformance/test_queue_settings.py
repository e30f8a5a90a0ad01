"""What is set for a queue as a whole: paused, a maximum length, what becomes of lanes that fail."""

from __future__ import annotations

import contextlib

import pytest

from tenure.core.engine import Feature
from tenure.core.errors import InvalidArgument, QueueFull
from tenure.core.job import Enqueued, NewJob, State
from tenure.core.outcome import Failed, Retried, Unroutable
from tenure.core.shape import Conflict, LaneFailure, QueueSettings, Shape, UniqueRule
from tests.support.world import BOOM, World

PAUSE = pytest.mark.needs(Feature.PAUSE)
LENGTH = pytest.mark.needs(Feature.MAX_LENGTH)


def settings(world: World, queue: str = "q") -> QueueSettings:
    found: QueueSettings = world.run(world.engine.settings_of(queue))
    return found


@PAUSE
@LENGTH
def test_what_is_not_named_stays_as_it_is(world: World) -> None:
    assert settings(world) == QueueSettings()
    assert world.configure(max_length=5) == QueueSettings(max_length=5)
    assert world.configure(paused=True) == QueueSettings(max_length=5, paused=True)
    expected = QueueSettings(5, LaneFailure.BLOCK, True)
    assert world.configure(lane_failure=LaneFailure.BLOCK) == expected
    assert world.configure() == settings(world) == world.run(world.engine.queue("q")).settings == expected
    assert settings(world, "other") == QueueSettings()
    assert world.configure(max_length=0, paused=False) == QueueSettings(lane_failure=LaneFailure.BLOCK)
    assert world.configure(lane_failure=LaneFailure.SKIP) == QueueSettings()
    assert world.left() == set()


@PAUSE
@LENGTH
def test_a_queue_with_settings_is_listed_before_its_first_job(world: World) -> None:
    world.configure(paused=False)
    assert world.run(world.engine.queues()) == []
    world.configure(paused=True)
    assert world.run(world.engine.queues()) == ["q"]


@pytest.mark.parametrize("length", [-1, 10**12])
@LENGTH
def test_a_length_that_cannot_be(world: World, length: int) -> None:
    with pytest.raises(InvalidArgument, match="max_length"):
        world.configure(max_length=length)


@PAUSE
@LENGTH
def test_settings_survive_a_drain(world: World) -> None:
    expected = world.configure(max_length=9, lane_failure=LaneFailure.PARK)
    world.put(*"abc")
    world.drain()
    world.maintain()
    assert settings(world) == expected


# Pause.


@PAUSE
def test_nothing_is_claimed_of_a_paused_queue(world: World) -> None:
    world.put("before")
    world.configure(paused=True)
    world.put("a")
    world.put_in("L", "laned")
    world.put("other", queue="r")
    assert world.take_ids(10, queues=("q", "r")) == ["other"]
    assert world.counts() == {"ready": 3}
    world.configure(paused=False)
    assert sorted(world.drain()) == ["a", "before", "laned"]


@PAUSE
def test_nothing_is_claimed_of_a_queue_that_is_paused_between_plain_jobs(world: World) -> None:
    world.put("before")
    world.finish(world.take_one())
    world.configure(paused=True)
    world.put("a")
    assert world.take() == []
    world.configure(paused=False)
    assert world.drain() == ["a"]


@PAUSE
@pytest.mark.needs(Feature.PRIORITIES)
def test_nothing_is_claimed_of_a_higher_priority_in_a_paused_queue(world: World) -> None:
    world.configure(paused=True)
    world.put_at(5, "high")
    assert world.take() == []
    world.configure(paused=False)
    assert world.drain() == ["high"]


@PAUSE
def test_what_is_held_goes_on_in_a_paused_queue(world: World) -> None:
    world.put("a", "b", "c")
    a, b, c = world.take()
    world.configure(paused=True)
    assert not world.beat("w", [a, b, c]).lost
    world.finish(a)
    assert world.settle(b, Retried(BOOM))
    assert world.settle(c, Failed(BOOM))
    assert world.counts() == {"ready": 1, "failed": 1}


@PAUSE
@pytest.mark.needs(Feature.DELAY)
def test_what_is_due_is_done_in_a_paused_queue(world: World) -> None:
    world.configure(paused=True)
    world.put("late", delay_ms=1_000)
    world.pass_time(1_100)
    assert world.take() == []
    assert world.state("late") is State.READY
    world.configure(paused=False)
    assert world.drain() == ["late"]


@PAUSE
def test_the_jobs_of_a_dead_worker_return_in_a_paused_queue(world: World) -> None:
    world.put("a")
    world.take_one("dead")
    world.configure(paused=True)
    assert world.silence() == 1
    assert world.take() == []
    assert world.counts() == {"ready": 1}


@PAUSE
def test_resuming_wakes(world: World) -> None:
    world.put("a")
    world.configure(paused=True)
    assert world.take() == []
    assert world.wait(["q"], 20) is None
    world.configure(paused=False)
    assert world.wait(["q"], 5_000) == "q"
    assert world.drain() == ["a"]


@PAUSE
def test_a_paused_queue_keeps_nobody_busy(world: World) -> None:
    """Jobs that come wake somebody who looks and finds nothing: but that is all."""
    world.configure(paused=True)
    world.put("a")
    assert world.take() == []
    assert world.run(world.engine.lease("w", ["q"], 1)).next_ms is None
    assert world.wait(["q"], 20) is None


# Maximum length.


@LENGTH
def test_as_many_as_may_be_and_no_more(world: World) -> None:
    world.configure(max_length=3)
    assert world.put("a", "b") == [True, True]
    before = world.dump()
    with pytest.raises(QueueFull, match=r"has 2 of at most 3 jobs \(max_length\), and the call adds 2\. Nothing"):
        world.put("c", "d")
    assert world.dump() == before
    assert world.put("c") == [True]
    before = world.dump()
    with pytest.raises(QueueFull):
        world.put("d")
    with pytest.raises(QueueFull):
        world.put("d", delay_ms=60_000)
    with pytest.raises(QueueFull):
        world.put_in("L", "d")
    assert world.dump() == before
    assert world.put("elsewhere", queue="r") == [True]


@LENGTH
@pytest.mark.parametrize("count", [501, 1_200])
def test_in_bulk_all_or_nothing(world: World, count: int) -> None:
    world.configure(max_length=count)
    world.put("one")
    before = world.dump()
    jobs = [NewJob("q", f"j{n}", b"") for n in range(count)]
    with pytest.raises(QueueFull):
        world.enqueue(jobs)
    assert world.dump() == before
    world.drain()
    assert all(answer.created for answer in world.enqueue(jobs))
    assert world.counts() == {"ready": count}


@LENGTH
def test_all_that_have_not_ended_count(world: World) -> None:
    world.configure(max_length=5)
    world.put("parked", "failed", "done", "active", "retrying", task="t")
    leases = {lease.record.id: lease for lease in world.take()}
    for act in (
        lambda: world.settle(leases["parked"], Unroutable()),
        lambda: world.settle(leases["retrying"], Retried(BOOM, 60_000)),
    ):
        assert act()
        with pytest.raises(QueueFull):
            world.put("more")
    world.finish(leases["done"])
    assert world.settle(leases["failed"], Failed(BOOM))
    assert world.put("more", "late", delay_ms=60_000) == [True, True]
    with pytest.raises(QueueFull):
        world.put("yet more")


@LENGTH
@pytest.mark.parametrize("act", ["cancel", "discard", "purge"])
def test_what_is_taken_away_makes_room(world: World, act: str) -> None:
    world.configure(max_length=1)
    world.put("a")
    world.remove(act, "a")
    assert world.put("b") == [True]


@LENGTH
def test_a_job_that_comes_back_is_never_refused(world: World) -> None:
    world.configure(max_length=1)
    world.put("a")
    assert world.settle(world.take_one(), Failed(BOOM))
    world.put("b")
    assert world.retry("a"), "nobody's job is lost for want of room"
    lease = world.take_one()
    world.configure(max_length=1)
    assert world.settle(lease, Retried(BOOM))
    assert world.counts() == {"ready": 2}


@LENGTH
def test_a_new_length_drops_nothing(world: World) -> None:
    world.put(*"abc")
    world.configure(max_length=1)
    assert world.counts() == {"ready": 3}
    with pytest.raises(QueueFull):
        world.put("d")
    world.configure(max_length=0)
    assert world.put("d") == [True]


@LENGTH
def test_full_says_what_to_do(world: World) -> None:
    world.configure(max_length=2)
    world.put("a", "b")
    with pytest.raises(QueueFull) as caught:
        world.put("c")
    text = str(caught.value)
    assert "q" in text
    assert "2" in text
    assert "TNFULL" not in text


@LENGTH
@pytest.mark.needs(Feature.UNIQUE_KEYS)
@pytest.mark.parametrize("conflict", [Conflict.REJECT, Conflict.EXISTING])
def test_a_full_queue_is_not_changed_by_one_whose_key_is_taken(world: World, conflict: Conflict) -> None:
    """It needs no room, but that it is told so is not promised."""
    world.configure(max_length=1)
    world.put_only("a")
    before = world.dump()
    with contextlib.suppress(QueueFull):
        assert world.put_only("b", conflict=conflict).id == "a"
    assert world.dump() == before


@LENGTH
@pytest.mark.needs(Feature.UNIQUE_KEYS)
@pytest.mark.parametrize("conflict", Conflict)
def test_what_adds_nothing_fits_into_a_full_queue(world: World, conflict: Conflict) -> None:
    world.configure(max_length=1)
    assert world.put_only("a", wait_ms=60_000, conflict=conflict, delay_ms=60_000).created
    assert not world.put_only("b", wait_ms=60_000, conflict=conflict).created
    assert world.put("a", own_id=True) == [False]
    with pytest.raises(QueueFull, match="adds 1"):
        world.put_only("b", "other")
    assert world.counts() == {"scheduled": 1}


@LENGTH
@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_a_rerun_needs_room_once(world: World) -> None:
    world.put_only("a", conflict=Conflict.RERUN)
    world.take_one()
    world.configure(max_length=1)
    with pytest.raises(QueueFull):
        world.put_only("b", conflict=Conflict.RERUN)
    world.configure(max_length=2)
    assert world.put_only("b", conflict=Conflict.RERUN).created
    assert world.put_only("c", conflict=Conflict.RERUN) == Enqueued("b", False, Conflict.RERUN)


@LENGTH
@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_in_bulk_only_what_is_new_needs_room(world: World) -> None:
    world.configure(max_length=2)
    world.put("a", own_id=True)
    rule = Shape(unique=UniqueRule("k"))
    equal = [NewJob("q", f"b{n}", b"", shape=rule) for n in range(5)]
    two = [*equal, NewJob("q", "c", b"", shape=Shape(priority=3))]
    before = world.dump()
    with pytest.raises(QueueFull, match=r"has 1 of .* adds 2"):
        world.enqueue(two)
    assert world.dump() == before
    assert [answer.created for answer in world.enqueue(equal)] == [True, False, False, False, False]
    assert [answer.created for answer in world.enqueue([NewJob("q", "a", b"", own_id=True)])] == [False]


@pytest.mark.needs(Feature.PAUSE)
def test_a_beat_says_that_a_queue_is_paused_while_jobs_of_it_are_held(world: World) -> None:
    world.put("a")
    world.put("b", queue="other")
    held = [*world.take(1), *world.take(1, queues=("other",))]
    assert world.beat("w", held, ("q", "other")).paused == frozenset()
    world.configure(paused=True)
    assert world.beat("w", held, ("q", "other")).paused == {"q"}
    assert world.beat("idle").paused == frozenset()
    world.configure(paused=False)
    assert world.beat("w", held).paused == frozenset()
