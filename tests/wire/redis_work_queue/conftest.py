"""Fixtures for the tests of the wire format of redis-work-queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.wire.redis_work_queue.bench import Bench
from tests.wire.redis_work_queue.originals import KINDS, Original


@pytest.fixture
def driver(server: RedisServer) -> Iterator[SyncDriver]:
    driver = SyncDriver(server.url, patience_ms=20_000, reply_timeout_ms=20_000)
    yield driver
    driver.close()


@pytest.fixture
def bench(server: RedisServer, driver: SyncDriver) -> Bench:
    """Our engine on an empty server, and the commands of other clients."""
    return Bench(server, driver)


@pytest.fixture(params=[False, True], ids=["bytes", "decoded"])
def db(server: RedisServer, request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    """A client of the caller's."""
    client = redis.Redis.from_url(server.url, decode_responses=request.param)
    yield client
    client.close()


@pytest.fixture(params=KINDS)
def original(request: pytest.FixtureRequest, server: RedisServer) -> Iterator[Original]:
    """A process with an original client, in each language."""
    client = Original(request.param, server.url, "jobs")
    yield client
    client.close()


@pytest.fixture
def start(server: RedisServer) -> Iterator[Callable[[str], Original]]:
    """Starts original clients."""
    started: list[Original] = []

    def make(kind: str) -> Original:
        started.append(Original(kind, server.url, "jobs"))
        return started[-1]

    yield make
    for client in started:
        client.close()
