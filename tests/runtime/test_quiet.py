"""A worker that is told to be quiet starts nothing new, hands back what has not started, and lets the rest go on."""

from __future__ import annotations

import asyncio
import logging
import time

from msgspec import structs

from tenure.core.engine import Feature
from tenure.core.outcome import Completed
from tenure.runtime.ports import Env
from tests.runtime.fakes import Gate, Rig, gated, warmed_up
from tests.support.fakes import FakeEngine


async def test_it_hands_back_claims_nothing_and_lets_the_rest_go_on(caplog):
    gate = Gate()
    with caplog.at_level(logging.INFO, "tenure.worker"):
        async with Rig(gated(gate), concurrency=1) as rig:
            await warmed_up(rig, gate)
            rig.engine.add("runs", "waits", "waits too")
            await gate.begun.get()
            rig.engine.is_quiet = True
            await rig.engine.until(lambda: rig.engine.announced[-1].quiet)
            await rig.engine.until(
                lambda: [lease.record.id for lease in rig.engine.ready["q"]] == ["waits", "waits too"]
            )
            gate.open.set()
            await rig.engine.until(lambda: not rig.engine.held)
            assert rig.engine.outcomes("runs") == [Completed(b"None")]
            claims = rig.engine.calls.count("lease")
            announced = len(rig.engine.announced)
            await rig.engine.until(lambda: len(rig.engine.announced) > announced + 2)
            assert rig.engine.calls.count("lease") == claims
            assert rig.keeper.kept[-1] == frozenset()
            rig.engine.is_quiet = False
            await rig.engine.until(lambda: not rig.engine.ready["q"] and not rig.engine.held)
            await rig.engine.until(lambda: not rig.engine.announced[-1].quiet)
    assert caplog.text.count("worker_paused worker=") == caplog.text.count("worker_resumed worker=") == 1
    assert not rig.engine.refused


async def test_a_message_makes_it_quiet_at_once():
    engine = FakeEngine(features=frozenset({Feature.QUIET}))
    async with Rig(lambda: None, engine=engine) as rig:
        await rig.driver.subscribed.wait()
        await engine.until(lambda: "wait" in engine.calls)
        # No announcement of its own accord would come soon.
        structs.force_setattr(engine.timing, "presence_ms", 600_000)
        await engine.until(lambda: len(engine.announced) >= 2)
        engine.is_quiet = True
        rig.driver.publish(engine.signal_channel(rig.worker.id), "")
        await engine.until(lambda: engine.announced[-1].quiet)


async def test_what_a_claim_under_way_brings_goes_back():
    late = asyncio.Event()
    gate = Gate()
    async with Rig(gated(gate)) as rig:
        await rig.engine.until(lambda: "wait" in rig.engine.calls)
        rig.driver.after = lambda call: late.wait() if call == "lease" else None
        rig.engine.add("a", "b")
        await rig.engine.until(lambda: len(rig.engine.held) == 2)
        rig.engine.is_quiet = True
        await rig.engine.until(lambda: rig.engine.announced[-1].quiet)
        late.set()
        await rig.engine.until(lambda: [lease.record.id for lease in rig.engine.ready["q"]] == ["a", "b"])
    assert gate.begun.empty()


async def test_a_quiet_worker_stops_when_it_is_told():
    async with Rig(lambda: None) as rig:
        rig.engine.is_quiet = True
        await rig.engine.until(lambda: bool(rig.engine.announced) and rig.engine.announced[-1].quiet)
        rig.worker.stop()
        assert await rig.ended() == 0


async def test_what_has_not_started_of_a_paused_queue_goes_back_with_the_next_beat():
    gate, stopped_at = Gate(), list[float]()
    # Later no time passes: else the jobs would go back because they wait too long behind a busy slot.
    env = Env(clock=lambda: stopped_at[0] if stopped_at else time.monotonic())
    async with Rig(gated(gate), concurrency=1, env=env) as rig:
        await warmed_up(rig, gate)
        stopped_at.append(time.monotonic())
        rig.engine.add("runs", "waits", "waits too")
        await gate.begun.get()
        await rig.engine.until(lambda: len(rig.engine.held) == 3)
        rig.engine.paused = True
        rig.keeper.beat(paused=["another"])
        rig.keeper.beat(paused=["q"])
        await rig.engine.until(lambda: [lease.record.id for lease in rig.engine.ready["q"]] == ["waits", "waits too"])
        gate.open.set()
        await rig.engine.until(lambda: not rig.engine.held)
        assert gate.begun.empty()
        rig.engine.paused = False
        await rig.engine.until(lambda: not rig.engine.ready["q"] and not rig.engine.held)
