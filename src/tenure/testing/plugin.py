"""The pytest plugin of `tenure[pytest]`: a real Redis for the test session, and apps that use it in one test.

    def test_signup(tenure_app):
        jobs = tenure_app(app)
        signup("ada@example.org")
        jobs.drain()

Installing it changes no test: it only offers fixtures, and loads Tenure when a test asks for one. With
`tenure_guard = true` in the ini file, calls that use another Redis fail.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tenure.app.app import Tenure
    from tenure.app.testing import Testing
    from tenure.testing.server import RedisServer

_numbers = itertools.count(1)
_GUARD = "TENURE_GUARD"
"""As in `tenure.client.connections`, which is loaded only when a test asks for Tenure."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini option of the guard."""
    text = "Tenure: calls that use no Redis of the fixtures fail, also in programs that the tests start."
    parser.addini("tenure_guard", text, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to guard the developer's Redis, if the project asks for it."""
    if config.getini("tenure_guard"):
        os.environ[_GUARD] = "none"
        config.add_cleanup(lambda: os.environ.update({_GUARD: ""}))


@pytest.fixture(scope="session")
def tenure_server() -> Iterator[RedisServer]:
    """A Redis server for the test session, on a unix socket. It ends with the tests.

    def test_url(tenure_server):
        assert tenure_server.url.startswith("unix://")

    It is redis-server or valkey-server on PATH, else the server of `tenure[embedded]`. Raises `NotConfigured` if
    neither is installed.
    """
    from tenure.redis.embedded.binary import find_server
    from tenure.testing.server import RedisServer

    with RedisServer(find_server(), aof=False) as server:
        if _GUARD in os.environ:
            os.environ[_GUARD] = server.url
        yield server


@pytest.fixture
def tenure_app(tenure_server: RedisServer) -> Iterator[Callable[[Tenure], Testing]]:
    """A function that lets an app use `tenure_server` until the end of the test, and returns `app.testing()`.

    def test_signup(tenure_app):
        jobs = tenure_app(app)

    The apps of one test share a namespace that no other test has. Afterwards the server is empty, large payloads of the
    test are deleted from the stores of the apps, and the apps have their own settings again.
    """
    namespace = f"test-{os.getpid()}-{next(_numbers)}"
    with ExitStack() as stack:
        stack.callback(tenure_server.flush)
        yield lambda app: stack.enter_context(
            app.testing().on_redis(tenure_server.url, namespace=namespace, temporary=True)
        )
