"""Fixtures for all tests: real Redis servers.

A test that asks for `server`, `redis_url` or `private_server` runs on the oldest Redis found. Tests marked
`every_server`, whose behaviour may differ between versions, run on each version found.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Callable, Generator, Iterator

import pytest

from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer, available_binaries
from tests.support.postgres import postgres

__all__ = ["postgres"]

_BINARIES = available_binaries()


def pytest_configure() -> None:
    # Started in the background of a shell, the tests ignore these signals, and so would all processes that they start.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and keep it away from what was collected: it lives as long as the process.

    Each process of a run has all 12,000 tests in memory: a million objects, which the collector would go through.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on the oldest Redis; if marked `every_server` or with TENURE_ALL_SERVERS set, on each version."""
    if "redis_binary" not in metafunc.fixturenames:
        return
    every = metafunc.definition.get_closest_marker("every_server") or os.environ.get("TENURE_ALL_SERVERS")
    versions = list(_BINARIES) if every else list(_BINARIES)[:1]
    none = pytest.param("", marks=pytest.mark.skip("no Redis server"))
    metafunc.parametrize("redis_binary", versions or [none], indirect=True, scope="session")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first: at the end all processes would wait for the one that has it."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session")
def redis_binary(request: pytest.FixtureRequest) -> str:
    """The path of a server program, one after the other."""
    return _BINARIES[request.param]


@pytest.fixture(scope="session")
def shared_server(redis_binary: str) -> Iterator[RedisServer]:
    """One server for the whole session. Ask for `server`, which is empty, rather than for this."""
    with RedisServer(redis_binary, tcp=True, aof=False) as server:
        yield server


@pytest.fixture
def server(shared_server: RedisServer) -> RedisServer:
    """A server without keys and scripts, shared with other tests: never stop or reconfigure it."""
    shared_server.command("FLUSHALL")
    return shared_server


@pytest.fixture
def redis_url(server: RedisServer) -> str:
    """The URL of a server without keys and scripts."""
    return server.url


@pytest.fixture
def driver(redis_url: str) -> Iterator[SyncDriver]:
    driver = SyncDriver(redis_url)
    yield driver
    driver.close()


@pytest.fixture
def private_server(redis_binary: str) -> Iterator[RedisServer]:
    """A server for this test alone, with an append-only file: stop, kill and freeze it as you like."""
    with RedisServer(redis_binary, tcp=True) as server:
        yield server


@pytest.fixture
def make_server(redis_binary: str) -> Iterator[Callable[..., RedisServer]]:
    """Starts servers with options of the test's own: `make_server(args=["--requirepass", "x"], password="x")`."""
    servers: list[RedisServer] = []

    def make(**options: object) -> RedisServer:
        server = RedisServer(redis_binary, **options)  # type: ignore[arg-type]
        servers.append(server)
        server.start()
        return server

    yield make
    for server in servers:
        server.close()


@pytest.fixture(autouse=True)
def logging_is_not_set_up() -> Iterator[None]:
    """A command that runs in this process sets the loggers up; after that, other tests would see other lines."""
    last, ours, root = logging.lastResort, logging.getLogger("tenure"), logging.getLogger()
    jobs, redis = logging.getLogger("tenure.jobs"), logging.getLogger("tenure.redis")
    levels = root.level, jobs.level
    yield
    logging.lastResort = last
    ours.handlers, ours.propagate, redis.propagate = [], True, True
    ours.setLevel(logging.NOTSET)
    root.setLevel(levels[0])
    jobs.setLevel(levels[1] or logging.WARNING)  # as the module sets it when it is loaded
