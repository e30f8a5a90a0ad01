"""Workers that were stopped (SIGSTOP, a machine that slept) and go on: they begin no job that they may have lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tenure.core.engine import Timing
from tenure.core.job import JobRecord, Lease, NewJob, State
from tenure.core.outcome import Completed, Released
from tenure.core.task import BatchRule
from tenure.engines.native.engine import NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.redis.sync import SyncDriver
from tenure.runtime.handlers.invoke import Caller
from tenure.runtime.jobs.beats import Kept
from tenure.runtime.jobs.held import Held
from tenure.runtime.jobs.job import current_job
from tenure.runtime.jobs.table import Inflight
from tenure.runtime.ports import Env
from tests.runtime.fakes import FakeKeeper, Gate, Rig, gated, task
from tests.runtime.program import GATHER_MS
from tests.runtime.test_keeper import WorkerProcess, add
from tests.support.waiting import until

LEASE_S = 1.8
AGES_S = 3_600.0
SPEC = task(lambda: None)


class Clock:
    """Goes on with the machine's, and leaps: the process was stopped meanwhile."""

    def __init__(self) -> None:
        self.leapt = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.leapt


class Woken(Rig):
    """A worker with such a clock."""

    def __init__(self, spec: Any, **options: Any) -> None:
        self.clock = Clock()
        env = Env(lease_clock=self.clock)
        super().__init__(spec, keeper=FakeKeeper(clock=self.clock), env=env, **options)

    async def outcomes(self, id: str, count: int) -> list[Any]:
        await self.engine.until(lambda: len(self.engine.outcomes(id)) >= count)
        return self.engine.outcomes(id)


# ------------------------------------------------------------------------------------------------------------ in memory


class TestKept:
    @pytest.fixture
    def now(self) -> list[float]:
        return [100.0]

    @pytest.fixture
    def kept(self, now: list[float]) -> Kept:
        return Kept(LEASE_S, lambda: now[0])

    def held(self, asked_at: float, queue: str = "q") -> Held:
        held = Inflight(1).add(
            Lease("w", 1, JobRecord("a", queue, b"", 0, task="t"), 0, 0), SPEC, 0.0, asked_at=asked_at
        )
        assert held is not None
        return held

    def test_a_claim_begins_its_lease(self, kept, now):
        held = self.held(100.0)
        assert kept.may_start(held)
        now[0] += LEASE_S
        assert not kept.may_start(held)

    def test_beats_in_time_go_on_with_it(self, kept, now):
        held = self.held(100.0)
        for _ in range(10):
            kept.hear({"q": now[0]})
            now[0] += LEASE_S - 0.1
            assert kept.may_start(held)
        now[0] += 0.1
        assert not kept.may_start(held)

    def test_a_beat_after_a_gap_proves_nothing_for_leases_from_before_it(self, kept, now):
        kept.hear({"q": 100.0})
        old = self.held(100.1)
        now[0] = 110.0
        assert kept.hear({"q": 110.0})
        assert not kept.may_start(old)
        assert kept.may_start(self.held(109.9))
        assert kept.lapsed_before >= 100.1

    def test_an_old_report_is_no_beat(self, kept, now):
        kept.hear({"q": 100.0})
        held = self.held(100.0)
        now[0] = 110.0
        assert not kept.hear({"q": 99.0})
        assert not kept.may_start(held)

    def test_reports_that_are_read_late_one_after_the_other_are_no_gap(self, kept, now):
        """The event loop was held up, and the keeper was not."""
        kept.hear({"q": 100.0})
        held = self.held(100.0)
        now[0] = 110.0
        assert {kept.hear({"q": 100.0 + beat * 0.5}) for beat in range(21)} == {False}
        assert kept.may_start(held)

    def test_a_queue_without_beats_costs_the_others_nothing(self, kept, now):
        for _ in range(10):
            kept.hear({"q": now[0], "denied": 100.0})
            now[0] += 0.5
        assert kept.may_start(self.held(100.0))
        assert not kept.may_start(self.held(100.0, "denied"))
        assert kept.is_late(["q", "denied"])
        assert not kept.is_late(["q"])


async def test_what_a_claim_brings_after_ages_is_not_started():
    gate = Gate()
    async with Woken(gated(gate)) as rig:

        def stopped(name: str) -> None:
            if name == "lease" and rig.engine.held:
                rig.driver.after = None
                rig.clock.leapt += AGES_S

        rig.driver.after = stopped
        rig.engine.add("a")
        assert await rig.outcomes("a", 1) == [Released()]
        assert gate.begun.empty()
        rig.keeper.beat()
        assert await gate.begun.get() == "a"  # claimed anew
        gate.open.set()
        assert await rig.outcomes("a", 2) == [Released(), Completed(b"None")]


