"""A worker whose queue a newer release has written to, on a real Redis."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tenure.core.job import NewJob, State
from tenure.redis.aio import AsyncDriver
from tenure.testing.server import RedisServer
from tests.runtime.fakes import task
from tests.runtime.test_native import place


async def test_it_waits_says_so_and_goes_on(private_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    seen = AsyncDriver(private_server.url)
    meta = "{tenure:q}:meta"

    async def state_of(id: str) -> State | None:
        view = await seen.run(here.engine.job("q", id))
        return view.state if view is not None else None

    specs: list[Any] = [task(lambda: None, queue="q")]
    with caplog.at_level(logging.INFO, "tenure.worker"):
        private_server.command("HSET", meta, "layout", 99)
        async with place(private_server.url, *specs, queues=["q"]) as here:
            await seen.run(here.engine.enqueue([NewJob("q", "a", b"", task="t")]))
            while "redis_refused what=claim" not in caplog.text:
                assert await state_of("a") is State.READY
            assert "layout version 99" in caplog.text
            private_server.command("HDEL", meta, "layout")
            while await state_of("a") is not State.COMPLETED:
                pass
    assert caplog.text.count("redis_refused what=claim") == caplog.text.count("redis_restored what=claim") == 1
    assert caplog.text.count("redis_refused") == 1, "one cause, one line"
    await seen.close()


async def test_it_is_not_said_to_be_back_by_claims_that_other_queues_filled(
    private_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    seen = AsyncDriver(private_server.url)
    specs: list[Any] = [task(lambda: None, queue="q"), task(lambda: None, queue="p", name="other")]
    with caplog.at_level(logging.INFO, "tenure.worker"):
        private_server.command("HSET", "{tenure:q}:meta", "layout", 99)
        async with place(private_server.url, *specs, queues=["p", "q"], concurrency=1) as here:
            await seen.run(here.engine.enqueue([NewJob("p", f"n{n}", b"", task="other") for n in range(300)]))
            while (await seen.run(here.engine.queue("p"))).counts[State.COMPLETED] < 300:
                pass
    assert caplog.text.count("redis_refused what=claim") == 1
    assert "redis_restored what=claim" not in caplog.text
    await seen.close()
