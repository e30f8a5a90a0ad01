"""Cursors: a walk page by page, while jobs come and go, shows each job that stays."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable

import pytest

from tenure.core import limits
from tenure.core.engine import Feature, Trait
from tenure.core.errors import InvalidArgument
from tenure.core.job import Lease, State
from tenure.core.outcome import Failed, Retried, Unroutable
from tenure.core.shape import Conflict
from tenure.engines.kit.config import MAX_GHOST_LOOK
from tests.conformance.test_inspect import ENDINGS, NEEDS, states
from tests.support.world import BOOM, PAGES_MOST, World

COUNT, SIZE = 20, 3
IDS = [f"j{n:02}" for n in range(COUNT)]
NEEDED: dict[State, Feature | Trait] = {**NEEDS, State.SCHEDULED: Trait.RETRY_DELAY}
"""Scheduled jobs wait for a retry here, which needs no `Feature.DELAY`."""


def walk(
    world: World,
    state: State,
    between: Callable[[list[str]], None] = lambda page: None,
    size: int = SIZE,
    lane: str | None = None,
) -> list[str]:
    """The ids of all pages. `between` is called with those of each page, before the next one is asked for."""
    found: list[str] = []
    after: str | None = None
    for _ in range(PAGES_MOST):
        page = world.run(world.engine.page("q", state, limit=size, lane=lane, after=after))
        ids = [job.id for job in page.jobs]
        assert len(ids) <= size
        found += ids
        if page.next is None:
            return found
        after = page.next
        between(ids)
    raise AssertionError("the pages have no end")


def enter(world: World, state: State, *ids: str) -> dict[str, Lease]:
    """Bring jobs into a state at one moment; of those that are held, the leases."""
    world.put(*ids, task="t")
    if state is State.READY:
        return {}
    leases = {lease.record.id: lease for lease in world.take(len(ids), "w")}
    if state is not State.ACTIVE:
        outcome = Retried(BOOM, 60_000) if state is State.SCHEDULED else ENDINGS[state]
        world.settle_each(list(leases.values()), *[outcome] * len(leases))
    return leases


def next_ms(world: World) -> None:
    """Wait until Redis' clock shows another millisecond."""
    before = now_ms(world)
    while now_ms(world) == before:
        pass


def now_ms(world: World) -> int:
    seconds, micros = world.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


@pytest.mark.parametrize("state", states(needs=NEEDED))
@pytest.mark.parametrize("size", [1, 3, 5, 20, 21])
def test_a_walk_without_changes_meets_each_job_once(world: World, state: State, size: int) -> None:
    enter(world, state, *IDS)
    found = walk(world, state, size=size)
    assert sorted(found) == IDS
    assert found == [job.id for job in world.run(world.engine.page("q", state)).jobs]


@pytest.mark.parametrize("state", states(set(State) - {State.READY, State.ACTIVE}, NEEDED))
def test_a_walk_while_jobs_leave_a_state_and_others_enter_it(world: World, state: State) -> None:
    enter(world, state, *IDS)
    gone: list[str] = []
    new: list[str] = []

    def between(page: list[str]) -> None:
        # The last of the page, where the cursor stands, is among those that go.
        gone.extend(page[-2:])
        for id in page[-2:]:
            assert world.discard(id)
        # Those of other times come before the cursor, or behind it.
        next_ms(world)
        if len(new) < COUNT:
            new.extend([f"new{len(new) + n}" for n in range(4)])
            enter(world, state, *new[-4:])

    found = walk(world, state, between)
    stayed = [id for id in IDS if id not in gone]
    assert stayed
    assert [id for id in sorted(found) if id in stayed] == stayed
    assert len(found) == len(set(found))


def test_a_walk_over_active_jobs_while_they_complete(world: World) -> None:
    leases = enter(world, State.ACTIVE, *IDS)
    ended: set[str] = set()

    def between(page: list[str]) -> None:
        later = [id for id in IDS[::-1] if id in leases][:1]
        for id in {*page[-2:], *later} & leases.keys():
            world.finish(leases.pop(id))
            ended.add(id)
        world.put(f"new{len(ended)}")
        world.take(1, f"w{len(ended)}")

    found = walk(world, State.ACTIVE, between)
    assert [id for id in sorted(found) if id in leases] == sorted(leases)


def test_a_walk_over_ready_jobs_while_they_complete_and_others_come(world: World) -> None:
    world.put(*IDS)
    taken: set[str] = set()

    def between(page: list[str]) -> None:
        for lease in world.take(2, "w"):
            world.finish(lease)
            taken.add(lease.record.id)
        world.put(*(f"new{len(taken)}{n}" for n in range(2 if len(taken) < COUNT else 0)))

    found = walk(world, State.READY, between)
    assert [id for id in IDS if id not in found] == []
    assert len(found) == len(set(found))


def test_the_job_at_the_cursor_was_taken_and_is_back_behind_others(world: World) -> None:
    world.put(*IDS[:6])
    first = IDS[:3]

    def between(page: list[str]) -> None:
        if page == first:
            first.clear()
            leases = world.take(3)
            world.settle_each(leases, *[Retried(BOOM, 0)] * 3)
            world.put("a", "b", "c", "d")

    found = walk(world, State.READY, between)
    assert [id for id in found if id in IDS[3:6]] == IDS[3:6]


def test_the_job_at_the_cursor_failed_and_was_retried_by_hand(world: World) -> None:
    """Its counts are those that it had before."""
    world.put(*IDS)
    first = IDS[:3]

    def between(page: list[str]) -> None:
        if page == first:
            first.clear()
            world.settle_each(world.take(3), *[Failed(BOOM)] * 3)
            assert all(world.run(world.engine.retry("q", id)) for id in page)

    found = walk(world, State.READY, between)
    assert found == [*IDS, *IDS[:3]]


