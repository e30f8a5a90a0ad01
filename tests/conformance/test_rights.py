"""A user with just the rights that an engine says it needs. That they are enough, all tests of these suites show."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.errors import AccessDenied, ReplyError
from tenure.core.steps import Command, Invoke, Script, Steps
from tenure.manage.preflight import Level
from tenure.protocols.registry import rights_of
from tests.support.checking import inspection
from tests.support.world import NAMESPACE, World

pytestmark = pytest.mark.every_server

NEIGHBOURS = (
    f"{{{NAMESPACE}-admin:q}}:jobs",
    f"{{{NAMESPACE}-admin}}:queues",
    f"{{{NAMESPACE}}}-admin:queues",
    f"{{{NAMESPACE}2}}:queues",
    f"{NAMESPACE}-admin",
    f"{NAMESPACE}2:queue",
    "somebody-elses",
)
FORBIDDEN = (
    "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "KEYS *", "SCRIPT FLUSH", "SCRIPT KILL", "FUNCTION LIST", "FUNCTION FLUSH",
    "CONFIG GET requirepass", "CONFIG SET maxmemory 1", "ACL LIST", "ACL SETUSER x on", "CLIENT LIST",
    "CLIENT KILL 1:1", "MONITOR", "SHUTDOWN NOSAVE", "REPLICAOF NO ONE", "SAVE", "BGSAVE", "RANDOMKEY",
    "MIGRATE h 1 k 0 1",
    "PSUBSCRIBE *", "SORT somebody-elses", "OBJECT HELP", "RENAME somebody-elses x", "DUMP somebody-elses",
)  # fmt: skip


def one(*words: Any) -> Steps[Any]:
    return (yield Command(words))


def inside(*words: str) -> Steps[Any]:
    """The command from a script that names no keys."""
    return (yield Invoke(Script("inside", "return redis.call(unpack(ARGV))"), (), words))


def test_nothing_is_lacking(world: World) -> None:
    found = world.run(inspection(rights_of(world.engine)))
    assert [each.level for each in found.findings if each.name == "rights"] == [Level.OK]
    assert not found.errors


def test_the_check_changes_nothing(world: World) -> None:
    world.put("held", "waits")
    world.take(1)
    before = world.dump()
    world.run(inspection(rights_of(world.engine)))
    assert world.dump() == before


@pytest.mark.garbage
@pytest.mark.parametrize("key", NEIGHBOURS)
def test_the_keys_and_channels_of_neighbours_are_out_of_reach(world: World, key: str) -> None:
    world.command("SET", key, "x")
    every = (("GET", key), ("SET", key, "y"), ("DEL", key), ("EXISTS", key), ("LPUSH", key, "y"))
    granted = rights_of(world.engine).needed
    for words in (words for words in every if f"+{words[0].lower()}" in granted):
        with pytest.raises(AccessDenied):
            world.run(one(*words))
        with pytest.raises(ReplyError, match=r"can't access|No permissions to access"):
            world.run(inside(*words))
    for words in (("SUBSCRIBE", key), ("PUBLISH", key, "x")):
        with pytest.raises(AccessDenied):
            world.run(one(*words))
    assert world.command("GET", key) == b"x"


@pytest.mark.parametrize("words", FORBIDDEN)
def test_what_it_does_not_need_it_may_not_do(world: World, words: str) -> None:
    if words.startswith("FUNCTION") and b"redis_version:6." in world.command("INFO", "server"):
        pytest.skip("Redis 6.2 has no functions")
    with pytest.raises(AccessDenied):
        world.run(one(*words.split()))


@pytest.mark.parametrize("right", ["keys", "channels", "command"])
def test_what_is_taken_away_is_found(world: World, right: str) -> None:
    needed = rights_of(world.engine).needed
    kind = {"keys": "~", "channels": "&", "command": "+h"}[right]
    for rule in (each for each in needed if each.startswith(kind)):
        rest = [each for each in needed if each != rule]
        world.command("ACL", "SETUSER", world.engine.name, "reset", "resetchannels", "on", ">pw", *rest)
        found = world.run(inspection(rights_of(world.engine)))
        (lacking,) = (each.found for each in found.findings if each.name == "rights")
        assert rule in lacking.rstrip(".").split(), rule
