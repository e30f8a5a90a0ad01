"""Fixtures for all tests: real Redis servers.

Every test that asks for `server`, `redis_url` or `private_server` runs once for each version of Redis at hand, but for
those that are marked `one_server`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from leasehold.testing.server import RedisServer, available_binaries

_BINARIES = available_binaries()
_NEWEST = list(_BINARIES)[-1:]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of what does not depend on the version of Redis run on the newest only. LEASEHOLD_ALL_SERVERS=1: on all."""
    if os.environ.get("LEASEHOLD_ALL_SERVERS"):
        return
    others = [item for item in items if item.get_closest_marker("one_server") and not _is_on(item, _NEWEST)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


def _is_on(item: pytest.Item, versions: list[str]) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is None or callspec.params.get("redis_binary", *versions) in versions


@pytest.fixture(scope="session", params=_BINARIES or [pytest.param("", marks=pytest.mark.skip("no Redis server"))])
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
    shared_server.flush()
    return shared_server


@pytest.fixture
def redis_url(server: RedisServer) -> str:
    """The URL of a server without keys and scripts."""
    return server.url


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
