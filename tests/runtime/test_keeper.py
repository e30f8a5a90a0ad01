"""The keeper process against a real Redis, and whole workers in processes that are stopped, killed and told to end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.core.clock import lease_clock
from tenure.core.engine import CancelAsked, HeartbeatReply, Timing
from tenure.core.job import Lease, LeaseRef, NewJob, State
from tenure.core.outcome import Completed
from tenure.engines.native.engine import NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes.link import KeeperLink
from tenure.processes.system import is_stopped
from tenure.protocols.registry import engine_spec_of
from tenure.redis.sync import SyncDriver
from tenure.runtime.forks import CLONE_STATUS
from tenure.runtime.ports import KeeperGone
from tests.support import processes
from tests.support.waiting import until

HERE = Path(__file__).parent


@pytest.fixture
async def keeper(redis_url: str) -> AsyncIterator[KeeperLink]:
    keeper = keeper_of(redis_url, NativeConfig(timing=Timing(beat_ms=50)))
    yield keeper
    await keeper.stop()


def keeper_of(url: str, config: NativeConfig | None = None) -> KeeperLink:
    return KeeperLink(url, engine_spec_of(PartitionedEngine("tenure", config)))


async def next_beat(keeper: KeeperLink, wanted: Callable[[HeartbeatReply], bool] = lambda beat: True) -> HeartbeatReply:
    while True:
        beat = await keeper.report()
        if beat is not None and wanted(beat):
            return beat


def held(*leases: Lease) -> dict[LeaseRef, float]:
    """As a worker tells its keeper, of jobs without a timeout."""
    return {lease.ref: math.inf for lease in leases}


async def until_gone(keeper: KeeperLink) -> None:
    while True:
        await keeper.report()


class TestKeeper:
    async def test_it_keeps_says_what_is_lost_and_finds_orphaned_leases(self, keeper, driver):
        engine = PartitionedEngine("tenure")
        driver.run(engine.enqueue([NewJob("q", "a", b""), NewJob("q", "b", b"")]))
        await keeper.start("w", ["q", "other"])
        await next_beat(keeper)
        a, b = driver.run(engine.lease("w", ["q"], 2)).leases
        beat = await next_beat(keeper, lambda beat: len(beat.orphaned) == 2)
        assert {orphan.ref for orphan in beat.orphaned} == {a.ref, b.ref}
        keeper.show(held(a, b))
        await next_beat(keeper, lambda beat: not beat.orphaned)
        driver.run(engine.settle([(a, Completed())]))
        beat = await next_beat(keeper, lambda beat: bool(beat.lost))
        assert beat.lost == {a.ref}

    async def test_it_gives_up_what_is_overdue(self, keeper, driver):
        """By its own clock, and only the job of which the worker says so."""
        engine = PartitionedEngine("tenure")
        driver.run(engine.enqueue([NewJob("q", "a", b""), NewJob("q", "b", b"")]))
        await keeper.start("w", ["q"])
        await next_beat(keeper)
        a, b = driver.run(engine.lease("w", ["q"], 2)).leases
        keeper.show({a.ref: time.monotonic() + 0.2, b.ref: time.monotonic() + 600})
        assert (await next_beat(keeper, lambda beat: bool(beat.lost))).lost == {a.ref}
        view = driver.run(engine.job("q", "a"))
        assert (view.state, view.crashes) == (State.READY, 1)
        assert driver.run(engine.settle([(a, Completed()), (b, Completed())])) == [False, True]

    async def test_it_says_what_is_to_be_cancelled_and_when_it_last_beat(self, keeper, driver):
        engine = PartitionedEngine("tenure")
        driver.run(engine.enqueue([NewJob("q", "a", b""), NewJob("q", "b", b"")]))
        await keeper.start("w", ["q"])
        await next_beat(keeper)
        a, b = driver.run(engine.lease("w", ["q"], 2)).leases
        keeper.show(held(a, b))
        driver.run(engine.cancel("q", "b", "no more"))
        for _ in range(2):
            before = keeper.kept_at["q"]
            beat = await next_beat(keeper, lambda beat: bool(beat.cancelled))
            assert beat.cancelled == (CancelAsked(b.ref, "no more"),)
            assert before < keeper.kept_at["q"] <= lease_clock()

    async def test_it_says_that_it_is_alive_while_redis_hangs(self, private_server):
        keeper = keeper_of(private_server.url)
        await keeper.start("w", ["q"])
        await next_beat(keeper)
        os.kill(private_server.pid, signal.SIGSTOP)
        said = 0
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(6):
                    while await keeper.report() is None:
                        said += 1
            assert said >= 8, "more often than each try to reach Redis ends"
        finally:
            os.kill(private_server.pid, signal.SIGCONT)
            await keeper.stop()

    async def test_its_death_is_noticed(self, keeper):
        await keeper.start("w", ["q"])
        await next_beat(keeper)
        os.kill(keeper.pid, signal.SIGKILL)
        with pytest.raises(KeeperGone):
            await until_gone(keeper)
        await keeper.start("w", ["q"])
        await next_beat(keeper)

    async def test_signals_to_the_group_do_not_end_it(self, keeper):
        await keeper.start("w", ["q"])
        await next_beat(keeper)
        os.kill(keeper.pid, signal.SIGINT)
        os.kill(keeper.pid, signal.SIGTERM)
        await next_beat(keeper)
        await next_beat(keeper)

    async def test_without_redis_it_is_alive_and_says_so(self, tmp_path, caplog):
        keeper = keeper_of(f"unix://:secret@{tmp_path}/none.sock")
        await keeper.start("w", ["q"])
        assert await keeper.report() is None
        assert "redis_lost what=heartbeat" not in caplog.text, "the worker's own connection tells of it"
        while "redis_lost what=heartbeat" not in caplog.text:
            assert await keeper.report() is None
        await keeper.stop()
        assert caplog.text.count("redis_lost what=heartbeat") == 1
        assert "secret" not in caplog.text

    async def test_wrong_orders_end_it_with_a_reason(self):
        keeper = keeper_of("nonsense")
        await keeper.start("w", ["q"])
        with pytest.raises(KeeperGone, match="NotConfigured"):
            await until_gone(keeper)
        await keeper.stop()


def test_a_stopped_process_is_seen():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not is_stopped(child.pid)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        assert is_stopped(child.pid)
    finally:
        child.kill()
        child.communicate()
    assert not is_stopped(2**22 + 1)


# ------------------------------------------------------------------------------------------------ workers in processes


class WorkerProcess:
    """`tests/runtime/program.py` as a process, which says on stdout what its handlers do."""

    def __init__(self, url: str, *args: str) -> None:
        root = HERE.parent.parent
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "program.py"), url, *args],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{root / 'src'}"},
        )

    def says(self, text: str) -> None:
        """Read on until it says this."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == text:
                return
        raise AssertionError(f"the worker ended ({self.process.wait()}) and never said {text!r}")

    def lines_until(self, text: str) -> list[str]:
        """What it says before it says this."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            if line.strip() == text:
                return lines
            lines.append(line.strip())
        raise AssertionError(f"the worker ended ({self.process.wait()}) and never said {text!r}, but {lines}")

    def says_first(self, word: str) -> float:
        """Read on until a line begins with this word. The number behind it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            first, *rest = line.split()
            if first == word:
                return float(rest[0])
        raise AssertionError(f"the worker ended ({self.process.wait()}) and never said {word!r}")

    def children(self) -> list[int]:
        return processes.children(self.process.pid)

    def close(self) -> None:
        processes.end(self.process)
        self.process.communicate()


