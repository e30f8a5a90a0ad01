"""Claims that Redis runs when the wait before them ends, while their worker runs jobs, is stopped, or is dead."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from tenure.core.job import Lease, State
from tenure.core.outcome import Completed, Released
from tenure.core.steps import Command, Steps
from tenure.core.waiting import Lead, Wake
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.redis.sync import SyncDriver
from tenure.runtime.ports import Env
from tenure.runtime.waiting import WorkWaiter
from tenure.testing.server import RedisServer
from tests.redis.waits import until_blocked
from tests.runtime.fakes import Gate, gated
from tests.runtime.test_keeper import WorkerProcess, add
from tests.runtime.test_woken import Other, Woken
from tests.support.fakes import FakeEngine
from tests.support.waiting import until

LEAD = Lead(Command(("BLPOP", "wake", "2"), block_ms=2_000), "q", if_idle=True)


def led(queues: Sequence[str], timeout_ms: int) -> Lead:
    """The fake driver only runs the claim."""
    return LEAD


class Engine:
    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Lead:
        return LEAD


class Link:
    async def wait(self, steps: Steps[Any]) -> Any:
        assert next(steps) == LEAD.command
        with pytest.raises(StopIteration) as ended:
            steps.send([b"wake", b"1"])
        return ended.value.value


async def test_a_worker_that_runs_jobs_claims_when_it_has_read_of_the_wake_up():
    """Its event loop may be blocked. Redis would then claim for it, although other workers are idle."""
    waiter = WorkWaiter(Engine(), Link(), "w", Env())  # type: ignore[arg-type]
    assert waiter.wait_for(("q",), 2_000, is_idle=True) is LEAD
    wait = waiter.wait_for(("q",), 2_000, is_idle=False)
    assert isinstance(wait, Wake)
    assert await waiter.wait(wait, 2_000) == "q"


@pytest.mark.parametrize(("late_s", "outcome"), [(-0.2, Completed(b"None")), (0.2, Released())])
async def test_a_claim_whose_reply_is_late_starts_its_job_while_no_other_worker_can_have_it(late_s, outcome):
    """The lease may be as old as the wait. Other workers take the job a grace period after the end of the lease."""
    gate, engine = Gate(), FakeEngine(waits=led)
    gate.open.set()
    safe_s = (engine.timing.lease_ms + engine.timing.grace_ms) / 1000
    async with Woken(gated(gate), engine=engine) as rig:

        def stall(name: str) -> None:
            if name == "lease" and engine.held:
                rig.driver.after = None
                rig.clock.leapt += safe_s + late_s

        rig.driver.after = stall
        await engine.until(lambda: engine.calls.count("lease") > 1)  # each claim of an idle worker waits first
        engine.add("a")
        assert (await rig.outcomes("a", 1))[0] == outcome


# --------------------------------------------------------------------------------------------------------- in processes


@pytest.fixture
def worker(redis_url: str, server: RedisServer) -> Iterator[WorkerProcess]:
    """A worker process that waits for its first job."""
    worker = WorkerProcess(redis_url, "fast", "4")
    worker.says("ready")
    until_blocked(server)
    yield worker
    with suppress(ProcessLookupError):
        os.kill(worker.process.pid, signal.SIGCONT)
    worker.close()


def test_a_job_that_redis_claimed_for_a_stopped_worker_runs_elsewhere(driver: SyncDriver, worker: WorkerProcess):
    engine, other = PartitionedEngine("tenure"), Other(driver)
    os.kill(worker.process.pid, signal.SIGSTOP)
    add(driver, ("a", "nap"))
    # The wait and the claim were sent together: the worker has no part in this.
    assert driver.run(engine.queue("q")).counts[State.ACTIVE] == 1
    until(lambda: other.takes("a"))
    os.kill(worker.process.pid, signal.SIGCONT)
    add(driver, ("mark", "nap"))
    assert "nap a 1" not in worker.lines_until("nap mark 1")


def test_redis_claims_nothing_for_a_worker_that_was_killed(
    driver: SyncDriver, worker: WorkerProcess, server: RedisServer
):
    engine = PartitionedEngine("tenure")
    os.kill(worker.process.pid, signal.SIGKILL)
    until(lambda: b"blocked_clients:0" in server.command("INFO", "clients"))
    add(driver, ("a", "nap"))
    (lease,) = driver.run(engine.lease("other", ["q"], 10)).leases
    assert isinstance(lease, Lease)
    assert lease.crashes == 0
