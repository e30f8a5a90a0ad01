"""How many commands an idle worker sends. The figures are those of the README and of docs/howto/deploy.md."""

from __future__ import annotations

import asyncio
import re

import pytest

from tenure.testing.server import RedisServer
from tests.runtime.fakes import task
from tests.runtime.test_native import place

WAITS = 3
"""Waits for work that the count goes over: each takes two seconds, and then the queues are looked at."""


def sent(server: RedisServer) -> dict[str, int]:
    """What workers send, as far as the server has been asked for it. Commands in scripts are not among these."""
    stats = server.command("INFO", "commandstats").decode()
    calls = {name: int(count) for name, count in re.findall(r"cmdstat_(\w+):calls=(\d+)", stats)}
    return {name: calls.get(name, 0) for name in ("evalsha", "eval", "blpop", "ping", "subscribe")}


def seconds(server: RedisServer) -> float:
    whole, micros = server.command("TIME")
    return int(whole) + int(micros) / 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 30])
async def test_an_idle_worker_sends_no_more_than_is_said(count: int, server: RedisServer):
    queues = [f"q{number}" for number in range(count)]
    specs = [task(lambda: None, name=queue, queue=queue) for queue in queues]

    async def waits(goal: int) -> None:
        while sent(server)["blpop"] < goal:  # noqa: ASYNC110 - Redis has no event for it
            await asyncio.sleep(0.05)

    async with place(server.url, *specs, queues=queues):
        before = sent(server)["blpop"]
        await waits(before + 1)  # its start is over
        first, began = sent(server), seconds(server)
        await waits(first["blpop"] + WAITS)
        calls, took = sum(sent(server).values()) - sum(first.values()), seconds(server) - began
    # Twice as much as is said: a round of maintenance falls into so short a time, or does not.
    assert calls / took <= 2 * (0.7 + 0.7 * count), (calls, took)
