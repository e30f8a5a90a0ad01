"""The pytest plugin of `leasehold[pytest]`: a real Redis for the test session, and apps that use it in one test.

    def test_signup(leasehold_app):
        jobs = leasehold_app(app)
        signup("ada@example.org")
        jobs.drain()

Installing it changes no test: it only offers fixtures, and loads Leasehold when a test asks for one.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from leasehold.app.app import Leasehold
    from leasehold.app.testing import Testing
    from leasehold.testing.server import RedisServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def leasehold_server() -> Iterator[RedisServer]:
    """A Redis server for the test session, on a unix socket. It ends with the tests.

    def test_url(leasehold_server):
        assert leasehold_server.url.startswith("unix://")

    It is redis-server or valkey-server on PATH, else that of `leasehold[embedded]`. Raises `NotConfigured` if there is
    none.
    """
    from leasehold.redis.embedded.binary import find_server
    from leasehold.testing.server import RedisServer

    with RedisServer(find_server(), aof=False) as server:
        yield server


@pytest.fixture
def leasehold_app(leasehold_server: RedisServer) -> Iterator[Callable[[Leasehold], Testing]]:
    """A function that lets an app use `leasehold_server` until the end of the test, and returns `app.testing()`.

    def test_signup(leasehold_app):
        jobs = leasehold_app(app)

    The apps of one test share a namespace that no other test has. Afterwards the server is empty, large payloads of the
    test are deleted from the stores of the apps, and the apps have their own settings again.
    """
    namespace = f"test-{os.getpid()}-{next(_numbers)}"
    with ExitStack() as stack:
        stack.callback(leasehold_server.flush)
        yield lambda app: stack.enter_context(
            app.testing().on_redis(leasehold_server.url, namespace=namespace, temporary=True)
        )
