"""Fixtures of the engine suites. A suite's conftest.py imports them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from leasehold.redis.sync import SyncDriver
from leasehold.testing.server import RedisServer
from tests.support import mutants
from tests.support.engines import ENTRIES, NATIVE, Entry
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


def lacks(item: pytest.Item, entry: Entry) -> str:
    """Why a test is not for this engine; empty: it is."""
    for marker in item.iter_markers("needs"):
        missing = set(marker.args) - entry.features
        if missing:
            return f"{entry.name} has no {', '.join(sorted(missing))}"
    name, last = getattr(item, "originalname", item.name), item.name.rstrip("]").rpartition("-")[2]
    return next((entry.unlike[unlike] for unlike in (name, f"{name}[{last}]") if unlike in entry.unlike), "")


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what an engine cannot do. Called by the conftest.py of a suite for all engines."""
    entries: dict[pytest.Item, Entry] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "entry" in callspec.params:
            entries[item] = callspec.params["entry"]
    others = {item for item, entry in entries.items() if lacks(item, entry)}
    if others:
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


@pytest.fixture(params=ENTRIES, ids=lambda entry: entry.name)
def entry(request: pytest.FixtureRequest) -> Entry:
    """Each engine, in turn."""
    found: Entry = request.param
    return found


@pytest.fixture(params=[NATIVE], ids=lambda entry: entry.name)
def native_entry(request: pytest.FixtureRequest) -> Entry:
    """For suites that know the native layout: `from ... import native_entry as entry`."""
    found: Entry = request.param
    return found


@pytest.fixture
def driver(server: RedisServer) -> Iterator[SyncDriver]:
    driver = SyncDriver(server.url, patience_ms=20_000, reply_timeout_ms=20_000)
    yield driver
    driver.close()


@pytest.fixture
def world(request: pytest.FixtureRequest, entry: Entry, server: RedisServer, driver: SyncDriver) -> Iterator[World]:
    """An engine on an empty server. At the end every key must have an owner or a time to live."""
    world = World(entry, server, driver)
    yield world
    if request.node.get_closest_marker("garbage") is None:
        world.audit()
