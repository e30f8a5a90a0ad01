"""Fixtures for the tests of the wire format of worqr."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.wire.worqr.bench import Bench


@pytest.fixture
def driver(server: RedisServer) -> Iterator[SyncDriver]:
    driver = SyncDriver(server.url, patience_ms=20_000, reply_timeout_ms=20_000)
    yield driver
    driver.close()


@pytest.fixture
def bench(server: RedisServer, driver: SyncDriver) -> Iterator[Bench]:
    """Our engine on an empty server, and originals beside it."""
    bench = Bench(server, driver)
    yield bench
    bench.db.close()
