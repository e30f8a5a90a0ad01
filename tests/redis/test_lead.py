"""A blocking command that is sent in one write with a claim, before it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from tenure.core.engine import Timing
from tenure.core.job import NewJob
from tenure.core.steps import Command, Invoke, Script, Steps
from tenure.core.waiting import Lead, led_by
from tenure.engines.native.engine import NativeConfig
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes.link import KeeperLink
from tenure.protocols.registry import engine_spec_of
from tenure.redis.aio import AsyncDriver
from tenure.redis.sync import SyncDriver
from tenure.runtime.assembly import UserCode, WorkerSettings
from tenure.runtime.worker import Worker
from tenure.testing.server import RedisServer
from tests.redis.waits import until_blocked
from tests.runtime.fakes import task

POP = Script("pop", "return {redis.call('LPOP', KEYS[1]), redis.call('LLEN', KEYS[1])}")
WAIT = Command(("BLPOP", "wake", "5"), block_ms=5_000)


def pop() -> Steps[Any]:
    return (yield Invoke(POP, ("jobs",), ()))


class Both:
    """The two drivers behind one interface."""

    def __init__(self, url: str, kind: str) -> None:
        self.sync = SyncDriver(url)
        self.url, self.kind = url, kind

    def run(self, *all_steps: Steps[Any]) -> list[Any]:
        if self.kind == "sync":
            return [self.sync.run(steps) for steps in all_steps]

        async def run() -> list[Any]:
            driver = AsyncDriver(self.url)
            try:
                return [await driver.run(steps) for steps in all_steps]
            finally:
                await driver.close()

        return asyncio.run(run())


@pytest.fixture(params=["sync", "aio"])
def both(server: RedisServer, request: pytest.FixtureRequest) -> Generator[Both]:
    both = Both(server.url, request.param)
    yield both
    both.sync.close()


def test_the_claim_follows_the_wait(server: RedisServer, both: Both) -> None:
    server.command("RPUSH", "jobs", "a", "b")
    server.command("RPUSH", "wake", "x", "y")
    # The first goes with the text of the script, which Redis does not know yet.
    assert both.run(led_by(WAIT, pop()), led_by(WAIT, pop()), pop()) == [[b"a", 1], [b"b", 0], [None, 0]]
    assert server.command("LLEN", "wake") == 0, "each wait took its wake-up"


def test_a_wait_that_is_refused_does_not_cost_the_claim(server: RedisServer, both: Both) -> None:
    server.command("RPUSH", "jobs", "a", "b")
    server.command("SET", "wake", "not a list")
    assert both.run(led_by(WAIT, pop()), led_by(WAIT, pop()), pop()) == [[b"a", 1], [b"b", 0], [None, 0]]


def test_a_claim_under_a_nonce_is_led_too(server: RedisServer, both: Both) -> None:
    engine = PartitionedEngine("tenure")
    both.run(engine.enqueue([NewJob("q", "a", b"")]))
    both.run(engine.maintain(["q"], []))
    wait = engine.wait("w", ["q"], 5_000)
    assert isinstance(wait, Lead)
    (leased,) = both.run(led_by(wait.command, engine.lease("w", ["q"], 5)))
    assert [lease.record.id for lease in leased.leases] == ["a"]
    assert server.command("EXISTS", f"{engine.prefix('q')}:wake") == 0


def test_a_claim_that_lost_its_connection_while_it_waited_is_sent_again(server: RedisServer, both: Both) -> None:
    """Without the wait: Redis may have sent the wake-up to the dead connection."""
    server.command("RPUSH", "jobs", "a")

    def cut() -> None:
        until_blocked(server)
        server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    cutting = threading.Thread(target=cut)
    cutting.start()
    assert both.run(led_by(WAIT, pop())) == [[b"a", 0]]
    cutting.join()


class Leading(PartitionedEngine):
    """Workers of several queues wait and claim in one write, too, for one queue after the other."""

    led = 0

    def wait(self, worker: str, queues: Sequence[str], timeout_ms: int) -> Any:
        Leading.led += 1
        keys = [f"{self.prefix(queue)}:wake" for queue in queues]
        return Lead(Command(("BLPOP", *keys, str(timeout_ms / 1000)), block_ms=timeout_ms), queues[0])


async def test_a_worker_waits_and_claims_in_one_write(redis_url: str) -> None:
    engine = Leading("tenure", NativeConfig(timing=Timing(idle_wait_ms=20_000)))
    done: asyncio.Queue[None] = asyncio.Queue()
    driver, client = AsyncDriver(redis_url), AsyncDriver(redis_url)
    keeper = KeeperLink(redis_url, engine_spec_of(engine))

    async def handle() -> None:
        done.put_nowait(None)

    settings = WorkerSettings(["q", "r"], concurrency=2, signals=False)
    worker = Worker(engine, driver, UserCode([task(handle)]), settings, keeper=keeper)
    running = asyncio.create_task(worker.run())
    try:
        for number, queue in enumerate(["q", "r", "q"]):
            while Leading.led <= number:  # noqa: ASYNC110 - the engine has no event for it
                await asyncio.sleep(0.01)
            await client.run(engine.enqueue([NewJob(queue, str(number), b"", task="t")]))
            async with asyncio.timeout(10):
                await done.get()
    finally:
        worker.stop()
        async with asyncio.timeout(10):
            await running
        with contextlib.suppress(Exception):
            await driver.close()
        await client.close()