def test_a_job_that_was_enqueued_again_far_behind_its_first_entry(world: World) -> None:
    many = [f"m{n:04}" for n in range(MAX_GHOST_LOOK + 100)]
    world.put("again")
    for start in range(0, len(many), 1_000):
        world.put(*many[start : start + 1_000])
    assert world.discard("again")
    world.put("again")
    assert walk(world, State.READY, size=limits.PAGE_MAX) == [*many, "again"]


def test_jobs_that_were_released_are_shown_again_and_none_is_left_out(world: World) -> None:
    world.put(*IDS)

    def between(page: list[str]) -> None:
        if page == IDS[3:6]:
            world.take(8)
        elif page == IDS[8:11]:
            world.leave()

    found = walk(world, State.READY, between)
    assert found == [*IDS[:6], *IDS[8:]]


def test_a_cursor_that_is_none_is_refused(world: World) -> None:
    world.put(*IDS)
    after = world.run(world.engine.page("q", State.READY, limit=SIZE)).next
    forged = urlsafe_b64encode(b"\x93\xa5ready\xa0\x91\xc4\x01x").decode()
    for cursor in ("", "x", "ä", after[:-4], after + "AAAA", forged):
        with pytest.raises(InvalidArgument, match="after"):
            world.run(world.engine.page("q", State.READY, after=cursor))
    with pytest.raises(InvalidArgument, match=r"after must be .* got one of a page of ready jobs"):
        world.run(world.engine.page("q", State.FAILED, after=after))


def test_an_offset_counts_from_the_cursor(world: World) -> None:
    world.put(*IDS)
    after = world.run(world.engine.page("q", State.READY, limit=SIZE)).next
    assert [job.id for job in world.run(world.engine.page("q", State.READY, 2, 2, after=after)).jobs] == IDS[5:7]


@pytest.mark.needs(Feature.UNROUTABLE)
def test_parked_jobs_of_several_tasks_and_jobs_of_several_workers(world: World) -> None:
    for name in ("x", "y", "z"):
        world.put(*(f"{name}{n}" for n in range(4)), task=name)
    expected = [f"{name}{n}" for name in "xyz" for n in range(4)]
    leases = [lease for n in range(3) for lease in world.take(4, f"w{n}")]
    assert walk(world, State.ACTIVE) == expected
    assert world.command("SCRIPT", "FLUSH")
    world.settle_each(leases, *[Unroutable()] * len(leases))

    def between(page: list[str]) -> None:
        if "y0" in page:
            # A whole task has gone, and others came before it.
            for n in range(4):
                world.discard(f"y{n}")
            world.put("a1", task="a")
            world.settle_each(world.take(1), Unroutable())

    assert walk(world, State.UNROUTABLE, between) == [*expected[:6], *expected[8:]]


@pytest.mark.needs(Feature.PRIORITIES)
def test_ready_jobs_of_priorities_that_are_used_up(world: World) -> None:
    for priority in (5, 0, -5):
        world.put_at(priority, *(f"p{priority}{n}" for n in range(4)))

    def between(page: list[str]) -> None:
        if "p51" in page:
            world.finish(*world.take(4))

    expected = [f"p{priority}{n}" for priority in (5, 0, -5) for n in range(4)]
    assert walk(world, State.READY, between, size=2) == expected[:2] + expected[4:]


@pytest.mark.needs(Feature.LANES)
def test_ready_jobs_of_lanes_that_have_their_turns(world: World) -> None:
    """Of each lane the next job is ready: lanes whose job was claimed and completed stand at the end again."""
    for n in range(2):
        for lane in range(COUNT):
            world.put_in(f"l{lane}", f"l{lane}-{n}")
    heads = [f"l{lane}-0" for lane in range(COUNT)]

    def between(page: list[str]) -> None:
        if page == heads[3:6]:
            world.finish(*world.take(8))
            world.put_in("new", "new")

    found = walk(world, State.READY, between)
    assert [id for id in found if id in heads] == [*heads[:6], *heads[8:]]
    assert len(found) == len(set(found))


@pytest.mark.needs(Feature.LANES)
def test_jobs_that_wait_in_a_lane(world: World) -> None:
    world.put_in("l", *IDS)

    def between(page: list[str]) -> None:
        if page == IDS[:3]:
            (lease,) = world.take(1)
            world.settle(lease, Retried(BOOM, 0))
            world.put_in("l", "new")
        else:
            world.finish(*world.take(1))

    assert walk(world, State.READY, between, lane="l") == [*IDS, "new"]


@pytest.mark.needs(Feature.UNIQUE_KEYS)
def test_jobs_that_wait_for_another_come_behind_the_scheduled_ones(world: World) -> None:
    for n in range(5):
        world.put_only(f"first{n}", f"k{n}")
    world.take(5)
    for n in range(5):
        world.put_only(f"again{n}", f"k{n}", conflict=Conflict.RERUN)
    world.put(*IDS[:4], delay_ms=60_000)
    assert walk(world, State.SCHEDULED) == [*IDS[:4], *(f"again{n}" for n in range(5))]


def test_discarded_jobs_between_the_pages(world: World) -> None:
    world.put(*IDS)
    gone = ("j01", "j05", "j08", "j10")

    def between(page: list[str]) -> None:
        if page == IDS[3:6]:
            for id in gone:
                assert world.discard(id)
            world.put("j08")

    found = walk(world, State.READY, between)
    stayed = [id for id in IDS if id not in gone]
    # In a list whose entries are taken out of its middle they may be shown again.
    assert [id for id in dict.fromkeys(found) if id in stayed] == stayed
    assert found[-1] == "j08"
