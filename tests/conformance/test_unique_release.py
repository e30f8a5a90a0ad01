"""A unique key is freed by every end of its job, by nothing else, and never stays behind."""

from __future__ import annotations

import pytest

from tenure.core.engine import Feature
from tenure.core.errors import NotUnique
from tenure.core.job import State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Released, Retried, Unroutable
from tenure.core.shape import Conflict, LaneFailure, Shape, UniqueRule, Until
from tests.support.world import BOOM, World

pytestmark = pytest.mark.needs(Feature.UNIQUE_KEYS)

ENDS: list[Outcome] = [Completed(b"r", 60_000), Completed(b"", 0), Failed(BOOM), Broken(BOOM), Cancelled("no")]
BACK: list[Outcome] = [Retried(BOOM), Retried(BOOM, 1_000), Released(), Unroutable()]
WAITING = ["ready", "scheduled", "retrying", "unroutable"]
RECORDS: dict[State, Outcome] = {
    State.FAILED: Failed(BOOM),
    State.BROKEN: Broken(BOOM),
    State.CANCELLED: Cancelled("no"),
}


def name(value: object) -> str:
    return f"{type(value).__name__}{getattr(value, 'delay_ms', '') or getattr(value, 'result_ttl_ms', '')}"


def waits(world: World, where: str) -> None:
    """A job `a` of key `k` that waits there."""
    world.put_only("a", task="t", delay_ms=60_000 if where == "scheduled" else 0)
    if where == "retrying":
        assert world.settle(world.take_one(), Retried(BOOM, 60_000))
    elif where == "unroutable":
        assert world.settle(world.take_one(), Unroutable())
    assert not world.is_free()


@pytest.mark.parametrize("outcome", ENDS, ids=name)
def test_every_end_frees_the_key(world: World, outcome: Outcome) -> None:
    world.put_only("a")
    lease = world.take_one()
    assert not world.is_free()
    assert world.settle(lease, outcome)
    assert world.is_free()
    assert not world.settle(lease, outcome)


@pytest.mark.parametrize("outcome", BACK, ids=name)
@pytest.mark.parametrize("until", [Until.ENDED, Until.WINDOW])
def test_nothing_else_frees_it(world: World, outcome: Outcome, until: Until) -> None:
    world.put_only("a", until=until, window_ms=60_000, task="t")
    for _ in range(3):
        assert world.settle(world.take_one(), outcome)
        assert not world.is_free()
        world.pass_time(1_100)
        world.maintain(["t"])
        assert not world.is_free()
    assert world.drain() == ["a"]


def test_a_crash_does_not_free_it_but_the_last_one_does(world: World) -> None:
    world.put_only("a")
    for crash in range(1, world.options.max_crashes + 1):
        world.take_one("victim")
        assert world.silence() == 1
        assert world.is_free() is (crash == world.options.max_crashes)
    assert world.state("a") is State.BROKEN


def test_a_worker_that_leaves_does_not_free_it(world: World) -> None:
    world.put_only("a")
    world.take_one()
    world.leave()
    assert not world.is_free()


@pytest.mark.parametrize("act", ["cancel", "discard", "purge"])
@pytest.mark.parametrize("where", WAITING)
def test_taking_away_a_job_that_waits_frees_its_key(world: World, act: str, where: str) -> None:
    waits(world, where)
    world.remove(act, "a")
    assert world.is_free()


@pytest.mark.parametrize("until", Until)
def test_cancelling_all_frees_every_key(world: World, until: Until) -> None:
    for n, where in enumerate(WAITING):
        world.put_only(f"a{n}", f"k{n}", until, window_ms=60_000, delay_ms=60_000 if where == "scheduled" else 0)
    world.put_only("held", "held", until, window_ms=60_000)
    world.cancel_all()
    assert all(world.is_free(f"k{n}") for n in range(len(WAITING)))
    assert world.is_free("held")


@pytest.mark.needs(Feature.CANCEL)
def test_a_job_that_is_cancelled_while_it_runs_frees_its_key_with_its_end(world: World) -> None:
    world.put_only("a")
    lease = world.take_one()
    assert world.cancel("a")
    assert not world.is_free()
    assert world.settle(lease, Retried(BOOM, 1_000))
    assert world.state("a") is State.CANCELLED
    assert world.is_free()


def test_a_zombie_frees_nothing(world: World) -> None:
    world.put_only("a")
    zombie = world.take_one("zombie")
    assert world.silence() == 1
    assert not world.settle(zombie, Completed(b"", 0))
    assert not world.is_free()
    world.drain()
    assert world.is_free()


