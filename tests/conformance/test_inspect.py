"""The inspector: what it says is what is there, and it changes nothing."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from tenure.core import limits
from tenure.core.engine import Feature, Trait
from tenure.core.errors import InvalidArgument
from tenure.core.job import JobView, State
from tenure.core.outcome import Broken, Cancelled, Completed, Failed, Outcome, Unroutable
from tenure.core.worker_view import WorkerView
from tenure.engines.kit.config import PRESENCE_TTL_MS
from tenure.manage.load import load_of
from tests.support.world import BOOM, World

ENDINGS: dict[State, Outcome] = {
    State.COMPLETED: Completed(b"r", 600_000),
    State.FAILED: Failed(BOOM),
    State.BROKEN: Broken(BOOM),
    State.CANCELLED: Cancelled("no"),
    State.UNROUTABLE: Unroutable(),
}


NEEDS: Final = {
    State.SCHEDULED: Feature.DELAY,
    State.COMPLETED: Feature.RESULTS,
    State.FAILED: Feature.RECORDS,
    State.BROKEN: Feature.RECORDS,
    State.UNROUTABLE: Feature.UNROUTABLE,
}


def states(
    only: Collection[State] = tuple(State), needs: Mapping[State, Feature | Trait] = NEEDS
) -> list[ParameterSet]:
    """States as parameters, each with the feature that an engine needs for it."""
    return [
        pytest.param(state, marks=pytest.mark.needs(needs[state])) if state in needs else pytest.param(state)
        for state in State
        if state in only
    ]


def fill(world: World, state: State, count: int) -> list[str]:
    """So many jobs in one state; the ids in the order in which a page shows them."""
    ids = [f"{state.value}{n:03}" for n in range(count)]
    if state is State.SCHEDULED:
        for n, id in enumerate(ids):
            world.put(id, delay_ms=60_000 + 1_000 * n)
        return ids
    world.put(*ids, task="t")
    if state is State.READY:
        return ids
    leases = world.take(count)
    if state is State.ACTIVE:
        return ids
    for lease in leases:
        assert world.settle(lease, ENDINGS[state])
        world.pass_time(2)
    return ids if state is State.UNROUTABLE else ids[::-1]


@pytest.mark.parametrize("state", states())
def test_pages_through_any_state(world: World, state: State) -> None:
    ids = fill(world, state, 7)
    if state is not State.READY:
        world.put("something else")
    seen: list[JobView] = []
    for offset in range(0, 9, 3):
        page = world.run(world.engine.page("q", state, offset, 3))
        assert page.total == 7
        assert len(page.jobs) == min(3, 7 - offset)
        seen += page.jobs
    found = [job.id for job in seen]
    assert (sorted(found) if state is State.ACTIVE else found) == ids
    assert {job.state for job in seen} == {state}
    assert all(world.job(job.id) == job for job in seen)
    assert world.run(world.engine.page("q", state, 7)).jobs == ()
    assert world.counts()[state.value] == 7


@pytest.mark.needs(Feature.UNROUTABLE)
def test_a_page_of_several_holders_and_tasks(world: World) -> None:
    world.put(*(f"a{n}" for n in range(9)))
    for worker in ("w1", "w2", "w3"):
        world.take(3, worker)
    found: list[str] = []
    for offset in range(0, 10, 2):
        found += [job.id for job in world.run(world.engine.page("q", State.ACTIVE, offset, 2)).jobs]
    assert sorted(found) == [f"a{n}" for n in range(9)]
    for task in ("x", "y"):
        world.put(f"{task}1", f"{task}2", task=task)
    for lease in world.take(4, "w4"):
        world.settle(lease, Unroutable())
    found = []
    for offset in range(4):
        found += [job.id for job in world.run(world.engine.page("q", State.UNROUTABLE, offset, 1)).jobs]
    assert sorted(found) == ["x1", "x2", "y1", "y2"]


@pytest.mark.parametrize(
    ("offset", "limit"), [(-1, 1), (0, 0), (0, limits.PAGE_MAX + 1), (limits.PAGE_OFFSET_MAX + 1, 1)]
)
def test_a_page_has_bounds(world: World, offset: int, limit: int) -> None:
    with pytest.raises(InvalidArgument, match="page"):
        world.run(world.engine.page("q", State.READY, offset, limit))


def test_a_queue_that_nobody_used_is_empty(world: World) -> None:
    view = world.run(world.engine.queue("nobody"))
    assert view.counts == dict.fromkeys(State, 0)
    assert view.totals == {}
    assert world.run(world.engine.queues()) == []
    assert world.job("a", "nobody") is None


def test_totals_count_events(world: World) -> None:
    for state in (State.COMPLETED, State.FAILED, State.BROKEN, State.CANCELLED):
        fill(world, state, 2)
    assert world.totals() == {"completed": 2, "failed": 2, "broken": 2, "cancelled": 2}


def test_pages_do_not_show_what_was_cancelled_or_discarded(world: World) -> None:
    world.put(*"abcdef")
    world.run(world.engine.cancel("q", "b"))
    world.run(world.engine.discard("q", "c"))
    assert world.ids(State.READY) == list("adef")
    pages = [world.run(world.engine.page("q", State.READY, offset, 2)).jobs for offset in (0, 2)]
    assert [[job.id for job in page] for page in pages] == [["a", "d"], ["e", "f"]]
    world.put("c")
    assert world.ids(State.READY) == list("adefc")


@pytest.mark.needs(Feature.DELAY)
def test_pages_do_not_show_what_was_discarded_and_comes_later(world: World) -> None:
    world.put(*"abc")
    world.run(world.engine.discard("q", "b"))
    world.put("b", delay_ms=60_000)
    assert world.ids(State.READY) == list("ac")
    assert world.run(world.engine.discard("q", "b"))
    world.put("b")
    assert world.ids(State.READY) == list("acb")


@pytest.mark.parametrize("state", states())
def test_looking_changes_nothing(world: World, state: State) -> None:
    fill(world, state, 2)
    world.put("ready")
    before = world.dump()
    for state in State:
        world.run(world.engine.page("q", state))
    world.run(world.engine.queues())
    world.run(world.engine.queue("q"))
    world.run(world.engine.job("q", "ready"))
    world.run(world.engine.workers())
    assert world.dump() == before


def test_workers_are_seen_for_a_while(world: World) -> None:
    view = WorkerView("w", ("q", "other"), "host", 42, 1_000, 0, 16)
    world.run(world.engine.announce(view))
    world.put("a", "b")
    world.take(2)
    (seen,) = world.run(world.engine.workers())
    assert (seen.id, seen.queues, seen.host, seen.pid, seen.started_ms, seen.concurrency) == (
        "w",
        ("q", "other"),
        "host",
        42,
        1_000,
        16,
    )
    assert seen.active == 2
    assert abs(seen.seen_ms - int(world.command("TIME")[0]) * 1000) < 10_000
    assert world.run(world.engine.queues()) == ["other", "q"]
    world.expire(PRESENCE_TTL_MS)
    assert world.run(world.engine.workers()) == []


def test_the_load_has_the_jobs_that_wait_and_run(world: World) -> None:
    world.put("a", "b", "c", "d")
    assert len(world.take_ids(1)) == 1
    sample = world.run(load_of(world.engine, ["q", "other"], 20_000, time.time() * limits.SECOND, 0.0))
    assert [(load.runnable, load.held, load.come) for load in sample.queues] == [(3, 1, 4), (0, 0, 0)]
    world.audit()
