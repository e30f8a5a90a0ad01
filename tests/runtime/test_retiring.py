"""A worker that retires: it starts nothing new, and gives what runs the time that it needs."""

from __future__ import annotations

import asyncio

import pytest

from tenure.core.outcome import Completed, Released
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import Gate, Rig, gated


async def test_it_ends_after_so_many_jobs_and_hands_the_rest_back():
    gate = Gate()
    async with Rig(gated(gate), concurrency=2, worn=lambda started: "enough" if started >= 2 else None) as rig:
        rig.engine.add("a", "b", "c", "d")
        await gate.begun.get()
        await gate.begun.get()
        await rig.worker.until_stopping()
        assert rig.worker.retiring == "enough"
        gate.open.set()
        assert await rig.ended() is ExitStatus.OK
    ends = {one.lease.record.id: type(one.outcome) for one in rig.engine.settled}
    assert {id for id, kind in ends.items() if kind is Completed} == {"a", "b"}
    assert all(kind in (Completed, Released) for kind in ends.values())


async def test_what_runs_may_go_on_for_longer_than_the_time_of_grace():
    gate = Gate()
    async with Rig(gated(gate), grace_ms=0) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.worker.retire("enough")
        assert rig.worker.active == 1
        await asyncio.sleep(0.3)
        gate.open.set()
        assert await rig.ended() is ExitStatus.OK
    assert isinstance(rig.engine.settled[0].outcome, Completed)


@pytest.mark.parametrize("how", ["stop", "stop_gracefully"])
async def test_a_stop_while_it_retires_is_an_ordinary_one(how):
    """Not a hard one: that is what the second stop would be."""
    gate = Gate()
    async with Rig(gated(gate), grace_ms=0) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.worker.retire("enough")
        await asyncio.sleep(0)
        getattr(rig.worker, how)()
        assert await rig.ended() is ExitStatus.OK
    assert not any(isinstance(one.outcome, Completed) for one in rig.engine.settled)


async def test_a_stop_and_an_order_to_stop_are_one_ask_and_to_stop_again_is_a_hard_one():
    """Whichever comes first: a supervisor orders its processes to stop when it gets the signal that they get too."""
    gate = Gate()
    async with Rig(gated(gate), grace_ms=60_000) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        rig.worker.stop_gracefully()
        rig.worker.stop()
        rig.worker.stop_gracefully()
        await asyncio.sleep(0.1)
        assert rig.done is not None
        assert not rig.done.done()
        rig.worker.stop()
        assert await rig.ended() is ExitStatus.HARD


async def test_it_says_when_it_is_ready_and_when_redis_last_answered():
    async with Rig(lambda: None) as rig:
        assert rig.worker.active == 0
        await rig.worker.until_ready()
        before = rig.worker.good_at
        rig.engine.add("a")
        await rig.ends("a")
        assert rig.worker.good_at > before
        assert not rig.worker.stopping