def test_a_free_key_is_not_freed_again_by_an_older_job(world: World) -> None:
    """What has its record only must not take the key from the job that has it now."""
    world.put_only("old")
    assert world.settle(world.take_one(), Failed(BOOM))
    world.put_only("new")
    assert world.discard("old")
    assert not world.is_free()
    world.drain()
    assert world.is_free()


@pytest.mark.parametrize("state", RECORDS)
@pytest.mark.parametrize("act", ["discard", "purge", "prune"])
def test_removing_a_record_does_not_take_the_key_from_another(world: World, state: State, act: str) -> None:
    world = world.with_options(failed_ttl_ms=60_000)
    world.put_only("old")
    assert world.settle(world.take_one(), RECORDS[state])
    world.put_only("new")
    if act == "prune":
        world.pass_time(61_000)
        assert world.maintain().pruned == 1
    else:
        world.remove(act, "old")
    assert not world.is_free()


# Run again by hand.


@pytest.mark.parametrize("state", RECORDS)
def test_a_retry_by_hand_takes_the_key_again(world: World, state: State) -> None:
    world.put_only("a")
    assert world.settle(world.take_one(), RECORDS[state])
    assert world.retry("a")
    assert world.put_only("b").id == "a"
    assert world.drain() == ["a"]
    assert world.is_free()


@pytest.mark.parametrize("state", RECORDS)
def test_a_retry_by_hand_is_refused_while_another_has_the_key(world: World, state: State) -> None:
    world.put_only("a")
    assert world.settle(world.take_one(), RECORDS[state])
    world.put_only("b")
    before = world.dump()
    assert not world.retry("a")
    assert world.dump() == before
    assert world.drain() == ["b"]
    assert world.retry("a")
    assert world.drain() == ["a"]


def test_a_retry_by_hand_before_its_first_start_is_refused_while_another_has_the_key(world: World) -> None:
    world.put_only("a", until=Until.STARTED)
    assert world.cancel("a")
    world.put_only("b", until=Until.STARTED)
    assert not world.retry("a")
    assert world.drain() == ["b"]
    assert world.retry("a")
    assert world.drain() == ["a"]


def edit(world: World, key: str = "new") -> bool:
    """Run the job `a` again, with other arguments that make this key."""
    edited: bool = world.run(world.engine.retry("q", "a", b"new", Shape(unique=UniqueRule(key))))
    return edited


@pytest.mark.parametrize("until", Until)
@pytest.mark.parametrize("where", [*RECORDS, "scheduled", "unroutable"])
def test_an_edited_job_has_the_key_of_its_new_arguments_and_the_earlier_one_is_free(
    world: World, where: State | str, until: Until
) -> None:
    delay_ms = 60_000 if where == "scheduled" else 0
    world.put_only("a", until=until, window_ms=60_000, task="t", delay_ms=delay_ms)
    if isinstance(where, State):
        assert world.settle(world.take_one(), RECORDS[where])
    elif where == "unroutable":
        assert world.settle(world.take_one(), Unroutable())
    # A start, or a cancellation before the end of the time, has freed the key: nothing follows.
    has_key = (until, where) not in {(Until.STARTED, "unroutable"), (Until.WINDOW, State.CANCELLED)}
    assert edit(world)
    assert world.view("a").shape.unique == UniqueRule("new", until)
    assert world.is_free()
    assert world.is_free("new") is not has_key
    assert world.drain() == ["a"]
    assert world.is_free("new") is (until is not Until.WINDOW or not has_key)
    world.pass_time(60_001)
    assert world.is_free("new")


@pytest.mark.parametrize("where", [*RECORDS, "scheduled", "unroutable"])
def test_an_edit_is_refused_while_another_job_has_the_key_of_the_new_arguments(
    world: World, where: State | str
) -> None:
    world.put_only("a", task="t", delay_ms=60_000 if where == "scheduled" else 0)
    if where != "scheduled":
        assert world.settle(world.take_one(), RECORDS[where] if isinstance(where, State) else Unroutable())
    world.put_only("b", "new")
    before = world.dump()
    with pytest.raises(NotUnique) as refused:
        edit(world)
    assert refused.value.other == "b"
    assert world.dump() == before
    assert world.drain() == ["b"]
    assert edit(world)
    assert world.drain() == ["a"]


def test_an_edit_that_makes_the_same_key_keeps_it(world: World) -> None:
    world.put_only("a", delay_ms=60_000)
    assert edit(world, "k")
    assert not world.is_free()
    assert world.drain() == ["a"]
    assert world.is_free()


