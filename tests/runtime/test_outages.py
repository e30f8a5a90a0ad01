"""What a worker tells its listeners while Redis does not answer for a moment."""

from __future__ import annotations

import asyncio
import time

import pytest

from tenure.core import events, limits
from tenure.testing.server import RedisServer
from tests.runtime.fakes import task
from tests.runtime.test_events import Heard
from tests.runtime.test_native import place


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_an_outage_far_shorter_than_the_patience_is_told_and_how_long_it_was(
    how: str, private_server: RedisServer, caplog: pytest.LogCaptureFixture
):
    heard = Heard(events.RedisAway, events.RedisBack)

    async def logged(name: str) -> None:
        while name not in caplog.text:  # noqa: ASYNC110 - a log has no event for it
            await asyncio.sleep(0.01)

    async with place(private_server.url, task(lambda: None), listeners=[heard.listener]) as here, asyncio.timeout(60):
        await here.worker.until_ready()
        gone_at = time.monotonic()
        await asyncio.to_thread(private_server.kill if how == "killed" else private_server.pause)
        await logged("redis_lost")
        lost_at = time.monotonic()
        await asyncio.sleep(0.2)
        came_at = time.monotonic()  # or later: the server answers before `start` returns
        await asyncio.to_thread(private_server.start if how == "killed" else private_server.resume)
        await logged("redis_restored")
        await heard.until(lambda: len(heard.all) >= 2)
        most = time.monotonic() - gone_at
    assert heard.kinds()[:2] == ["RedisAway", "RedisBack"]
    away, back = heard.all[:2]
    assert away.error_type == "Unreachable"
    waited = limits.REPLY_TIMEOUT_MS / limits.SECOND / 2 if how == "frozen" else 0.0
    assert came_at - lost_at + waited <= back.away <= most
