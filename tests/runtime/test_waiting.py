"""The ways in which an engine lets workers wait. Most tests use blocking calls that only wake; these use the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from tenure.core.job import Lease
from tenure.core.steps import Steps
from tenure.core.waiting import Listen, Poll, Take, Wait
from tests.runtime.fakes import Rig
from tests.support.fakes import FakeEngine, one_call

LONG_MS = 60_000


class Taking(FakeEngine):
    """A blocking call moves a job into `taken`; the next claim adopts it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = self.take
        self.taken: deque[Lease] = deque()
        self.timing = type(self.timing)(beat_ms=20, idle_wait_ms=LONG_MS, maintain_ms=50, presence_ms=50)
        self.lets_go = asyncio.Event()
        self.lets_go.set()

    def take(self, queues: Sequence[str], timeout_ms: int) -> Wait:
        async def wait() -> str | None:
            self._note("wait")
            while not self.ready["q"]:
                self._woken.clear()
                await self._woken.wait()
            self.taken.append(self.ready["q"].popleft())
            self._note("taken")
            await self.lets_go.wait()
            return "q"

        def put_back() -> None:
            self.ready["q"].extendleft(reversed(self.taken))
            self.taken.clear()
            self._note("put_back")

        return Take(one_call(wait), lambda: one_call(put_back))

    def lease(self, *args: Any, **options: Any) -> Steps[Any]:
        self.ready["q"].extendleft(reversed(self.taken))  # what was taken comes first
        self.taken.clear()
        return super().lease(*args, **options)


async def test_the_next_claim_adopts_a_job_that_a_wait_took():
    engine = Taking()
    async with Rig(lambda: None, engine=engine) as rig:
        await engine.until(lambda: "wait" in engine.calls)
        engine.add("a")
        await rig.ends("a")
        assert "taken" in engine.calls
        assert not engine.taken


async def test_a_job_that_a_cancelled_wait_took_goes_back_to_its_queue():
    engine = Taking()
    engine.lets_go.clear()
    async with Rig(lambda: None, engine=engine) as rig:
        await engine.until(lambda: "wait" in engine.calls)
        engine.add("a")
        await engine.until(lambda: "taken" in engine.calls)
        rig.worker.stop()
        await rig.ended()
    assert [lease.record.id for lease in engine.ready["q"]] == ["a"]
    assert not engine.settled


async def test_a_message_wakes_a_worker_that_listens():
    engine = FakeEngine()
    engine.waits = lambda queues, timeout_ms: Listen(
        ("news", "more"), lambda channel, message: message.decode() or None
    )
    engine.timing = type(engine.timing)(beat_ms=20, idle_wait_ms=LONG_MS, maintain_ms=50, presence_ms=50)
    async with Rig(lambda: None, engine=engine) as rig:
        for id, channel in (("a", "news"), ("b", "more"), ("c", "news")):
            # Two claims of nothing: before it listened, and since it does.
            await engine.until(lambda: engine.calls[-2:] == ["lease", "lease"] and len(rig.driver.channels) >= 2)
            engine.ready["q"].clear()
            engine.add(id)
            rig.driver.publish(channel, "q")
            await rig.ends(id)
            engine.calls += ["lease", "lease"]
    assert not any(rig.driver.channels.values()), "it left its channels"


async def test_a_job_that_came_before_the_worker_listened_is_found():
    """A message that was published before the subscription is lost: the worker claims again once it listens."""
    engine = FakeEngine()
    engine.waits = lambda queues, timeout_ms: Listen(("news",), lambda channel, message: message.decode() or None)
    engine.timing = type(engine.timing)(beat_ms=20, idle_wait_ms=LONG_MS, maintain_ms=50, presence_ms=50)
    async with Rig(lambda: None, engine=engine) as rig:
        rig.driver.fault = lambda call: engine.add("a") if call == "subscribe" else None
        await rig.ends("a")


async def test_a_worker_that_polls_claims_again_after_the_interval():
    engine, waits = FakeEngine(), []

    def poll(queues: Sequence[str], timeout_ms: int) -> Wait:
        waits.append(queues)
        if len(waits) == 3:
            engine.add("a")
        return Poll(5)

    engine.waits = poll
    async with Rig(lambda: None, engine=engine) as rig:
        await rig.ends("a")
    assert waits[0] == ("q",)
