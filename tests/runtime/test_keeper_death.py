"""What a keeper does when its worker's process has died: it gives back at once what the worker held, as crashed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.core import limits
from tenure.core.job import NewJob, State
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes.keeper import RELEASE_MS
from tenure.redis.sync import SyncDriver
from tests.runtime.test_keeper import WorkerProcess
from tests.support.waiting import until


@pytest.fixture
def start(redis_url: str) -> Iterator[Callable[..., WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(*args: str, url: str = redis_url) -> WorkerProcess:
        started.append(WorkerProcess(url, *args))
        started[-1].says("ready")
        return started[-1]

    yield start
    for worker in started:
        worker.close()


def add(driver: SyncDriver, *jobs: tuple[str, str]) -> None:
    driver.run(PartitionedEngine("tenure").enqueue([NewJob("q", id, b"", task=task) for id, task in jobs]))


def view(driver: SyncDriver, id: str) -> Any:
    return driver.run(PartitionedEngine("tenure").job("q", id))


def ends(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_after_a_kill_the_job_runs_elsewhere_in_less_than_a_second(start, driver):
    """Three times, because the machine may be busy just once; by leases it would be more than 1.8 s each time."""
    add(driver, ("a", "timed"))
    victim = start()
    victim.says_first("timed")
    waits = []
    for _ in range(3):
        other = start()
        killed_at = time.monotonic()
        victim.process.kill()
        waits.append(other.says_first("timed") - killed_at)
        victim = other
    assert min(waits) < 1.0, waits
    assert view(driver, "a").crashes == 3


@pytest.mark.parametrize("how", ["hang", "exit_hard", "leave_child"])
def test_a_death_is_noticed_without_waiting_for_the_lease(start, driver, how):
    """Killed, ended by a handler, or survived by a child that holds the keeper's pipe open. The leases are long."""
    victim, other = start("long"), None
    add(driver, ("a", how))
    victim.says(f"{how} a 1")
    keeper = victim.children()[0] if how == "hang" else None
    add(driver, ("b", "nap"))  # in line behind it, or handed back before it was claimed: never run
    victim.process.kill()
    until(lambda: view(driver, "a").state is State.READY)
    assert view(driver, "a").crashes == 1
    assert view(driver, "b").crashes == 0
    if how != "exit_hard":
        other = start("long")
        other.says(f"{how} a 2")
    if keeper is not None:
        until(lambda: ends(keeper))


def test_a_dead_worker_is_announced_no_longer(start, driver):
    victim = start("long")
    until(lambda: len(driver.run(PartitionedEngine("tenure").workers())) == 1)
    victim.process.kill()
    until(lambda: not driver.run(PartitionedEngine("tenure").workers()))


def test_a_worker_that_lives_and_closed_its_files_gives_nothing_back(start, driver):
    """It may still be running the job: that comes back when the lease lapses, or when the process has ended."""
    worker = start("long")
    add(driver, ("a", "close_files"))
    worker.says("close_files a 1")
    end = time.monotonic() + 2
    while time.monotonic() < end and worker.process.poll() is None:
        assert view(driver, "a").state is State.ACTIVE
        time.sleep(0.05)
    assert worker.process.wait(30) != 0
    until(lambda: view(driver, "a").state is State.READY)
    assert view(driver, "a").crashes == 1


def test_a_worker_that_ends_in_order_is_not_taken_for_dead(start, driver):
    worker = start("long")
    add(driver, ("a", "sync_hang"))
    worker.says("sync_hang a 1")
    worker.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(20) == 2
    assert view(driver, "a").state is State.READY
    assert view(driver, "a").crashes == 0


def test_a_redis_that_is_away_at_that_moment_is_waited_for(start, private_server):
    private_server.command("CONFIG", "SET", "appendfsync", "always")  # what was acknowledged must outlive its kill
    victim = start("long", url=private_server.url)
    driver = SyncDriver(private_server.url)
    add(driver, ("a", "hang"))
    victim.says("hang a 1")
    private_server.kill()
    victim.process.kill()
    victim.process.wait()
    time.sleep(1.5)
    private_server.start()
    until(lambda: view(driver, "a").state is State.READY)
    assert view(driver, "a").crashes == 1
    driver.close()


def test_a_redis_that_stays_away_ends_the_keeper_in_the_end(start, private_server):
    victim = start("long", url=private_server.url)
    driver = SyncDriver(private_server.url)
    add(driver, ("a", "hang"))
    victim.says("hang a 1")
    driver.close()
    keeper = victim.children()[0]
    private_server.kill()
    victim.process.kill()
    victim.process.wait()
    until(lambda: ends(keeper), RELEASE_MS / limits.SECOND + 20)
