"""Leases by hand, on a real server, where much is in the way of the next job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tenure import Tenure
from tenure.engines.kit.config import MAX_LOOK
from tenure.testing.server import RedisServer

MANY = MAX_LOOK + 50
"""More than one claim looks at."""


@pytest.fixture
def app(server: RedisServer) -> Iterator[Tenure]:
    with Tenure(server.url, namespace="hand") as app:
        yield app


@pytest.mark.parametrize("mode", ["blocking", "async"])
def test_the_next_job_is_found_behind_many_that_were_cancelled(app: Tenure, mode: str) -> None:
    queue = app.queue("q")
    waiting = queue.enqueue_many(b"x" for _ in range(MANY))
    last = queue.enqueue(b"last")
    for cancelled in waiting:
        cancelled.cancel()

    async def look() -> str | None:
        async with app:
            job = await queue.alease()
            return job.id if job else None

    if mode == "async":
        assert asyncio.run(look()) == last.id
        return
    job = queue.lease()
    assert job
    assert job.id == last.id
