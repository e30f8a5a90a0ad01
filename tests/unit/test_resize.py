"""A parent with a number of worker processes that changes: whom it starts, whom it lets finish, and what it keeps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tenure.processes import parent as module
from tenure.processes.child import WorkerProcess
from tenure.processes.messages import WorkerState
from tenure.processes.status import Status
from tests.support.crew import Crew


@pytest.fixture
async def crew(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Crew]:
    """A parent of at most four processes, which has begun with none."""
    steered: asyncio.Future[Callable[[int], None]] = asyncio.get_running_loop().create_future()

    async def steer(resize: Callable[[int], None]) -> None:
        steered.set_result(resize)

    crew = Crew(4, steer=steer)
    monkeypatch.setattr(module, "spawn", lambda *_, **__: object())
    monkeypatch.setattr(WorkerProcess, "open", crew.start)
    crew.running = asyncio.create_task(crew.parent.run())
    await steered
    assert crew.all == []
    yield crew
    crew.running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await crew.running


async def grown(crew: Crew, *active: int) -> None:
    """Start a process for each number of running jobs."""
    crew.parent.resize(len(active))
    for count, number in enumerate(active, 1):
        (await crew.started(count)).ready(number)


def retiring(crew: Crew) -> list[int]:
    return [one.pid for one in crew.all if one.retires]


async def test_those_with_the_fewest_running_jobs_finish_first(crew):
    await grown(crew, 5, 0, 3)
    crew.parent.resize(1)
    assert retiring(crew) == [2, 3]
    crew.all[2].report(WorkerState.RETIRING)
    crew.all[2].end(Status.RECYCLED)
    crew.all[1].end(Status.RECYCLED)
    await asyncio.sleep(0)
    assert crew.current == [1, None, None, None]
    assert len(crew.all) == 3, "none was replaced"


async def test_more_are_started_while_others_finish_their_jobs(crew):
    await grown(crew, 1, 1)
    crew.parent.resize(0)
    crew.parent.resize(2)
    fresh = [await crew.started(3), await crew.started(4)]
    assert {one.slot for one in fresh} == {2, 3}, "in the slots that are free"
    crew.parent.resize(4)
    crew.all[0].report(WorkerState.RETIRING)
    assert (await crew.next()).slot == crew.all[0].slot
    assert retiring(crew) == [1, 2]


async def test_one_that_is_not_ready_yet_is_no_failure(crew):
    for _ in range(12):
        crew.parent.resize(1)
        process = await crew.next()
        crew.parent.resize(0)
        assert process.retires
        process.end()
    assert not crew.running.done()
    crew.parent.resize(1)
    await crew.next()


async def test_one_that_the_system_starts_too_late_finishes_at_once(crew, monkeypatch):
    async def start(*words: Any, **options: Any) -> Any:
        crew.parent.resize(0)
        return await crew.start(*words, **options)

    monkeypatch.setattr(WorkerProcess, "open", start)
    crew.parent.resize(1)
    assert (await crew.next()).retires


async def test_a_killed_one_is_replaced_while_it_is_wanted(crew):
    await grown(crew, 1, 1)
    crew.all[0].end(-9)
    assert (await crew.next()).slot == 0
    crew.parent.resize(1)
    (leaving,) = (one for one in crew.all if one.retires)
    leaving.end(-9)
    await asyncio.sleep(0)
    assert len(crew.all) == 3


async def test_its_number_of_slots_is_the_most(crew):
    crew.parent.resize(9)
    for count in range(1, 5):
        (await crew.started(count)).ready()
    await asyncio.sleep(0)
    assert len(crew.all) == 4


async def test_the_end_of_the_steering_ends_all(monkeypatch, caplog):
    async def steer(resize: Callable[[int], None]) -> None:
        raise RuntimeError("a bug")

    crew = Crew(2, steer=steer)
    monkeypatch.setattr(module, "spawn", lambda *_, **__: object())
    monkeypatch.setattr(WorkerProcess, "open", crew.start)
    async with asyncio.timeout(30):
        assert await crew.parent.run() == Status.FAILED
    assert "parent_failed error='RuntimeError: a bug" in caplog.text
