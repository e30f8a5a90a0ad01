"""For which of several queues a claim waits, where Redis can wait for one only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tenure.core.job import JobRecord, Lease, Leased
from tenure.core.steps import Command, Steps
from tenure.core.waiting import Lead
from tenure.runtime.ports import Env
from tenure.runtime.waiting import STAY_S, WorkWaiter

QUEUES = ("b", "c", "a")
JOB = Leased((Lease("w", 1, JobRecord("1", "b", b"", 0), 0, 0),))


class OneQueue:
    """An engine that can wait for one queue only: the first."""

    def wait(self, worker: str, queues: tuple[str, ...], timeout_ms: int) -> Lead:
        return Lead(Command(("BLMOVE", queues[0])), queues[0])


class Replies:
    """A driver that answers each claim with the next of these."""

    def __init__(self) -> None:
        self.next = Leased()

    async def run(self, steps: Steps[Any]) -> Leased:
        steps.close()
        return self.next


def nothing() -> Iterator[Any]:
    yield


class Rig:
    def __init__(self) -> None:
        self.now = 100.0
        self.replies = Replies()
        env = Env(clock=lambda: self.now)
        self.waiter = WorkWaiter(OneQueue(), self.replies, "w", env)  # type: ignore[arg-type]

    async def turn(self, brought: Leased) -> str:
        """Wait and claim once. Returns the queue that the claim waited for."""
        lead = self.waiter.wait_for(QUEUES, 1_000, True)
        assert isinstance(lead, Lead)
        self.replies.next = brought
        await self.waiter.claim(lead, nothing())  # type: ignore[arg-type]
        return lead.queue


async def test_idle_queues_have_their_turns() -> None:
    rig = Rig()
    assert [await rig.turn(Leased()) for _ in range(5)] == ["b", "c", "a", "b", "c"]


async def test_a_worker_stays_with_the_queue_that_brings_jobs_for_a_while() -> None:
    rig = Rig()
    assert [await rig.turn(JOB) for _ in range(3)] == ["b", "b", "b"]
    rig.now = math.nextafter(rig.now + STAY_S, math.inf)
    assert [await rig.turn(Leased()) for _ in range(3)] == ["c", "a", "b"]