def test_a_job_that_waits_for_the_end_of_an_edited_one_runs_as_its_key_is_free(world: World) -> None:
    world.put_only("a", conflict=Conflict.RERUN)
    lease = world.take_one()
    world.put_only("b", conflict=Conflict.RERUN)
    assert world.settle(lease, Retried(BOOM, 60_000))
    assert edit(world)
    assert sorted(world.take_ids()) == ["a", "b"]
    assert not world.is_free()
    assert not world.is_free("new")


@pytest.mark.needs(Feature.LANE_POLICIES)
@pytest.mark.parametrize("until", [Until.ENDED, Until.STARTED])
def test_an_edited_job_that_blocks_its_lane_gets_its_new_key_too(world: World, until: Until) -> None:
    world.configure(lane_failure=LaneFailure.BLOCK)
    world.put_only("a", until=until, lane="L")
    assert world.settle(world.take_one(), Failed(BOOM))
    world.put_only("b", "new", lane="L")
    with pytest.raises(NotUnique):
        edit(world)
    assert world.cancel("b")
    assert edit(world)
    assert (world.is_free(), world.is_free("new")) == (True, False)
    assert world.drain() == ["a"]


# Nothing is left.


@pytest.mark.parametrize("until", [Until.STARTED, Until.ENDED])
@pytest.mark.parametrize("conflict", Conflict)
def test_no_key_is_left_after_a_drain(world: World, until: Until, conflict: Conflict) -> None:
    def put(round: int) -> None:
        for n in range(20):
            world.put_only(f"{round}.{n}", f"k{n % 10}", until, conflict, wait_ms=1_000, task="t")

    put(0)
    outcomes = [*ENDS, *BACK]
    for n in range(3):
        for lease, outcome in zip(world.take(len(outcomes)), outcomes, strict=False):
            put(10 + n)
            assert world.settle(lease, outcome)
        world.take(3, f"dead{n}")
        world.silence()
        put(20 + n)
        world.maintain(["t"])
    for _ in range(10):
        world.pass_time(1_500)
        world.maintain(["t"])
        world.drain()
    world.purge(State.COMPLETED)
    for state in RECORDS:
        world.purge(state)
    assert world.counts() == {}
    assert world.left() == set()


def test_a_window_leaves_nothing_when_it_is_over(world: World) -> None:
    for n in range(30):
        world.put_only(f"a{n}", f"k{n}", Until.WINDOW, window_ms=1_000 * (n + 1))
    world.cancel("a5")
    world.discard("a6")
    world.drain()
    world.purge(State.CANCELLED)
    world.pass_time(15_500)
    world.maintain()
    assert [world.is_free(f"k{n}") for n in (0, 14, 15, 29)] == [True, True, False, False]
    world.pass_time(16_000)
    world.maintain()
    world.take()
    assert world.left() == set()


@pytest.mark.parametrize("act", ["discard", "purge"])
@pytest.mark.parametrize("outcome", [Completed(b"r", 60_000), Failed(BOOM), Cancelled("no")], ids=name)
def test_a_window_is_over_when_what_is_left_of_its_job_is_taken_away(world: World, act: str, outcome: Outcome) -> None:
    world.put_only("a", until=Until.WINDOW, window_ms=60_000)
    assert world.settle(world.take_one(), outcome)
    assert world.is_free() is (outcome == Cancelled("no"))
    world.remove(act, "a")
    assert world.is_free()


@pytest.mark.parametrize("conflict", [Conflict.REPLACE, Conflict.RERUN, Conflict.POSTPONE])
@pytest.mark.parametrize("held", [False, True])
def test_a_window_that_outlives_its_job_does_not_touch_another_of_the_same_id(
    world: World, conflict: Conflict, held: bool
) -> None:
    """The record of the job may be gone long before its window is over, and its id may be used again."""
    world.put_only("a", until=Until.WINDOW, window_ms=60_000, own_id=True)
    assert world.settle(world.take_one(), Completed(b"", 0))
    world.put("a", payload=b"other work", own_id=True)
    if held:
        world.take_one()
    answer = world.put_only("b", until=Until.WINDOW, window_ms=60_000, conflict=conflict, payload=b"new", wait_ms=500)
    assert not answer.created
    assert world.view("a").payload == b"other work"
    assert world.counts() == {"active" if held else "ready": 1}
    world.leave()
    assert world.drain() == ["a"]
    world.pass_time(60_001)
    assert world.put_only("c").created
