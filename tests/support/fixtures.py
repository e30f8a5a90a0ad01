"""Fixtures of the engine suites. A suite's conftest.py imports them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tenure.core.engine import FullEngine
from tenure.protocols.registry import add, rights_of
from tenure.redis.sync import SyncDriver
from tenure.testing.server import RedisServer
from tests.support import mutants
from tests.support.engines import ENTRIES, NATIVE, Entry, Options
from tests.support.sixth import PROTOCOL
from tests.support.world import NAMESPACE, World

add(PROTOCOL)
_MUTATED = pytest.StashKey[bool]()


def configure(config: pytest.Config) -> None:
    """Called by the conftest.py of every suite. With TENURE_MUTANT=name the scripts are broken on purpose."""
    config.addinivalue_line("markers", "needs(feature...): the test needs these features and traits of the engine")
    config.addinivalue_line("markers", "garbage: the test leaves keys behind that are not as they should be")
    name = os.environ.get("TENURE_MUTANT", "")
    if name and not config.stash.get(_MUTATED, False):
        mutants.apply(name)
        config.stash[_MUTATED] = True


def fits(test: pytest.Item, entry: Entry) -> bool:
    """Whether the engine has all features and traits that the test, or this case of it, needs."""
    return all((entry.features | entry.traits).issuperset(marker.args) for marker in test.iter_markers("needs"))


def generate(metafunc: pytest.Metafunc) -> None:
    """Each engine that the test is for, in turn. Called by the conftest.py of a suite for all engines."""
    if "entry" in metafunc.fixturenames:
        test = metafunc.definition
        fit = [entry for entry in ENTRIES if fits(test, entry)]
        metafunc.parametrize("entry", fit, indirect=True, ids=lambda entry: entry.name)


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that need a feature which the engine has not. Called as `generate` is."""
    others = set()
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is not None and "entry" in callspec.params and not fits(item, callspec.params["entry"]):
            others.add(item)
    if others:
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


@pytest.fixture
def entry(request: pytest.FixtureRequest) -> Entry:
    """The engine that `generate` gave to the test."""
    found: Entry = request.param
    return found


@pytest.fixture(params=[NATIVE], ids=lambda entry: entry.name)
def native_entry(request: pytest.FixtureRequest) -> Entry:
    """For suites that know the native layout: `from ... import native_entry as entry`."""
    found: Entry = request.param
    return found


@pytest.fixture(scope="session")
def shared_server(redis_binary: str) -> Iterator[RedisServer]:
    """A server for the suites that look through all keys: elsewhere a process of an earlier test may still write."""
    with RedisServer(redis_binary, tcp=True, aof=False) as server:
        yield server


@pytest.fixture
def driver(entry: Entry, server: RedisServer) -> Iterator[SyncDriver]:
    """As a user with just the rights that the engine says it needs: so they are enough for all that is tested."""
    url = restricted(server, entry.make(NAMESPACE, Options()))
    driver = SyncDriver(url, patience_ms=20_000, reply_timeout_ms=20_000)
    yield driver
    driver.close()


def restricted(server: RedisServer, engine: FullEngine) -> str:
    """The URL for a user with just the rights that the engine needs."""
    server.command("ACL", "SETUSER", engine.name, "reset", "resetchannels", "on", ">pw", *rights_of(engine).needed)
    return server.url.replace("unix://", f"unix://{engine.name}:pw@")


@pytest.fixture
def world(request: pytest.FixtureRequest, entry: Entry, server: RedisServer, driver: SyncDriver) -> Iterator[World]:
    """An engine on an empty server. At the end every key must have an owner or a time to live."""
    world = World(entry, server, driver)
    yield world
    if request.node.get_closest_marker("garbage") is None:
        world.audit()
