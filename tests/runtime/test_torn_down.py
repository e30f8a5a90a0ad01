"""A handler cancels all tasks, and one beside which nothing may run goes on: what becomes of the keeper and the job."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from leasehold.core.errors import Unreachable
from leasehold.core.outcome import Crashed
from leasehold.core.shape import Shape
from tests.runtime.fakes import FakeEngine, FakeKeeper, Gate, Rig, gated, task

LANE = Shape(lane="a lane")


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets the handler end that would not."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("leasehold.runtime.loops.REDIS_BACKOFF_CAP_MS", 1)
    for user in ("runtime.executor", "runtime.observe.dispatcher", "runtime.worker"):
        monkeypatch.setattr(f"leasehold.{user}.CANCEL_MS", 20)


def cancel_all_but(ours: asyncio.Task[None] | None) -> None:
    for one in asyncio.all_tasks():
        if one not in (asyncio.current_task(), ours):
            one.cancel()


async def tear_down(rig: Rig, begun: asyncio.Event) -> None:
    """Have the worker run a job that will not end, and one that then cancels all tasks."""

    async def worked() -> None:
        async with rig:
            rig.engine.add("long", task="long", shape=LANE)
            await begun.wait()
            rig.engine.add("wild", task="wild")
            await rig.ended()

    with pytest.raises(asyncio.CancelledError):
        await worked()


async def torn_down(release: threading.Event, keeper: FakeKeeper) -> Rig:
    begun, loop, ours = asyncio.Event(), asyncio.get_running_loop(), asyncio.current_task()

    def goes_on() -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait(30)

    async def wild() -> None:
        cancel_all_but(ours)

    rig = Rig(task(goes_on, name="long"), more=[task(wild, name="wild")], keeper=keeper)
    await tear_down(rig, begun)
    return rig


async def test_a_job_that_goes_on_may_have_done_it_so_it_counts(release):
    """One that does this each time would come back for ever: nobody can tell who it was."""
    rig = await torn_down(release, FakeKeeper())
    assert [ref.id for ref in rig.engine.held] == ["long"]
    assert rig.keeper.bequeathed is True
    assert not rig.keeper.stopped


async def test_the_keeper_to_which_nobody_listens_any_more_is_not_ended_for_its_silence(release, monkeypatch):
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_LATE_MS", 200)
    monkeypatch.setattr("leasehold.runtime.heartbeat.KEEPER_GONE_MS", 300)
    for user in ("runtime.executor", "runtime.observe.dispatcher", "runtime.worker"):
        monkeypatch.setattr(f"leasehold.{user}.CANCEL_MS", 1_000)  # the end takes longer than that
    rig = await torn_down(release, FakeKeeper())
    assert rig.keeper.kills == 0
    assert rig.keeper.starts == 1
    assert rig.keeper.bequeathed is True


async def test_without_a_keeper_nothing_is_promised(release, caplog):
    keeper = FakeKeeper()
    keeper.ended = True
    await torn_down(release, keeper)
    assert "leases_lapse" in caplog.text
    assert "bequeathing" not in caplog.text
    assert keeper.stopped


async def test_what_redis_keeps_from_going_back_counts_as_well(monkeypatch):
    for name in ("runtime.worker.FLUSH_MS", "runtime.worker.LEAVE_MS"):
        monkeypatch.setattr(f"leasehold.{name}", 10)
    gate, engine, ours = Gate(), FakeEngine(), asyncio.current_task()

    def fault(call: str) -> None:
        raise Unreachable("gone")

    async def wild() -> None:
        rig.driver.fault = fault
        cancel_all_but(ours)

    begun = asyncio.Event()
    rig = Rig(gated(gate, name="long"), more=[task(wild, name="wild")], engine=engine)

    async def told() -> None:
        await gate.begun.get()
        begun.set()

    telling = asyncio.ensure_future(told())
    await tear_down(rig, begun)
    await telling
    assert engine.outcomes("long") != [Crashed()]
    assert rig.keeper.bequeathed is True