@pytest.fixture
def start(redis_url: str) -> Iterator[Callable[..., WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(*args: str) -> WorkerProcess:
        started.append(WorkerProcess(redis_url, *args))
        return started[-1]

    yield start
    for worker in started:
        worker.close()


def add(driver: SyncDriver, *jobs: tuple[str, str]) -> None:
    driver.run(PartitionedEngine("tenure").enqueue([NewJob("q", id, b"", task=task) for id, task in jobs]))


def state(driver: SyncDriver, id: str) -> Any:
    return driver.run(PartitionedEngine("tenure").job("q", id))


class TestWorkers:
    def test_after_a_kill_the_job_runs_elsewhere_within_three_seconds(self, start, driver):
        victim = start()
        victim.says("ready")
        add(driver, ("a", "hang"))
        victim.says("hang a 1")
        other = start()
        other.says("ready")
        victim.process.kill()
        began = time.monotonic()
        other.says("hang a 2")
        assert time.monotonic() - began < 3 + 2, "the rest is for a busy machine"

    def test_a_stopped_worker_loses_its_lease_and_its_outcome(self, start, driver):
        victim = start("fast")
        victim.says("ready")
        add(driver, ("a", "nap"))
        victim.says("nap a 1")
        victim.process.send_signal(signal.SIGSTOP)
        other = start("fast")
        other.says("nap a 2")
        victim.process.send_signal(signal.SIGCONT)
        until(lambda: state(driver, "a").state is State.COMPLETED)
        assert state(driver, "a").crashes == 1

    @pytest.mark.parametrize("kind", ["block_loop", "hold_gil"])
    def test_a_blocked_worker_is_not_taken_for_dead(self, start, driver, kind):
        busy = start("fast")
        busy.says("ready")
        add(driver, ("a", kind))
        busy.says(f"{kind} a 1")
        other = start("fast")
        other.says("ready")
        until(lambda: state(driver, "a").state is not State.ACTIVE)
        assert state(driver, "a").state is State.COMPLETED
        assert state(driver, "a").crashes == 0

    def test_sigterm_hands_back_and_ends_well(self, start, driver):
        worker = start("fast")
        worker.says("ready")
        add(driver, ("a", "nap"))
        worker.says("nap a 1")
        add(driver, ("b", "nap"))
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(10) == 0
        assert state(driver, "a").state is State.COMPLETED
        assert state(driver, "b").state is State.READY

    def test_a_second_signal_ends_it_at_once(self, start, driver):
        worker = start("fast")
        worker.says("ready")
        add(driver, ("a", "sync_hang"))
        worker.says("sync_hang a 1")
        worker.process.send_signal(signal.SIGINT)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(5) == 2
        view = state(driver, "a")
        assert (view.state, view.crashes, view.failures) == (State.READY, 0, 0)

    def test_a_stopped_keeper_is_replaced_before_the_lease_is_gone(self, start, driver):
        worker = start("patient")
        worker.says("ready")
        add(driver, ("a", "nap4"))
        worker.says("nap4 a 1")
        time.sleep(0.3)
        os.kill(worker.children()[0], signal.SIGSTOP)
        other = start("patient")
        other.says("ready")
        until(lambda: state(driver, "a").state is not State.ACTIVE)
        assert state(driver, "a").state is State.COMPLETED
        assert state(driver, "a").crashes == 0

    def test_a_child_that_a_handler_forked_can_be_terminated(self, start, driver):
        worker = start("fast")
        worker.says("ready")
        add(driver, ("a", "terminate_child"))
        worker.says(f"exitcode {-signal.SIGTERM}")

    @pytest.mark.parametrize("kind", ["fork_on_loop", "fork_in_thread"])
    def test_a_copy_that_a_forking_handler_left_ends(self, start, driver, kind):
        worker = start("fast")
        worker.says("ready")
        add(driver, ("a", kind), ("b", "wait_child"))
        worker.says(f"child ended {CLONE_STATUS}")
        until(lambda: state(driver, "b").state is State.COMPLETED)
        assert state(driver, "a").state is State.COMPLETED

    def test_a_killed_keeper_costs_nothing(self, start, driver):
        worker = start("patient")
        worker.says("ready")
        add(driver, ("a", "long_nap"))
        worker.says("long_nap a 1")
        os.kill(worker.children()[0], signal.SIGKILL)
        other = start("patient")
        other.says("ready")
        until(lambda: state(driver, "a").state is State.COMPLETED)
        assert state(driver, "a").crashes == 0


async def test_a_worker_survives_a_restart_of_redis(private_server):
    worker = WorkerProcess(private_server.url)
    try:
        worker.says("ready")
        private_server.kill()
        private_server.start()
        driver = SyncDriver(private_server.url)
        add(driver, ("a", "nap"))
        await asyncio.to_thread(until, lambda: state(driver, "a").state is State.COMPLETED)
        driver.close()
    finally:
        worker.close()


async def test_what_the_system_cannot_start_is_an_os_error():
    keeper = KeeperLink("redis://unused", engine_spec_of(PartitionedEngine("tenure")), command=["/no/such/program"])
    with pytest.raises(FileNotFoundError):
        await keeper.start("w", ["q"])
    await keeper.stop()
