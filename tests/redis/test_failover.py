"""A failover while jobs are enqueued (S26, S27): what was waited for survives, what was not may be lost and is counted.

The replica stands still when the master dies: what it had not got by then is the window in which Redis may lose.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator

import pytest

from tenure.client.enqueue import enqueue_durably
from tenure.core.engine import HeartbeatReply
from tenure.core.errors import NotDurable
from tenure.core.job import NewJob
from tenure.core.outcome import Completed
from tenure.engines.native.partitions.engine import PartitionedEngine
from tenure.processes.link import KeeperLink
from tenure.protocols.registry import engine_spec_of
from tenure.redis.sync import SyncDriver
from tests.redis.watched import Watched, until

pytestmark = pytest.mark.timeout(180)
QUEUE = "orders"
LARGE = bytes(512 * 1024)
"""Fifty of these are more than the kernel holds for a replica that stands still."""


@pytest.fixture
def watched(redis_binary: str) -> Iterator[Watched]:
    with Watched(redis_binary) as watched:
        yield watched


@pytest.fixture
def drivers() -> Iterator[Callable[[str], SyncDriver]]:
    made: list[SyncDriver] = []

    def make(url: str) -> SyncDriver:
        made.append(SyncDriver(url, patience_ms=60_000))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.usefixtures("waits_long")
def test_a_failover_loses_nothing_that_was_durable(watched: Watched, drivers: Callable[[str], SyncDriver]) -> None:
    engine, driver, old, new = PartitionedEngine("shop"), drivers(watched.url()), watched.master, watched.replica
    sure = {f"sure-{number}" for number in range(50)}
    for id in sure:
        driver.run(enqueue_durably(engine, [NewJob(QUEUE, id, b"x")], 1))
    new.pause()
    hasty = {f"hasty-{number}" for number in range(50)}
    for id in hasty:
        driver.run(engine.enqueue([NewJob(QUEUE, id, LARGE)]))
    with pytest.raises(NotDurable):
        driver.run(enqueue_durably(engine, [NewJob(QUEUE, "told", b"x")], 1))
    old.kill()
    new.resume()
    until(lambda: new.command("ROLE")[0] == b"master")
    # Found again without a word from us; each job that is there runs once.
    ran: list[str] = []
    while leased := driver.run(engine.lease("w", (QUEUE,), 20)).leases:
        settled = driver.run(engine.settle([(lease, Completed(b"")) for lease in leased]))
        ran += [lease.record.id for lease, ours in zip(leased, settled, strict=True) if ours]
    assert len(ran) == len(set(ran))
    assert sure <= set(ran)
    lost = hasty - set(ran)
    assert lost, "the fault did not hit: all that was written had reached the replica"
    print(f"lost of those that were not waited for: {len(lost)} of {len(hasty)}")
    # The one that was refused as not durable can be enqueued again, and is then there exactly once.
    watched.settle()
    driver.run(enqueue_durably(engine, [NewJob(QUEUE, "told", b"x", own_id=True)], 1))
    assert [lease.record.id for lease in driver.run(engine.lease("w", (QUEUE,), 20)).leases] == ["told"]


@pytest.mark.usefixtures("waits_long")
async def test_the_keeper_follows_the_master(watched: Watched, drivers: Callable[[str], SyncDriver]) -> None:
    """The process that keeps the leases, over the same URL: the lease of a job outlives the failover."""
    engine, driver = PartitionedEngine("shop"), drivers(watched.url())
    driver.run(enqueue_durably(engine, [NewJob(QUEUE, "long", b"x")], 1))
    [lease] = driver.run(engine.lease("w", (QUEUE,), 1)).leases
    watched.master.command("WAIT", 1, 5_000)
    keeper = KeeperLink(watched.url(), engine_spec_of(engine))
    keeper.keep(frozenset([QUEUE]))
    await keeper.start("w", (QUEUE,))
    keeper.show({lease.ref: math.inf})
    try:
        async with asyncio.timeout(60):
            await good_beat(keeper)
            watched.master.kill()
            await asyncio.to_thread(until, lambda: watched.replica.command("ROLE")[0] == b"master")
            for _ in range(2):  # the first may have been on its way before
                assert not (await good_beat(keeper)).lost
        assert driver.run(engine.settle([(lease, Completed(b""))])) == [True]
    finally:
        await keeper.stop()


async def good_beat(keeper: KeeperLink) -> HeartbeatReply:
    while (beat := await keeper.report()) is None:
        pass
    return beat
