"""Tasks of one event loop that enqueue at the same time, on Redis: few calls, and each caller's own answer."""

from __future__ import annotations

import asyncio
import re

import pytest

from tenure import DuplicateJob, JobHandle, QueueFull, Tenure
from tenure.testing.server import RedisServer


@pytest.fixture
def app(server: RedisServer) -> Tenure:
    return Tenure(server.url, namespace="together")


def double(number: int) -> int:
    return 2 * number


def scripts_run(server: RedisServer) -> int:
    found = re.search(rb"cmdstat_evalsha:calls=(\d+)", server.command("INFO", "commandstats"))
    return int(found[1]) if found else 0


async def test_a_thousand_at_once_are_in_their_queue_in_order(app: Tenure, server: RedisServer) -> None:
    async with app:
        task = app.task(double)
        await task.aenqueue(-1)
        before = scripts_run(server)
        jobs = await asyncio.gather(*(task.aenqueue(number) for number in range(1_000)))
        assert scripts_run(server) - before <= 12
        ready = server.command("LRANGE", "{together:default}:ready", 1, -1)
        assert [id.decode() for id in ready] == [job.id for job in jobs]


async def test_a_full_queue_takes_the_first_and_refuses_the_others(app: Tenure) -> None:
    async with app:
        task = app.task(double)
        await app.control.aconfigure("default", max_length=4)
        answers = await asyncio.gather(*(task.aenqueue(n) for n in range(6)), return_exceptions=True)
        assert [type(answer) for answer in answers] == [JobHandle] * 4 + [QueueFull] * 2
        assert [answer.queue for answer in answers if isinstance(answer, QueueFull)] == ["default"] * 2


async def test_of_two_with_the_same_id_the_second_is_a_duplicate(app: Tenure) -> None:
    async with app:
        task = app.task(double)
        calls = [task.using(id=id).aenqueue(1) for id in ("a", "b", "b", "a", "c")]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [JobHandle, JobHandle, DuplicateJob, DuplicateJob, JobHandle]
