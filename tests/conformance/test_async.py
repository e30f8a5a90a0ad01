"""The same operations through the asyncio driver: engines do not know which driver runs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tenure.core.engine import Feature
from tenure.core.job import NewJob, State
from tenure.core.outcome import Completed, Released, Retried
from tenure.redis.aio import AsyncDriver
from tests.support.world import BOOM, World


@pytest.fixture
async def aio(world: World) -> AsyncIterator[AsyncDriver]:
    driver = AsyncDriver(world.server.url, patience_ms=2_000)
    yield driver
    await driver.close()


@pytest.mark.needs(Feature.RETRIES, Feature.RESULTS, Feature.EXTEND)
async def test_the_life_of_a_job(world: World, aio: AsyncDriver) -> None:
    engine = world.engine
    (added,) = await aio.run(engine.enqueue([NewJob("q", "a", b"in")]))
    assert added.created
    (lease,) = (await aio.run(engine.lease("w", ["q"], 5))).leases
    beat = await aio.run(engine.heartbeat("w", ["q"], [lease.ref]))
    assert not beat.lost
    assert await aio.run(engine.extend(lease, 5_000))
    assert await aio.run(engine.settle([(lease, Retried(BOOM))])) == [True]
    (lease,) = (await aio.run(engine.lease("w", ["q"], 5))).leases
    assert lease.attempt == 2
    assert await aio.run(engine.settle([(lease, Completed(b"out", 60_000))])) == [True]
    view = await aio.run(engine.job("q", "a"))
    assert view is not None
    assert (view.state, view.result) == (State.COMPLETED, b"out")
    page = await aio.run(engine.page("q", State.COMPLETED))
    assert page.total == 1


async def test_many_tasks_share_a_driver_and_no_job(world: World, aio: AsyncDriver) -> None:
    ids = [f"j{n}" for n in range(300)]
    await aio.run(world.engine.enqueue([NewJob("q", id, b"") for id in ids]))
    done: list[str] = []

    async def work(worker: str) -> None:
        while leases := (await aio.run(world.engine.lease(worker, ["q"], 3))).leases:
            answers = await aio.run(world.engine.settle([(lease, Completed(b"", 0)) for lease in leases]))
            assert all(answers)
            done.extend(lease.record.id for lease in leases)

    await asyncio.gather(*(work(f"w{n}") for n in range(8)))
    assert sorted(done) == sorted(ids)


async def test_both_drivers_at_once(world: World, aio: AsyncDriver) -> None:
    world.put("a")
    (lease,) = (await aio.run(world.engine.lease("w", ["q"], 1))).leases
    assert world.settle(lease, Released())
    assert not (await aio.run(world.engine.settle([(lease, Completed(b""))])))[0]
    assert world.drain() == ["a"]