@pytest.mark.parametrize("by", ["beat", "watch"])
async def test_what_waited_for_its_batch_is_not_started(by):
    began: list[int] = []

    async def handler(jobs: list[Any]) -> None:
        began.append(len(jobs))

    spec = task(handler, name=None, decode=None, is_async=True, batch=BatchRule(10, 60_000))
    async with Woken(spec) as rig:
        rig.engine.add("a", "b", task=None)
        await rig.engine.until(lambda: len(rig.engine.held) == 2)
        rig.clock.leapt += AGES_S
        if by == "beat":
            rig.keeper.beat()
        assert await rig.outcomes("a", 1) == await rig.outcomes("b", 1) == [Released()]
        assert began == []


async def test_handlers_that_waited_for_the_loop_do_not_begin():
    """One holds the event loop up while the process is stopped. The next were started, and have not begun."""
    began: list[str] = []

    async def handler() -> None:
        job = current_job()
        assert job is not None
        began.append(job.id)
        if len(began) == 1:
            rig.clock.leapt += AGES_S

    async with Woken(task(handler, is_async=True), concurrency=3) as rig:
        rig.engine.add("a", "b", "c")
        assert (await rig.outcomes("b", 1), await rig.outcomes("c", 1)) == ([Released()], [Released()])
        assert began == ["a"]
        rig.keeper.beat()
        await rig.outcomes("c", 2)
        assert sorted(began) == ["a", "b", "c"]


async def test_a_loop_that_was_held_up_releases_nothing(caplog):
    """The keeper went on: what it said meanwhile is read before anything is decided."""

    async def handler() -> None:
        job = current_job()
        assert job is not None
        if job.id == "a":
            for _ in range(20):
                rig.clock.leapt += LEASE_S / 2
                rig.keeper.said(rig.clock())

    async with Woken(task(handler, is_async=True), concurrency=3) as rig:
        rig.engine.add("a", "b", "c")
        assert await rig.ends(*"abc") == [Completed(b"None")] * 3
    assert "jobs_released" not in caplog.text


async def test_a_thread_looks_as_well():
    table, ran = Inflight(1), []
    held = table.add(Lease("w", 1, JobRecord("a", "q", b"", 0, task="t"), 0, 0), task(lambda: ran.append(1)), 0.0)
    assert held is not None
    caller = Caller(lambda: 0.5, time.monotonic, Kept(1.0, time.monotonic))
    assert caller.in_thread(held) == [(held, Released())]
    assert ran == []


# --------------------------------------------------------------------------------------------------------- in processes


@pytest.fixture
def worker(redis_url: str) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(redis_url, "fast", "4")
    yield worker
    with suppress(ProcessLookupError):
        os.kill(worker.process.pid, signal.SIGCONT)
    worker.close()


class Other:
    """Takes the jobs over by hand while the worker is stopped."""

    def __init__(self, driver: SyncDriver) -> None:
        self._driver = driver
        self._engine = PartitionedEngine("tenure", NativeConfig(timing=Timing(beat_ms=200, lease_ms=700, grace_ms=300)))
        self.held: set[str] = set()

    def takes(self, ids: str) -> bool:
        leased = self._driver.run(self._engine.lease("other", ["q"], 10, lease_ms=60_000))
        self.held |= {lease.record.id for lease in leased.leases}
        return self.held >= set(ids)


@pytest.mark.parametrize("kind", ["waiting for a batch", "started behind a handler that blocks"])
def test_after_a_stop_jobs_of_other_workers_do_not_begin(driver: SyncDriver, worker: WorkerProcess, kind: str) -> None:
    engine, other = PartitionedEngine("tenure"), Other(driver)
    worker.says("ready")
    if kind == "waiting for a batch":
        ids = "abc"
        driver.run(engine.enqueue([NewJob("q", id, b"") for id in ids]))
        until(lambda: driver.run(engine.queue("q")).counts[State.ACTIVE] == len(ids))
    else:
        ids = "bc"
        add(driver, *((id, "block_loop") for id in "abc"))
        worker.says("block_loop a 1")
    os.kill(worker.process.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    until(lambda: other.takes(ids))
    time.sleep(max(0.0, GATHER_MS / 1000 - (time.monotonic() - stopped)))  # the batch waits no longer
    os.kill(worker.process.pid, signal.SIGCONT)
    add(driver, ("mark", "nap"))
    said = worker.lines_until("nap mark 1")
    assert [line for line in said if line.split()[1] in ids] == []
