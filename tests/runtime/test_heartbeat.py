"""The heartbeats as a worker sees them, by a clock of the test: keepers that are slow, silent, dead or missing."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.core.engine import Timing
from tenure.runtime.heartbeat import KEEPER_DEATHS, START_S, Heartbeat
from tenure.runtime.jobs.beats import Kept
from tenure.runtime.jobs.table import Inflight
from tenure.runtime.ports import Env, KeeperGone
from tenure.runtime.shutdown import ExitStatus
from tests.runtime.fakes import FakeKeeper, Gate, Rig, gated
from tests.support.fakes import FakeEngine

TIMING = Timing(beat_ms=500, lease_ms=1_800)


class Here:
    """A heartbeat whose worker holds jobs since the time 0. A pause between two starts takes no time."""

    def __init__(self, keeper: FakeKeeper) -> None:
        self.now = 0.0
        self.keeper = keeper
        self.claims = asyncio.Event()
        env = Env(clock=self.clock, lease_clock=self.clock, random=lambda: 1.0, sleep=self._sleep)
        engine = SimpleNamespace(timing=TIMING)
        kept = Kept(TIMING.lease_ms / 1_000, self.clock)
        intake: Any = SimpleNamespace(
            is_kept=self.claims, keeping_since=0.0, kept=kept, note_heartbeat=lambda accepted: None
        )
        context: Any = SimpleNamespace(
            worker="w", queues=("q",), env=env, engine=engine, inflight=Inflight(1), intake=intake
        )
        canceller: Any = SimpleNamespace(silence=lambda now: None)
        executor: Any = SimpleNamespace(dispatch=lambda: None, release_doubtful=lambda: None)
        settler: Any = None
        self.heartbeat = Heartbeat(context, keeper, canceller, executor, settler)

    def clock(self) -> float:
        return self.now

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    async def __aenter__(self) -> Here:
        self.running = asyncio.create_task(self.heartbeat.run())
        await self.turns()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.running.cancel()
        await asyncio.wait({self.running})

    async def turns(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def ticks(self, seconds: float) -> None:
        """Let time pass as it does for a worker that watches its jobs."""
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = min(end, self.now + 0.1)
            await self.heartbeat.watch()
        await self.turns()


class Unstartable(FakeKeeper):
    """The system cannot start it for the first `tries` times."""

    def __init__(self, tries: float) -> None:
        super().__init__()
        self.tries = tries

    async def start(self, worker: str, queues: Sequence[str]) -> None:
        self.tries -= 1
        if self.tries >= 0:
            raise OSError(errno.EMFILE, "Too many open files")
        await super().start(worker, queues)


async def test_the_first_report_lets_the_worker_claim():
    async with Here(FakeKeeper(ready=False)) as here:
        assert not here.claims.is_set()
        here.keeper.beat()
        await here.turns()
        assert here.claims.is_set()


async def test_a_silent_keeper_first_stops_the_claims_and_is_then_replaced(caplog):
    async with Here(FakeKeeper()) as here:
        await here.ticks(0.9)
        assert here.claims.is_set()
        await here.ticks(0.2)
        assert not here.claims.is_set()
        await here.ticks(0.6)
        assert here.keeper.replaced == 0
        await here.ticks(0.2)
        assert (here.keeper.replaced, here.keeper.starts) == (1, 2)
        assert here.claims.is_set()
    assert "keeper_lost reason=silent silent_s=1.9" in caplog.text


async def test_any_report_ends_a_silence():
    async with Here(FakeKeeper()) as here:
        for _ in range(5):
            await here.ticks(1.5)
            here.keeper.reports.put_nowait(None)  # alive, but Redis does not answer
            await here.turns()
    assert here.keeper.replaced == 0


async def test_while_the_worker_was_stopped_its_keeper_was_not_silent():
    """Both may have been stopped, by Ctrl-Z or with their container."""
    async with Here(FakeKeeper()) as here:
        here.now += 60
        await here.ticks(1.7)
        assert here.keeper.replaced == 0
        await here.ticks(0.3)
        assert here.keeper.replaced == 1


async def test_silences_end_no_worker_however_many():
    async with Here(FakeKeeper()) as here:
        for _ in range(3 * KEEPER_DEATHS):
            await here.ticks(2)
        assert here.keeper.replaced > KEEPER_DEATHS
        assert not here.running.done()


async def test_many_deaths_in_a_minute_end_the_worker():
    keeper = FakeKeeper(ready=False)
    for _ in range(KEEPER_DEATHS + 1):
        keeper.die()
    async with Here(keeper) as here:
        assert here.keeper.starts == KEEPER_DEATHS + 1
        with pytest.raises(KeeperGone, match="died more than 5 times in a minute"):
            await here.running


async def test_one_that_cannot_be_started_for_a_while_is_tried_again(caplog):
    async with Here(Unstartable(10)) as here:
        assert here.keeper.starts == 1
        assert here.claims.is_set()
    assert [line.split()[0] for line in caplog.messages] == ["keeper_lost", "keeper_restored"]


async def test_one_that_cannot_be_started_for_long_ends_the_worker():
    async with Here(Unstartable(float("inf"))) as here:
        with pytest.raises(KeeperGone, match="Too many open files"):
            await asyncio.wait_for(here.running, 10)
        assert START_S <= here.now < 2 * START_S


async def test_a_stop_does_not_wait_for_one_that_cannot_be_started():
    async with Rig(lambda: None, keeper=Unstartable(float("inf"))) as rig:
        rig.worker.stop()
        async with asyncio.timeout(5):
            assert await rig.ended() is ExitStatus.OK


async def test_a_job_runs_on_while_its_keeper_is_replaced():
    engine, gate = FakeEngine(timing=Timing(beat_ms=50, lease_ms=300, idle_wait_ms=200)), Gate()
    async with Rig(gated(gate), engine=engine) as rig:
        rig.engine.add("a")
        await gate.begun.get()
        while not rig.keeper.replaced:  # noqa: ASYNC110 - the fake has no event for it
            await asyncio.sleep(0.01)
        rig.engine.add("b")
        assert await gate.begun.get() == "b"
        gate.open.set()
        await rig.ends("a", "b")
    assert not gate.cancelled


async def test_a_keeper_that_is_silent_when_the_last_job_ends_is_replaced():
    engine = FakeEngine(timing=Timing(beat_ms=50, lease_ms=300, idle_wait_ms=200))

    async def handler() -> None:
        await asyncio.sleep(0.2)  # two beats are missing then: the worker claims nothing

    async with Rig(handler, engine=engine) as rig:
        # On a busy machine the second job may be claimed before two beats are missing; the third cannot.
        for id in "abc":
            rig.engine.add(id)
            await rig.ends(id)
    assert rig.keeper.replaced


async def test_reports_that_are_read_late_count():
    """A handler holds the event loop for longer than a keeper may be silent."""
    engine = FakeEngine(timing=Timing(beat_ms=50, lease_ms=200, idle_wait_ms=200))

    async def block() -> None:
        for _ in range(3):
            rig.keeper.beat()
            time.sleep(0.3)
            rig.keeper.beat()
            await asyncio.sleep(0)

    async with Rig(block, engine=engine) as rig:
        rig.engine.add("a")
        await rig.ends("a")
    assert rig.keeper.replaced == 0
