"""Fixtures of the engine suites. A suite's conftest.py imports them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from leasehold.redis.sync import SyncDriver
from leasehold.testing.server import RedisServer
from tests.support import mutants
from tests.support.engines import ENTRIES, Entry
from tests.support.world import World

_MUTATED = pytest.StashKey[bool]()


def configure(config: pytest.Config) -> None:
    """Called by the conftest.py of every suite. With LEASEHOLD_MUTANT=name the scripts are broken on purpose."""
    config.addinivalue_line("markers", "needs(feature...): the test asks for these features of the engine")
    config.addinivalue_line("markers", "garbage: the test leaves keys behind that are not as they should be")
    name = os.environ.get("LEASEHOLD_MUTANT", "")
    if name and not config.stash.get(_MUTATED, False):
        mutants.apply(name)
        config.stash[_MUTATED] = True


@pytest.fixture(params=ENTRIES, ids=lambda entry: entry.name)
def entry(request: pytest.FixtureRequest) -> Entry:
    found: Entry = request.param
    for marker in request.node.iter_markers("needs"):
        missing = set(marker.args) - found.features
        if missing:
            pytest.skip(f"{found.name} has no {', '.join(sorted(missing))}")
    return found


@pytest.fixture
def driver(server: RedisServer) -> Iterator[SyncDriver]:
    driver = SyncDriver(server.url, patience_ms=2_000)
    yield driver
    driver.close()


@pytest.fixture
def world(request: pytest.FixtureRequest, entry: Entry, server: RedisServer, driver: SyncDriver) -> Iterator[World]:
    """An engine on an empty server. At the end every key must have an owner or a time to live."""
    world = World(entry, server, driver)
    yield world
    if request.node.get_closest_marker("garbage") is None:
        world.audit()
